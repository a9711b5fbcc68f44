//! What a camera process saw, and what the demo makes of it: the forms that go over the pipes and out as JSON.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies from the intended capture time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyUs {
    pub p50: u64,
    /// 99 of 100 are not above it.
    pub p99: u64,
    /// 999 of 1000 are not above it.
    pub p999: u64,
    pub max: u64,
}

impl LatencyUs {
    /// Quantiles of a histogram of microseconds; zeros when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// One line of a camera process: its counts since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CameraReport {
    pub task: String,
    /// For how long it has captured, or did.
    pub seconds: f64,
    pub submitted: u64,
    /// Answers before their deadline.
    pub on_time: u64,
    /// Answers after it.
    pub late: u64,
    /// Answers to frames that had no deadline.
    pub without_deadline: u64,
    /// Not taken on, by the daemon's word.
    pub rejected: u64,
    /// Taken on and not answered, by the daemon's word.
    pub failed: u64,
    /// Frames that could not be submitted because every slot was in flight: the camera dropped
    /// them itself, as cameras do.
    pub skipped: u64,
    /// Answers by the exit they came from.
    pub exits: Vec<u64>,
    /// Answers whose class was the label.
    pub correct: u64,
    /// From the intended capture time, over all answers.
    pub latency_us: LatencyUs,
    /// `[captured, received]` of the late ones in monotonic nanoseconds; the first
    /// [`LATE_SPANS_MAX`].
    pub late_spans_ns: Vec<[u64; 2]>,
    /// True in the last line.
    pub finished: bool,
}

/// How many late answers a camera describes one by one.
pub const LATE_SPANS_MAX: usize = 4096;

impl CameraReport {
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.answered() + self.rejected + self.failed
    }

    #[must_use]
    pub fn answered(&self) -> u64 {
        self.on_time + self.late + self.without_deadline
    }

    /// Whether its frames have deadlines, as far as its answers tell.
    #[must_use]
    pub fn has_deadlines(&self) -> bool {
        self.without_deadline == 0
    }

    /// Share of answers that were right; none without answers.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.correct, self.answered())
    }
}

/// `part / whole`, or none when the whole is 0.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
