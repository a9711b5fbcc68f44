//! Objects whose words around the mask mean something to the driver: a program that writes a mask at a wrong place does
//! harm, as it does to a real driver.
use std::sync::atomic::{AtomicU32, Ordering};

use super::objects::OBJECT_WORDS;

/// What a launch meets in an object with a damaged word, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Harm {
    /// The word had no meaning.
    None,
    /// The launch never ends.
    Hangs,
    /// The launch fails, and with it the context.
    Fails,
    /// The process ends.
    Dies,
}

/// What a word of an object holds.
pub(super) fn word(seed: u64, at: usize) -> u32 {
    (mixed(seed, at) >> 32) as u32
}

fn mixed(seed: u64, at: usize) -> u64 {
    let mut mixed = seed ^ (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ mixed >> 31).wrapping_mul(factor);
    }
    mixed ^ mixed >> 31
}

/// What follows from damage to a word. Few of them hang, as somebody then waits.
fn harm(seed: u64, at: usize) -> Harm {
    match mixed(seed, at) % 64 {
        0 => Harm::Hangs,
        1..12 => Harm::Dies,
        12..28 => Harm::Fails,
        _ => Harm::None,
    }
}

/// Gives all words of an object their meaning, but for those of the mask.
pub(super) fn fill(seed: u64, object: &[AtomicU32; OBJECT_WORDS], mask: std::ops::Range<usize>) {
    for (at, place) in object.iter().enumerate() {
        if !mask.contains(&at) {
            // Relaxed: no other thread knows the object yet.
            place.store(word(seed, at), Ordering::Relaxed);
        }
    }
}

/// What follows from the damage to an object: the worst that any word's does.
pub(super) fn met(
    seed: u64,
    object: &[AtomicU32; OBJECT_WORDS],
    mask: std::ops::Range<usize>,
) -> Harm {
    let words = object.iter().enumerate();
    // Relaxed: who writes a word then launches, and the launch takes a lock.
    let damaged = words.filter(|(at, place)| {
        !mask.contains(at) && place.load(Ordering::Relaxed) != word(seed, *at)
    });
    let harms = damaged.map(|(at, _)| harm(seed, at));
    harms.max().unwrap_or(Harm::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_harm_is_met_somewhere_and_an_object_that_is_whole_meets_none() {
        let object = [const { AtomicU32::new(0) }; OBJECT_WORDS];
        fill(7, &object, 300..305);
        assert_eq!(met(7, &object, 300..305), Harm::None);
        object[302].store(1, Ordering::Relaxed);
        assert_eq!(met(7, &object, 300..305), Harm::None, "the mask itself");
        let mut seen = Vec::new();
        for at in (0..OBJECT_WORDS).filter(|at| !(300..305).contains(at)) {
            object[at].fetch_xor(1, Ordering::Relaxed);
            seen.push(met(7, &object, 300..305));
            object[at].fetch_xor(1, Ordering::Relaxed);
        }
        for harm in [Harm::None, Harm::Fails, Harm::Hangs, Harm::Dies] {
            assert!(seen.contains(&harm), "{harm:?}");
        }
    }
}
