//! The least work of stages, by how long they may take.
//!
//! A stage uses least of the device in a large batch on few units, and is fastest alone on all of
//! them. A request cannot have both: its stages run one after the other, each in one way, and their
//! times add up to no more than its window.

use punctual_core::Nanos;

/// More points than this are made fewer, in the request's favour.
const POINTS_MAX: usize = 128;

/// Ways to run stages that are not worse than another one in both: (time, work) in nanoseconds, by
/// rising time and falling work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frontier(Vec<(u64, f64)>);

impl Frontier {
    /// No stages: nothing to do, at once.
    pub(super) fn nothing() -> Self {
        Self(vec![(0, 0.0)])
    }

    /// One stage that can run in any of these ways.
    pub(super) fn of(mut ways: Vec<(u64, f64)>) -> Self {
        ways.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut kept: Vec<(u64, f64)> = Vec::new();
        for way in ways {
            if kept.last().is_none_or(|last| way.1 < last.1) {
                kept.push(way);
            }
        }
        let group = kept.len().div_ceil(POINTS_MAX).max(1);
        let best_of_both = |group: &[(u64, f64)]| (group[0].0, group[group.len() - 1].1);
        Self(kept.chunks(group).map(best_of_both).collect())
    }

    /// These stages, and then `next`.
    pub(super) fn then(&self, next: &Self) -> Self {
        let both = |first: &(u64, f64), second: &(u64, f64)| {
            (first.0.saturating_add(second.0), first.1 + second.1)
        };
        let all = self.0.iter();
        Self::of(
            all.flat_map(|first| next.0.iter().map(move |second| both(first, second)))
                .collect(),
        )
    }

    /// The least work within `window`; `None` if that is too short for every way.
    pub(super) fn least_work(&self, window: Nanos) -> Option<f64> {
        let fitting = self
            .0
            .partition_point(|(time, _)| *time <= window.as_nanos());
        Some(self.0[fitting.checked_sub(1)?].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_window_allows_less_work() {
        // Alone on all units, half of them, in a batch; and one way that is worse than the first.
        let stage = Frontier::of(vec![(30, 3.0), (10, 10.0), (16, 8.0), (11, 10.5)]);
        let work = |window| stage.least_work(Nanos::new(window));
        assert_eq!(
            [work(9), work(10), work(16), work(99)],
            [None, Some(10.0), Some(8.0), Some(3.0)]
        );
    }

    #[test]
    fn stages_share_a_window() {
        let stage = Frontier::of(vec![(30, 3.0), (10, 10.0)]);
        let both = Frontier::nothing().then(&stage).then(&stage);
        let work = |window| both.least_work(Nanos::new(window));
        assert_eq!(
            [work(19), work(20), work(40), work(60)],
            [None, Some(20.0), Some(13.0), Some(6.0)]
        );
    }

    #[test]
    fn with_too_many_ways_none_gets_dearer_or_slower() {
        let ways: Vec<(u64, f64)> = (0..10_000).map(|i| (i, 10_000.0 - i as f64)).collect();
        let thinned = Frontier::of(ways.clone());
        assert!(thinned.0.len() <= POINTS_MAX);
        for (time, work) in ways {
            let least = thinned
                .least_work(Nanos::new(time))
                .expect("the first way is kept");
            assert!(
                least <= work && least >= work - 100.0,
                "{time}: {least}, {work}"
            );
        }
    }
}
