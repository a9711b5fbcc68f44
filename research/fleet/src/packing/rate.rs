//! How often something is asked for.

use std::fmt;
use std::ops::{Add, Sub};

use punctual_core::Nanos;
use serde::{Serialize, Serializer};

/// A thousand seconds in nanoseconds: with rates in thousandths of a hertz, counts are whole.
const THOUSAND_SECONDS: u128 = 1_000_000_000_000;

/// Requests a second, in whole thousandths: batch sizes and cycles follow without rounding twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// Never.
    pub const ZERO: Self = Self(0);

    /// That many requests a second, rounded to a thousandth; none for a negative number or NaN.
    #[must_use]
    pub fn from_hz(hz: f64) -> Self {
        // A cast saturates.
        Self((hz * 1e3).round() as u64)
    }

    /// Requests a second.
    #[must_use]
    pub fn hz(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The rate at which `count` requests a `span` are used up, rounded down.
    ///
    /// # Panics
    /// If `span` is zero.
    #[must_use]
    pub fn of(count: u32, span: Nanos) -> Self {
        let rate = u128::from(count) * THOUSAND_SECONDS / u128::from(span.as_nanos());
        Self(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// The most requests that arrive within `span` at even distances, at least one.
    #[must_use]
    pub fn within(self, span: Nanos) -> u32 {
        let count = (u128::from(span.as_nanos()) * u128::from(self.0)).div_ceil(THOUSAND_SECONDS);
        u32::try_from(count.max(1)).unwrap_or(u32::MAX)
    }

    /// The longest span within which no more than `count` arrive; the longest there is at rate 0.
    #[must_use]
    pub fn span_of(self, count: u32) -> Nanos {
        let span = (u128::from(count) * THOUSAND_SECONDS).checked_div(u128::from(self.0));
        Nanos::new(span.map_or(u64::MAX, |span| u64::try_from(span).unwrap_or(u64::MAX)))
    }

    /// How many times `other` it is, and what then remains; all of it remains of none.
    #[must_use]
    pub fn divide(self, other: Self) -> (u64, Self) {
        let times = self.0.checked_div(other.0).unwrap_or(0);
        (times, Self(self.0 - times * other.0))
    }

    /// The part of `count` that is `self`'s share of `total`, rounded up.
    ///
    /// # Panics
    /// If `total` is zero.
    #[must_use]
    pub fn share(self, total: Self, count: u32) -> u32 {
        let share = (u128::from(count) * u128::from(self.0)).div_ceil(u128::from(total.0));
        u32::try_from(share).unwrap_or(u32::MAX)
    }
}

impl Add for Rate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Rate {
    type Output = Self;
    /// What is left, at least nothing.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} Hz", self.hz())
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.hz())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_holds_no_more_than_it_was_made_for() {
        for millihertz in [1, 7, 999, 64_000, 123_456_789] {
            let rate = Rate(millihertz);
            for count in [1, 2, 3, 31, 1000] {
                assert_eq!(rate.within(rate.span_of(count)), count, "{rate:?} {count}");
            }
        }
    }

    #[test]
    fn sixty_four_a_second_are_eight_in_125_ms() {
        let rate = Rate::from_hz(64.0);
        assert_eq!(rate.span_of(8), Nanos::from_millis(125));
        assert_eq!(rate.within(Nanos::from_millis(125)), 8);
        assert_eq!(rate.within(Nanos::new(125_000_001)), 9);
        assert_eq!(Rate::of(8, Nanos::from_millis(125)), rate);
    }

    #[test]
    fn a_rate_that_is_no_number_is_none() {
        assert_eq!(Rate::from_hz(f64::NAN), Rate::ZERO);
        assert_eq!(Rate::from_hz(-3.0), Rate::ZERO);
        assert_eq!(Rate::ZERO.span_of(1), Nanos::MAX);
        assert_eq!(Rate::ZERO.within(Nanos::MAX), 1);
    }
}
