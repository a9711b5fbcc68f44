//! The figures that policies are compared by.

use hdrhistogram::Histogram;
use punctual_core::{Failure, Nanos, Rejection, TaskId, Verdict};
use serde::{Deserialize, Serialize};

use crate::outcome::Served;

/// Requests counted by what became of them.
///
/// `submitted = on_time + late + rejected + failed + lost`, always.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    pub rejected: Rejected,
    /// Taken on and not answered, by reason.
    pub failed: Failed,
    /// Without any verdict.
    pub lost: u64,
    /// Answers by the exit that they came from.
    pub exits: Vec<u64>,
    /// Right answers, late ones included.
    pub correct: u64,
    /// Right answers before their deadlines.
    pub correct_on_time: u64,
    /// Requests that the last exit would have answered rightly.
    pub correct_at_full_depth: u64,
    /// Sum of the times from submission to refusal.
    pub until_rejected: Nanos,
    /// Of those rejected or failed: told so before their deadlines, when the camera can still act.
    pub told_early: u64,
    /// Sum of the times from submission to that.
    pub until_told: Nanos,
    /// Times from the intended submission to the answer, in nanoseconds, to three digits.
    pub latencies: Histogram<u32>,
}

/// The queries of a pipeline. One is on time if its frame and all its parts that count are answered by the parts' deadline:
/// the parts of best-effort followers count if the root is best-effort, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queries {
    pub root: TaskId,
    pub submitted: u64,
    pub on_time: u64,
    /// Those that count.
    pub parts: u64,
    pub parts_on_time: u64,
}

