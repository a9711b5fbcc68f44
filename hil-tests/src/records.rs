//! What the agent's cameras and watchers write, and the rig reads: one JSON object a line.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency that is told apart: a minute, in microseconds.
const LATENCY_US_MAX: u64 = 60_000_000;

/// How many spans of what was late or slow are described one by one.
pub const SPANS_MAX: usize = 4096;

/// A camera's account: every frame that it handed over is in exactly one of `on_time`, `late`,
/// `rejected`, `failed`, `gone` and `open`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CameraCounts {
    pub task: String,
    pub submitted: u64,
    /// Answers read before their deadline.
    pub on_time: u64,
    /// Answers read after it.
    pub late: u64,
    /// Not taken on, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Taken on and not answered, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Without a verdict when the daemon went away.
    pub gone: u64,
    /// Submitted and without a verdict when the camera had waited long enough.
    pub open: u64,
    /// Verdicts for frames that had one already, or never were.
    pub unasked: u64,
    /// Frames dropped by the camera, every slot being in flight.
    pub skipped: u64,
    /// Frames dropped by the camera while there was no daemon.
    pub offline: u64,
    pub connected: u64,
    /// From capture to the reading of an answer.
    pub latency_us: Latencies,
    /// `[captured, read]` of late answers, monotonic ns; the first [`SPANS_MAX`].
    pub late_spans_ns: Vec<[u64; 2]>,
    /// Likewise of frames that were refused or failed.
    pub unserved_spans_ns: Vec<[u64; 2]>,
    /// Times without a daemon.
    pub outages: Vec<Outage>,
    /// True in the last line.
    pub finished: bool,
}

/// A time without a daemon, in monotonic ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    pub noticed_ns: u64,
    /// When it had a connection again; 0: not yet.
    pub connected_ns: u64,
    /// When it read its first answer that was on time; 0: not yet.
    pub on_time_ns: u64,
}

/// Quantiles and buckets, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    pub count: u64,
    pub p50: u64,
    /// 99 of 100 are not above it.
    pub p99: u64,
    /// 999 of 1000 are not above it.
    pub p999: u64,
    pub max: u64,
    /// `[upper edge, count]`, edges a quarter apart; empty ones are left out.
    pub buckets: Vec<[u64; 2]>,
}

impl CameraCounts {
    /// All that were not taken on.
    #[must_use]
    pub fn rejected_total(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// All that were taken on and not answered.
    #[must_use]
    pub fn failed_total(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Frames with a verdict of the daemon.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.on_time + self.late + self.rejected_total() + self.failed_total()
    }

    /// Frames in no column: must be 0 in finished counts.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.submitted.saturating_sub(self.settled() + self.gone)
    }
}

impl Latencies {
    /// An empty histogram of microseconds, to three digits.
    #[must_use]
    pub fn histogram() -> Histogram<u64> {
        Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are constants")
    }

    /// What a histogram of microseconds holds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let buckets = histogram
            .iter_log(1, 1.25)
            .map(|step| {
                [
                    step.value_iterated_to() + 1,
                    step.count_since_last_iteration(),
                ]
            })
            .filter(|[_, count]| *count > 0);
        Self {
            count: histogram.len(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
            buckets: buckets.collect(),
        }
    }
}

/// What happened to the daemon that the agent looks after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ServiceEvent {
    Started {
        pid: u32,
        /// When, monotonic.
        at_ns: u64,
    },
    /// It said that it is ready.
    Ready {
        /// When, monotonic.
        at_ns: u64,
    },
    /// It said something else to its service manager.
    Status {
        words: String,
        /// When, monotonic.
        at_ns: u64,
    },
    Ended {
        /// With this code, unless by a signal.
        code: Option<i32>,
        /// By this signal, unless with a code.
        signal: Option<i32>,
        /// When, monotonic.
        at_ns: u64,
    },
}

/// What a process was at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When, monotonic.
    pub at_ns: u64,
    pub rss_kib: u64,
    pub descriptors: u64,
    pub threads: u64,
    /// What it has computed for, in all.
    pub cpu_ms: u64,
    /// What its clients' ports have.
    pub ports_cpu_ms: u64,
}

/// An act of the agent and its moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackCounts {
    /// Connections made, and what else was done.
    pub acts: u64,
    /// Connections that were admitted as clients.
    pub admitted: u64,
    pub ended: u64,
    pub descriptors: u64,
    pub waiters: u64,
    /// Punches into shared memory, collapses of it and other work on it that the kernel carried out.
    #[serde(default)]
    pub changes: u64,
    /// Collapses among them of memory that only the daemon writes, for which its workers would have to wait.
    #[serde(default)]
    pub outputs: u64,
    /// Punches among them into memory that the daemon has sealed, whose threads would have to wait for their end.
    #[serde(default)]
    pub holes: u64,
    /// True in the last line.
    pub finished: bool,
}

/// How a daemon answered who asked all the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    pub asked: u64,
    /// Questions without an answer.
    pub unanswered: u64,
    /// From a question to the end of its answer, or to its failure.
    pub answer_us: Latencies,
    /// `[asked, answered]` of slow ones, monotonic ns; the first [`SPANS_MAX`].
    pub slow_ns: Vec<[u64; 2]>,
    /// Honest clients that were admitted.
    pub admitted: u64,
    /// Honest clients that were not.
    pub refused_clients: u64,
    /// From a client's first try to its welcome, or to its giving up.
    pub admission_us: Latencies,
    /// As `slow_ns`, of the clients.
    pub slow_visits_ns: Vec<[u64; 2]>,
    /// True in the last line.
    pub finished: bool,
}

/// The last whole line of this form.
#[must_use]
pub fn last<T: for<'a> Deserialize<'a>>(text: &[u8]) -> Option<T> {
    all(text).pop()
}

/// All whole lines of this form; others are passed over.
#[must_use]
pub fn all<T: for<'a> Deserialize<'a>>(text: &[u8]) -> Vec<T> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let whole = lines.filter(|line| line.ends_with(b"\n"));
    whole
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_in_no_column_is_lost() {
        let mut counts = CameraCounts {
            submitted: 5,
            on_time: 1,
            late: 1,
            gone: 1,
            ..CameraCounts::default()
        };
        counts.rejected.insert("NoSlack".to_owned(), 1);
        assert_eq!(counts.lost(), 1);
        counts.failed.insert("Shed".to_owned(), 1);
        assert_eq!(counts.lost(), 0);
    }

    #[test]
    fn the_last_whole_line_counts_and_half_a_line_does_not() {
        let text = b"noise\n{\"at_ns\":1}\n{\"at_ns\":2}\n{\"at_ns\":3";
        assert_eq!(last::<Moment>(text), Some(Moment { at_ns: 2 }));
        assert_eq!(last::<Moment>(b""), None);
    }

    #[test]
    fn buckets_hold_every_value() {
        let mut histogram = Latencies::histogram();
        for value in [1, 5, 900, 1_000_000] {
            histogram.saturating_record(value);
        }
        let latencies = Latencies::of(&histogram);
        assert_eq!(
            latencies
                .buckets
                .iter()
                .map(|[_, count]| count)
                .sum::<u64>(),
            4
        );
        assert_eq!(latencies.count, 4);
    }
}
