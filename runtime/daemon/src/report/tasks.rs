//! The verdicts of the frames of each task.

use serde::{Deserialize, Serialize};

use super::LatencyReport;
use super::verdicts::{FailedReport, RejectedReport};

/// Counters of one task. `submitted` is the sum of all verdicts, plus `open`, plus `lost`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    pub name: String,
    /// `real-time` or `best-effort`.
    pub criticality: String,
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
}
