//! Why the promises of a partition can be kept: the offline test's findings, for people.

use punctual_core::{Nanos, PartitionId, TaskId};
use serde::Serialize;

/// The offline test of one partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionReport {
    /// Which.
    pub partition: PartitionId,
    /// Sum of mandatory work over period, all reserved tasks.
    pub utilisation: f64,
    /// One line a reserved task of the partition.
    pub tasks: Vec<TaskReport>,
}

/// What the offline test says of one reserved task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    /// Which.
    pub task: TaskId,
    /// Mandatory work of one request at batch 1, dispatch included (C).
    pub work: Nanos,
    /// Work of one request through all stages at batch 1, dispatch included.
    pub work_to_last_exit: Nanos,
    /// Deadline less the egress bound (D).
    pub deadline: Nanos,
    /// Release jitter (J).
    pub jitter: Nanos,
    /// Period (T).
    pub period: Nanos,
    /// C / T.
    pub utilisation: f64,
    /// The least `L - dbf(L) - B(L)` over this task's own checkpoints.
    pub slack: Nanos,
    /// The checkpoint L where that is.
    pub tightest: Nanos,
}
