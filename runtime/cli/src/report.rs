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
    pub on_time: u64,
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
    /// Of answers that are boxes: the mean average precision at overlap 0.5 of the last thousand.
    pub map50: Option<f64>,
    /// The same of the last thousand verdicts: in a frame without an answer in time nothing was found.
    pub map50_of_all: Option<f64>,
    /// From the intended capture time to the answer that counts: of each frame the deepest that was read in time.
    pub latency_us: LatencyUs,
    /// To the first one, where answers came before verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_us: Option<LatencyUs>,
    /// `[captured, received]` of the late ones in monotonic nanoseconds; the first
    /// [`LATE_SPANS_MAX`].
    pub late_spans_ns: Vec<[u64; 2]>,
    /// The last answers to the first scenes, for those who want to see them: in the last line only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Shown>,
    /// True in the last line.
    pub finished: bool,
}

/// What became of a frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Which of the camera's scenes it shows.
    pub scene: u64,
    /// In words.
    pub verdict: String,
    pub latency_us: u64,
    /// None without an answer.
    pub exit: Option<u8>,
    /// 0 to 1; none if the network does not say how sure it is.
    pub confidence: Option<f32>,
    /// The name of its class; none if answers have no class.
    pub class: Option<String>,
    /// Whether that is the class of what it shows.
    pub correct: Option<bool>,
    /// What was found, in pixels of the frame.
    pub boxes: Vec<ShownBox>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShownBox {
    /// Left, top, right, bottom.
    pub sides: [f32; 4],
    /// 0 to 1.
    pub score: f32,
    pub class: String,
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

    /// Share of answers whose class was right; none without answers, or if answers are boxes.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.correct, self.answered()).filter(|_| self.map50.is_none())
    }
}

/// `part / whole`, or none when the whole is 0.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