impl Queries {
    pub(crate) const fn of(root: TaskId) -> Self {
        Self {
            root,
            submitted: 0,
            on_time: 0,
            parts: 0,
            parts_on_time: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// It could not be on time even alone.
    pub late_on_arrival: u64,
    pub no_slack: u64,
    /// Its queue, or the request buffers, were full.
    pub queue_full: u64,
    pub draining: u64,
    /// A newer frame of the same client took its place.
    #[serde(default)]
    pub superseded: u64,
    /// Best-effort work was given up.
    #[serde(default)]
    pub shedding: u64,
    /// Its network was not loaded yet. Left out if there is none, so that hashes of earlier runs hold.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_ready: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Rejected {
    #[must_use]
    pub const fn sum(&self) -> u64 {
        let own = self.late_on_arrival + self.no_slack + self.queue_full + self.draining;
        own + self.superseded + self.shedding + self.not_ready
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub device: u64,
    /// The payload could not be read.
    pub payload: u64,
    pub client_gone: u64,
    pub shed: u64,
}

impl Failed {
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.device + self.payload + self.client_gone + self.shed
    }
}

impl Default for Tally {
    fn default() -> Self {
        let mut latencies = Histogram::new(3).expect("three digits are allowed");
        latencies.auto(true);
        Self {
            submitted: 0,
            on_time: 0,
            late: 0,
            rejected: Rejected::default(),
            failed: Failed::default(),
            lost: 0,
            exits: Vec::new(),
            correct: 0,
            correct_on_time: 0,
            correct_at_full_depth: 0,
            until_rejected: Nanos::ZERO,
            told_early: 0,
            until_told: Nanos::ZERO,
            latencies,
        }
    }
}

impl Tally {
    pub fn count(&mut self, served: &Served) {
        self.submitted += 1;
        self.correct_at_full_depth += u64::from(served.correct_at_full_depth);
        match served.verdict {
            None => self.lost += 1,
            Some(Verdict::OnTime) => {
                self.on_time += 1;
                self.correct_on_time += u64::from(served.correct);
                self.answered(served);
            }
            Some(Verdict::Late) => {
                self.late += 1;
                self.answered(served);
            }
            Some(Verdict::Rejected(reason)) => {
                *self.rejected.of(reason) += 1;
                self.until_rejected += served.ended.since(served.submitted);
                self.not_answered(served);
            }
            Some(Verdict::Failed(reason)) => {
                *self.failed.of(reason) += 1;
                self.not_answered(served);
            }
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.submitted += other.submitted;
        self.on_time += other.on_time;
        self.late += other.late;
        self.rejected.add(&other.rejected);
        self.failed.add(&other.failed);
        self.lost += other.lost;
        let exits = self.exits.len().max(other.exits.len());
        self.exits.resize(exits, 0);
        for (exit, count) in self.exits.iter_mut().zip(&other.exits) {
            *exit += count;
        }
        self.correct += other.correct;
        self.correct_on_time += other.correct_on_time;
        self.correct_at_full_depth += other.correct_at_full_depth;
        self.until_rejected += other.until_rejected;
        self.told_early += other.told_early;
        self.until_told += other.until_told;
        let added = self.latencies.add(&other.latencies);
        added.expect("a histogram that grows holds any other");
    }

    fn not_answered(&mut self, served: &Served) {
        if served.ended < served.deadline {
            self.told_early += 1;
            self.until_told += served.ended.since(served.submitted);
        }
    }

    fn answered(&mut self, served: &Served) {
        self.correct += u64::from(served.correct);
        // Not `saturating_record`: that one never lets the histogram grow.
        let recorded = self.latencies.record(served.latency().as_nanos());
        recorded.expect("a histogram that grows holds any latency");
        if let Some(exit) = served.exit {
            if self.exits.len() <= exit.index() {
                self.exits.resize(exit.index() + 1, 0);
            }
            self.exits[exit.index()] += 1;
        }
    }

    /// Answers, on time or late.
    #[must_use]
    pub const fn answers(&self) -> u64 {
        self.on_time + self.late
    }

    /// Requests that were not answered before their deadlines, for whatever reason.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.late + self.rejected.sum() + self.failed.sum() + self.lost
    }
}

impl Rejected {
    fn add(&mut self, other: &Self) {
        self.late_on_arrival += other.late_on_arrival;
        self.no_slack += other.no_slack;
        self.queue_full += other.queue_full;
        self.draining += other.draining;
        self.superseded += other.superseded;
        self.shedding += other.shedding;
        self.not_ready += other.not_ready;
    }

    fn of(&mut self, reason: Rejection) -> &mut u64 {
        match reason {
            Rejection::LateOnArrival => &mut self.late_on_arrival,
            Rejection::NoSlack => &mut self.no_slack,
            Rejection::QueueFull => &mut self.queue_full,
            Rejection::Draining => &mut self.draining,
            Rejection::Superseded => &mut self.superseded,
            Rejection::Shedding => &mut self.shedding,
            Rejection::NotReady => &mut self.not_ready,
        }
    }
}

impl Failed {
    fn add(&mut self, other: &Self) {
        self.device += other.device;
        self.payload += other.payload;
        self.client_gone += other.client_gone;
        self.shed += other.shed;
    }

    fn of(&mut self, reason: Failure) -> &mut u64 {
        match reason {
            Failure::Device | Failure::Starved => &mut self.device,
            Failure::Payload | Failure::NotFinite | Failure::Vector => &mut self.payload,
            Failure::ClientGone => &mut self.client_gone,
            Failure::Shed => &mut self.shed,
        }
    }
}

/// The figures of a set of requests. Shares are 0 to 1; those of nothing are 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub submitted: u64,
    pub on_time: u64,
    /// Late, rejected, failed or lost.
    pub missed: u64,
    pub late: u64,
    pub rejected: Rejected,
    pub failed: Failed,
    /// Without a verdict.
    pub lost: u64,
    /// Share of right answers among the answers.
    pub accuracy: f64,
    /// Share of right answers among all requests: what was not answered counts as wrong.
    pub accuracy_all: f64,
    /// Share of right answers before the deadline among all requests.
    pub accuracy_on_time: f64,
    /// Share of all requests that the last exit would have answered rightly.
    pub accuracy_full_depth: f64,
    /// Answers by the exit that they came from.
    pub exits: Vec<u64>,
    /// From the intended submission to the answer.
    pub latency_us: Latency,
    /// Answers on time, a second of the workload's duration.
    pub goodput_per_s: f64,
    /// Answers a second, divided by the mean latency in seconds, times `accuracy` (SEEB-GPU, equation 1).
    pub gpu_efficacy: f64,
    /// Mean time from submission to refusal, in microseconds.
    pub reject_us: f64,
    /// Of the missed: told so before their deadlines, when the camera can still act. Left out of the JSON, whose hashes are recorded
    /// (`testing/golden`).
    #[serde(skip)]
    pub told_early: u64,
    /// Mean time from submission to that, in microseconds.
    #[serde(skip)]
    pub told_us: f64,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    /// Of a hundred, one is longer.
    pub p99: f64,
    /// Of a thousand, one is longer.
    pub p999: f64,
    pub max: f64,
    pub mean: f64,
}

impl Summary {
    /// Of what was counted in `duration`.
    #[must_use]
    pub fn new(tally: &Tally, duration: Nanos) -> Self {
        let seconds = duration.as_nanos() as f64 / 1e9;
        let latency_us = Latency::of(&tally.latencies);
        let accuracy = share(tally.correct, tally.answers());
        let throughput = ratio(tally.answers() as f64, seconds);
        Self {
            submitted: tally.submitted,
            on_time: tally.on_time,
            missed: tally.missed(),
            late: tally.late,
            rejected: tally.rejected,
            failed: tally.failed,
            lost: tally.lost,
            accuracy,
            accuracy_all: share(tally.correct, tally.submitted),
            accuracy_on_time: share(tally.correct_on_time, tally.submitted),
            accuracy_full_depth: share(tally.correct_at_full_depth, tally.submitted),
            exits: tally.exits.clone(),
            latency_us,
            goodput_per_s: ratio(tally.on_time as f64, seconds),
            gpu_efficacy: ratio(throughput * accuracy, latency_us.mean / 1e6),
            reject_us: ratio(
                tally.until_rejected.as_nanos() as f64 / 1e3,
                tally.rejected.sum() as f64,
            ),
            told_early: tally.told_early,
            told_us: ratio(
                tally.until_told.as_nanos() as f64 / 1e3,
                tally.told_early as f64,
            ),
        }
    }
}

impl Summary {
    /// Requests without a word at their deadlines, and without an answer later: refused or failed then, or lost.
    #[must_use]
    pub const fn silent(&self) -> u64 {
        self.missed - self.late - self.told_early
    }
}

impl Latency {
    fn of(histogram: &Histogram<u32>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let us = |share| histogram.value_at_quantile(share) as f64 / 1e3;
        Self {
            p50: us(0.5),
            p99: us(0.99),
            p999: us(0.999),
            max: histogram.max() as f64 / 1e3,
            mean: histogram.mean() / 1e3,
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn share(part: u64, whole: u64) -> f64 {
    ratio(part as f64, whole as f64)
}

#[cfg(test)]
mod tests {
    use punctual_core::{Instant, StageId, TaskId};

    use super::*;

    fn answered(latency: Nanos) -> Served {
        Served {
            task: TaskId(0),
            intended: Instant::ZERO,
            submitted: Instant::ZERO,
            deadline: Instant::FAR_FUTURE,
            ended: Instant::ZERO + latency,
            verdict: Some(Verdict::OnTime),
            exit: Some(StageId(1)),
            correct: true,
            correct_at_full_depth: true,
            sample: 0,
        }
    }

    #[test]
    fn who_is_refused_before_the_deadline_is_told_early() {
        let mut tally = Tally::default();
        let refused = |verdict, ms| Served {
            deadline: Instant::ZERO + Nanos::from_millis(50),
            verdict: Some(verdict),
            exit: None,
            ..answered(Nanos::from_millis(ms))
        };
        tally.count(&refused(Verdict::Rejected(Rejection::NoSlack), 1));
        tally.count(&refused(Verdict::Failed(Failure::Shed), 3));
        tally.count(&refused(Verdict::Rejected(Rejection::NoSlack), 50));
        let mut twice = tally.clone();
        twice.add(&tally);
        let summary = Summary::new(&twice, Nanos::from_millis(1000));
        assert_eq!((summary.missed, summary.told_early), (6, 4));
        assert!((summary.told_us - 2000.0).abs() < 1e-9, "{summary:?}");
    }

    #[test]
    fn latencies_of_any_length_are_told_to_three_digits_alone_and_added() {
        let (mut short, mut long) = (Tally::default(), Tally::default());
        for ms in 1..=100 {
            short.count(&answered(Nanos::from_millis(ms)));
        }
        long.count(&answered(Nanos::from_millis(3_600_000)));
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 1e-3, "{got} {want}");
        let latency = Summary::new(&short, Nanos::from_millis(1000)).latency_us;
        near(latency.p50, 50e3);
        near(latency.p99, 99e3);
        near(latency.max, 100e3);
        short.add(&long);
        near(
            Summary::new(&short, Nanos::from_millis(1000))
                .latency_us
                .max,
            3.6e9,
        );
        assert_eq!((short.submitted, short.exits.clone()), (101, vec![0, 101]));
    }
}
