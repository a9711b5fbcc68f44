//! Draws of one from several.

use punctual_types::Random;

pub(super) fn below(limit: u32, random: &mut Random) -> u32 {
    random.below(limit.into()) as u32
}

/// A place in a list of this length.
pub(super) fn index(length: usize, random: &mut Random) -> usize {
    random.below(length as u64) as usize
}

/// One of a list that is not empty.
pub(super) fn pick<T: Copy>(of: &[T], random: &mut Random) -> T {
    of[index(of.len(), random)]
}

pub(super) fn any<T: Copy>(of: &[T], random: &mut Random) -> Option<T> {
    of.get(index(of.len(), random)).copied()
}
