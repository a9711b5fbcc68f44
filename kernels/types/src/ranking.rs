//! The order of values when the first `k` are chosen.

use serde::{Deserialize, Serialize};

/// An order of values that have positions. NaN comes behind all others, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranking {
    /// Whether the largest comes first; otherwise the smallest.
    pub largest: bool,
    /// Whether of equal values the one at the higher position comes first.
    pub last: bool,
}

impl Ranking {
    /// A key for sorting: the larger it is, the earlier the value comes.
    #[must_use]
    #[inline(always)]
    pub fn key(self, value: f32, number: u32) -> i64 {
        let value = if self.largest { value } else { -value };
        // Adding 0 makes the zeros equal. The bits of floats that are not negative are in their order.
        let bits = (value + 0.0).to_bits() as i32;
        let ordered = if bits < 0 { bits ^ i32::MAX } else { bits };
        let ordered = if value.is_nan() { i32::MIN } else { ordered };
        (i64::from(ordered) << 32) | i64::from(self.rank(number))
    }

    /// The position of the value that has this key.
    #[must_use]
    #[inline(always)]
    pub fn number(self, key: i64) -> u32 {
        self.rank(key as u32)
    }

    #[inline(always)]
    fn rank(self, number: u32) -> u32 {
        if self.last { number } else { !number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_by_size_then_by_number_and_what_is_none_comes_last() {
        let values = [
            1.0,
            f32::NAN,
            3.0,
            -0.0,
            3.0,
            0.0,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        let sorted = |largest, last| {
            let ranking = Ranking { largest, last };
            let mut numbers: Vec<u32> = (0..values.len() as u32).collect();
            let key = |at: u32| ranking.key(values[at as usize], at);
            numbers.sort_by_key(|&at| std::cmp::Reverse(key(at)));
            assert!(numbers.iter().all(|&at| ranking.number(key(at)) == at));
            numbers
        };
        assert_eq!(sorted(true, false), [2, 4, 0, 3, 5, 6, 1, 7]);
        assert_eq!(sorted(true, true), [4, 2, 0, 5, 3, 6, 7, 1]);
        assert_eq!(sorted(false, false), [6, 3, 5, 0, 2, 4, 1, 7]);
    }
}
