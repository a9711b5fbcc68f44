//! Sets of streaming multiprocessors.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Multiprocessors by the numbers that kernels see (`%smid`), from 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct SmSet {
    words: [u64; WORDS],
}

/// Four times 64: today's largest devices have fewer than 200 multiprocessors.
const WORDS: usize = 4;

/// A number that no multiprocessor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("multiprocessor {sm}: numbers go up to {}", SmSet::SMS_MAX - 1)]
pub struct NoSuchSm {
    pub sm: u32,
}

impl SmSet {
    /// One more than the largest number.
    pub const SMS_MAX: u32 = u64::BITS * WORDS as u32;

    /// Those from 0 to before `count`.
    pub fn first(count: u32) -> Result<Self, NoSuchSm> {
        Self::of(0..count)
    }

    pub fn of(sms: impl IntoIterator<Item = u32>) -> Result<Self, NoSuchSm> {
        let mut set = Self::default();
        for sm in sms {
            set.insert(sm)?;
        }
        Ok(set)
    }

    pub fn insert(&mut self, sm: u32) -> Result<(), NoSuchSm> {
        let word = self.words.get_mut((sm / u64::BITS) as usize);
        *word.ok_or(NoSuchSm { sm })? |= 1 << (sm % u64::BITS);
        Ok(())
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(&self, sm: u32) -> bool {
        let word = self.words.get((sm / u64::BITS) as usize);
        word.is_some_and(|word| word >> (sm % u64::BITS) & 1 == 1)
    }

    #[must_use]
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words == [0; WORDS]
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// Those of this set that the other has not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// Whether the sets have none in common.
    #[must_use]
    pub fn is_disjoint(self, other: Self) -> bool {
        self.intersection(other).is_empty()
    }

    /// They, rising.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..Self::SMS_MAX).filter(|sm| self.contains(*sm))
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            words: std::array::from_fn(|at| with(self.words[at], other.words[at])),
        }
    }
}

/// As ranges: `0-13, 20`.
impl fmt::Display for SmSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sms = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = sms.next() {
            let mut last = first;
            while let Some(next) = sms.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ", ";
        }
        match separator {
            "" => f.write_str("none"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for SmSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmSet({self})")
    }
}

impl TryFrom<Vec<u32>> for SmSet {
    type Error = NoSuchSm;

    fn try_from(sms: Vec<u32>) -> Result<Self, NoSuchSm> {
        Self::of(sms)
    }
}

impl From<SmSet> for Vec<u32> {
    fn from(set: SmSet) -> Self {
        set.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(sms: &[u32]) -> SmSet {
        SmSet::of(sms.iter().copied()).expect("small numbers")
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let some = set(&[0, 63, 64, 255]);
        assert_eq!(some.count(), 4);
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert!(!some.contains(1) && !some.contains(256));
        assert_eq!(SmSet::first(3), Ok(set(&[0, 1, 2])));
        assert_eq!(SmSet::first(0), Ok(SmSet::default()));
    }

    #[test]
    fn numbers_beyond_the_largest_are_refused() {
        assert_eq!(SmSet::of([256]), Err(NoSuchSm { sm: 256 }));
        assert_eq!(SmSet::first(257), Err(NoSuchSm { sm: 256 }));
    }

    #[test]
    fn sets_are_joined_and_cut() {
        let (a, b) = (set(&[1, 2, 200]), set(&[2, 3]));
        assert_eq!(a.union(b), set(&[1, 2, 3, 200]));
        assert_eq!(a.intersection(b), set(&[2]));
        assert_eq!(a.without(b), set(&[1, 200]));
        assert!(!a.is_disjoint(b) && a.is_disjoint(set(&[3])));
    }

    #[test]
    fn a_set_reads_as_ranges() {
        assert_eq!(set(&[0, 1, 2, 7, 9, 10]).to_string(), "0-2, 7, 9-10");
        assert_eq!(SmSet::default().to_string(), "none");
    }
}
