//! The verdicts of the frames of each task.

use serde::{Deserialize, Serialize};

use super::LatencyReport;
use super::start::TaskStartReport;
use super::verdicts::{FailedReport, RejectedReport};

/// Counters of one task. `submitted` is the sum of all verdicts, plus `open`, plus `lost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    pub name: String,
    #[serde(default)]
    pub model: String,
    #[serde(default)]
    pub partition: String,
    /// The task whose boxes are its frames: it has no clients of its own. None: its clients' frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Relative to capture; none: without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_us: Option<u64>,
    /// Frames in a second that its clients may send together; none: as many as they like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_hz: Option<f64>,
    /// Places for clients.
    #[serde(default)]
    pub clients: u64,
    /// Frames in a second for which the plan reserves capacity, of all its clients together; none: without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_hz: Option<f64>,
    /// `real-time` or `best-effort`.
    pub criticality: String,
    #[serde(default)]
    pub start: TaskStartReport,
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    /// Those of `late` whose life overlaps a host stall.
    pub late_in_host_stall: u64,
    pub rejected: RejectedReport,
    pub failed: FailedReport,
    /// Those that the task of `offload_to` admitted; their verdicts are counted here.
    #[serde(default, alias = "spilled")]
    pub offloaded: u64,
    /// Frames whose pixels were read.
    #[serde(default)]
    pub prepared: u64,
    /// Bytes of them that were copied before they were converted: none of frames that are prepared where they lie.
    #[serde(default)]
    pub copied_bytes: u64,
    /// Those of `prepared` that the GPU prepared.
    #[serde(default)]
    pub prepared_by_gpu: u64,
    /// Times that a stage of its frames ran longer than was promised.
    #[serde(default)]
    pub overruns: u64,
    /// The longest of them, in thousandths of its budget.
    #[serde(default)]
    pub overrun_worst: u64,
    /// Times that its model lost its promises, as it broke its profile.
    #[serde(default)]
    pub demotions: u64,
    /// Whether it is promised nothing now.
    #[serde(default)]
    pub demoted: bool,
    pub open: u64,
    /// Open when the daemon terminated without a verdict. Must be 0.
    pub lost: u64,
    /// Answers by exit.
    pub exits: Vec<u64>,
    /// Answers with outputs of which values are not finite.
    #[serde(default)]
    pub not_finite: u64,
    /// From capture to the verdict's hand-over to the client, answered frames only.
    pub latency_us: LatencyReport,
    /// Buckets of `latency_us`, by rising time: the largest that falls into it, in us, and how many did.
    #[serde(default)]
    pub latency_buckets: Vec<(f64, u64)>,
    /// From the verdict's hand-over to the deadline, of the same frames.
    #[serde(default)]
    pub slack_us: SlackReport,
    /// Buckets of `slack_us`.
    #[serde(default)]
    pub slack_buckets: Vec<(f64, u64)>,
}

/// How much time answers left, in microseconds. Answers that are late left 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlackReport {
    pub count: u64,
    pub p50: u64,
    /// One answer in a hundred left less.
    pub p1: u64,
    /// One in a thousand.
    pub p01: u64,
}
