//! Runs of a policy at one load over all seeds, as if they were one.

use punctual_core::Nanos;

use punctual_simulator::outcome::Outcome;
use punctual_simulator::summary::{Summary, Tally};

/// Points of a curve of latencies.
const POINTS: usize = 200;

/// Runs of a policy, together.
#[derive(Clone, Debug)]
pub struct Merged {
    pub policy: String,
    /// Latencies in microseconds, rising, with the share of all requests that had their answer by then.
    pub latencies: Vec<(f64, f64)>,
    pub summary: Summary,
}

/// Puts runs of a policy together.
#[must_use]
pub fn merged<'o>(policy: &str, outcomes: impl Iterator<Item = &'o Outcome>) -> Merged {
    let (mut tally, mut duration) = (Tally::default(), Nanos::ZERO);
    for outcome in outcomes {
        tally.add(&outcome.total);
        duration += outcome.duration;
    }
    let answered = tally.answers() as f64 / tally.submitted.max(1) as f64;
    let point = |index: usize| {
        let share = index as f64 / POINTS as f64;
        let latency = tally.latencies.value_at_quantile(share);
        (latency as f64 / 1e3, share * answered)
    };
    Merged {
        policy: policy.to_owned(),
        latencies: if tally.answers() == 0 {
            Vec::new()
        } else {
            (0..=POINTS).map(point).collect()
        },
        summary: Summary::new(&tally, duration),
    }
}
