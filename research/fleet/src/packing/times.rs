//! The batching profile of a model on one kind of partition: L(b).

use punctual_core::{Nanos, SPAN_MAX};
use serde::Serialize;
use thiserror::Error;

/// How long a batch takes, by its size. Between measured sizes the next larger one counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct BatchTimes {
    /// By rising size; times never fall. Never empty.
    points: Vec<(u32, Nanos)>,
}

/// What cannot be a batching profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimesError {
    #[error("no batch size at all; give at least one")]
    Empty,
    /// Sizes that do not rise from 1 or more.
    #[error("batch size {size} after {before}; sizes rise, from 1 or more")]
    NotRising { size: u32, before: u32 },
    /// A time of nothing, or of longer than any.
    #[error("a batch of {size} takes {time}; a time is more than 0 and at most {SPAN_MAX}")]
    Impossible { size: u32, time: Nanos },
}

impl BatchTimes {
    /// The profile with these (size, time). A larger batch that was measured to be faster than a
    /// smaller one is noise; it is taken to be as slow.
    pub fn new(points: Vec<(u32, Nanos)>) -> Result<Self, TimesError> {
        if points.is_empty() {
            return Err(TimesError::Empty);
        }
        let (mut before, mut slowest) = (0, Nanos::ZERO);
        let mut checked = Vec::with_capacity(points.len());
        for (size, time) in points {
            if size <= before {
                return Err(TimesError::NotRising { size, before });
            }
            if time == Nanos::ZERO || time > SPAN_MAX {
                return Err(TimesError::Impossible { size, time });
            }
            slowest = slowest.max(time);
            checked.push((size, slowest));
            before = size;
        }
        Ok(Self { points: checked })
    }

    /// How long a batch of `size` takes; `None` if none so large was measured.
    #[must_use]
    pub fn time(&self, size: u32) -> Option<Nanos> {
        let position = self
            .points
            .partition_point(|(measured, _)| *measured < size);
        self.points.get(position).map(|(_, time)| *time)
    }

    /// The measured (size, time), by rising size.
    #[must_use]
    pub fn points(&self) -> &[(u32, Nanos)] {
        &self.points
    }

    /// The batch of the least time for each request among those that take at most `limit`: the
    /// largest, where larger batches are more efficient, as they nearly always are.
    #[must_use]
    pub fn most_efficient(&self, limit: Nanos) -> Option<(u32, Nanos)> {
        let cost = |&(size, time): &(u32, Nanos)| time.as_nanos() as f64 / f64::from(size);
        self.points
            .iter()
            .rev()
            .filter(|(_, time)| *time <= limit)
            .min_by(|a, b| cost(a).total_cmp(&cost(b)))
            .copied()
    }

    /// Both, one after the other. `None` if no size was measured for both.
    #[must_use]
    pub fn followed_by(&self, next: &Self) -> Option<Self> {
        let mut sizes: Vec<u32> = [self, next]
            .iter()
            .flat_map(|times| times.points.iter().map(|(size, _)| *size))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sum = |size| Some((size, self.time(size)? + next.time(size)?));
        Self::new(sizes.into_iter().map_while(sum).collect()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(points: &[(u32, u64)]) -> BatchTimes {
        let in_ms = |&(size, ms): &(u32, u64)| (size, Nanos::from_millis(ms));
        BatchTimes::new(points.iter().map(in_ms).collect()).expect("a profile")
    }

    #[test]
    fn between_measured_sizes_the_next_larger_one_counts() {
        let times = times(&[(4, 50), (8, 75)]);
        assert_eq!(times.time(1), Some(Nanos::from_millis(50)));
        assert_eq!(times.time(5), Some(Nanos::from_millis(75)));
        assert_eq!(times.time(9), None);
    }

    #[test]
    fn a_larger_batch_is_never_taken_to_be_faster() {
        let times = times(&[(1, 10), (2, 9), (4, 12)]);
        assert_eq!(times.time(2), Some(Nanos::from_millis(10)));
    }

    #[test]
    fn the_most_efficient_batch_is_the_largest_that_fits_unless_it_is_slower_for_each() {
        let plain = times(&[(1, 10), (2, 15), (4, 25)]);
        let of = |limit| plain.most_efficient(Nanos::from_millis(limit)).map(|b| b.0);
        assert_eq!(
            (of(25), of(24), of(10), of(9)),
            (Some(4), Some(2), Some(1), None)
        );
        let steep = times(&[(1, 10), (2, 15), (4, 40)]);
        assert_eq!(
            steep.most_efficient(Nanos::from_millis(99)).map(|b| b.0),
            Some(2)
        );
    }

    #[test]
    fn one_after_the_other_takes_both_their_times() {
        let sum = times(&[(1, 10), (4, 20)]).followed_by(&times(&[(2, 5)]));
        assert_eq!(sum, Some(times(&[(1, 15), (2, 25)])));
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        let ms = Nanos::from_millis;
        assert_eq!(BatchTimes::new(vec![]), Err(TimesError::Empty));
        let (size, before) = (4, 4);
        let twice = BatchTimes::new(vec![(4, ms(1)), (4, ms(2))]);
        assert_eq!(twice, Err(TimesError::NotRising { size, before }));
        let (size, before) = (0, 0);
        assert_eq!(
            BatchTimes::new(vec![(0, ms(1))]),
            Err(TimesError::NotRising { size, before })
        );
        let (size, time) = (1, Nanos::ZERO);
        assert_eq!(
            BatchTimes::new(vec![(1, time)]),
            Err(TimesError::Impossible { size, time })
        );
    }
}
