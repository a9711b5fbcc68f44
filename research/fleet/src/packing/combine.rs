//! Sessions whose networks begin with the same stages, as one session (section 6.3, prefix batching).

use super::rate::Rate;
use super::times::BatchTimes;

/// What one of the sessions does after the shared stages.
#[derive(Clone, Debug)]
pub struct Branch {
    pub rate: Rate,
    /// L(b) of its own stages; `None` if it has none.
    pub times: Option<BatchTimes>,
}

/// L(b) of a batch of requests for any of the branches, mixed as their rates are: the shared stages
/// for all, then each branch's own stages for its part, one after the other. `None` if no batch size
/// is possible for all of them.
#[must_use]
pub fn combine(shared: &BatchTimes, branches: &[Branch]) -> Option<BatchTimes> {
    let total = branches
        .iter()
        .fold(Rate::ZERO, |sum, branch| sum + branch.rate);
    if total == Rate::ZERO {
        return None;
    }
    let batch = |&(size, time): &(u32, _)| {
        let own = |branch: &Branch| {
            let part = branch.rate.share(total, size);
            branch
                .times
                .as_ref()
                .filter(|_| part > 0)
                .map(|times| times.time(part))
        };
        let mut sum = time;
        for own in branches.iter().filter_map(own) {
            sum += own?;
        }
        Some((size, sum))
    };
    BatchTimes::new(shared.points().iter().map_while(batch).collect()).ok()
}

#[cfg(test)]
mod tests {
    use punctual_core::Nanos;

    use super::*;

    fn times(points: &[(u32, u64)]) -> BatchTimes {
        let in_ms = |&(size, ms): &(u32, u64)| (size, Nanos::from_millis(ms));
        BatchTimes::new(points.iter().map(in_ms).collect()).expect("a profile")
    }

    fn branch(hz: f64, own: Option<BatchTimes>) -> Branch {
        let rate = Rate::from_hz(hz);
        Branch { rate, times: own }
    }

    #[test]
    fn the_shared_stages_run_once_and_each_branch_for_its_part() {
        let shared = times(&[(1, 10), (4, 20), (8, 30)]);
        let own = times(&[(1, 1), (2, 2), (8, 5)]);
        // Of eight, six are for the first and two for the second.
        let both = combine(
            &shared,
            &[branch(30.0, Some(own.clone())), branch(10.0, Some(own))],
        );
        assert_eq!(both, Some(times(&[(1, 12), (4, 26), (8, 37)])));
    }

    #[test]
    fn a_branch_without_stages_of_its_own_adds_nothing() {
        let shared = times(&[(1, 10), (4, 20)]);
        let alone = combine(&shared, &[branch(30.0, None), branch(10.0, None)]);
        assert_eq!(alone, Some(shared));
    }

    #[test]
    fn a_batch_that_a_branch_was_not_measured_for_is_left_out() {
        let shared = times(&[(1, 10), (8, 20)]);
        let combined = combine(&shared, &[branch(30.0, Some(times(&[(1, 1)])))]);
        assert_eq!(combined, Some(times(&[(1, 11)])));
    }
}
