//! One run in figures: what `--json` prints.

use punctual_core::Nanos;
use serde::{Deserialize, Serialize};

use punctual_simulator::summary::{Latency, Summary};

/// One run of one policy on one workload. Shares and accuracies are 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub workload: String,
    pub policy: String,
    /// By how much the workload's rates were multiplied.
    pub load: f64,
    pub seed: u64,
    pub submitted: u64,
    /// Late, rejected, failed or lost.
    pub missed: u64,
    pub late: u64,
    pub rejected: u64,
    pub failed: u64,
    /// Without a verdict. Anything but 0 is a fault of the policy.
    pub lost: u64,
    /// Of the missed: told before their deadlines that there will be no answer, when the camera can still act.
    pub told_early: u64,
    /// Of the missed: at their deadlines without a word, and never answered.
    pub silent: u64,
    /// Mean time from submission until those were told, in microseconds.
    pub told_us: f64,
    /// Share of right answers among the answers.
    pub accuracy: f64,
    /// Share of right answers among all requests: what was not answered counts as wrong.
    pub accuracy_all: f64,
    /// Share of right answers on time among all requests.
    pub accuracy_on_time: f64,
    /// What `accuracy_all` would be if every request had got the last exit's answer.
    pub accuracy_full_depth: f64,
    /// What no scheduler could exceed in `accuracy_all` on these requests, knowing all before; none
    /// if it was not computed, or has no meaning (requests without deadlines).
    pub accuracy_bound: Option<f64>,
    /// From the intended submission to the answer, in microseconds.
    pub latency_us: Latency,
    /// Answers on time, a second.
    pub goodput_per_s: f64,
    /// Answers a second, divided by the mean latency in seconds, times `accuracy` (SEEB-GPU, equation 1).
    pub gpu_efficacy: f64,
}

impl Row {
    #[must_use]
    pub fn new(workload: &str, policy: &str, load: f64, seed: u64, summary: &Summary) -> Self {
        Self {
            workload: workload.to_owned(),
            policy: policy.to_owned(),
            load,
            seed,
            submitted: summary.submitted,
            missed: summary.missed,
            late: summary.late,
            rejected: summary.rejected.sum(),
            failed: summary.failed.sum(),
            lost: summary.lost,
            told_early: summary.told_early,
            silent: summary.silent(),
            told_us: summary.told_us,
            accuracy: summary.accuracy,
            accuracy_all: summary.accuracy_all,
            accuracy_on_time: summary.accuracy_on_time,
            accuracy_full_depth: summary.accuracy_full_depth,
            accuracy_bound: None,
            latency_us: summary.latency_us,
            goodput_per_s: summary.goodput_per_s,
            gpu_efficacy: summary.gpu_efficacy,
        }
    }

    /// Share of requests that were not answered before their deadlines.
    #[must_use]
    pub fn missed_share(&self) -> f64 {
        self.share(self.missed)
    }

    /// Share of requests of which the camera knew nothing at their deadlines.
    #[must_use]
    pub fn untold_share(&self) -> f64 {
        self.share(self.late + self.silent)
    }

    /// Of the requests.
    pub(super) fn share(&self, count: u64) -> f64 {
        count as f64 / self.submitted.max(1) as f64
    }
}

/// Runs of the same policy at the same load, over all seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<'r> {
    pub policy: &'r str,
    pub load: f64,
    pub rows: Vec<&'r Row>,
}

impl Group<'_> {
    /// The mean of a figure over the seeds.
    pub fn mean(&self, figure: impl Fn(&Row) -> f64) -> f64 {
        let sum: f64 = self.rows.iter().map(|row| figure(row)).sum();
        sum / self.rows.len().max(1) as f64
    }

    /// The mean bound, if every run has one.
    #[must_use]
    pub fn bound(&self) -> Option<f64> {
        let bounds: Option<Vec<f64>> = self.rows.iter().map(|row| row.accuracy_bound).collect();
        let bounds = bounds.filter(|bounds| !bounds.is_empty())?;
        Some(bounds.iter().sum::<f64>() / bounds.len() as f64)
    }
}

/// Groups rows by policy and load, in the order in which they first occur.
#[must_use]
pub fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let same = |group: &&mut Group<'_>| {
            group.policy == row.policy && group.load.to_bits() == row.load.to_bits()
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group {
                policy: &row.policy,
                load: row.load,
                rows: vec![row],
            }),
        }
    }
    groups
}

/// A span in the unit that suits it, for people.
#[must_use]
pub fn span(us: f64) -> String {
    if us == 0.0 {
        return "-".into();
    }
    Nanos::new((us * 1e3) as u64).to_string()
}
