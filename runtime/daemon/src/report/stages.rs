//! How long stages ran.

use serde::{Deserialize, Serialize};

/// A stage at one batch size on one partition, of those that ran. Times are the device's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageReport {
    pub model: String,
    /// From 0, the first behind the input.
    pub stage: u64,
    pub batch: u64,
    pub partition: String,
    /// The plan's.
    pub budget_us: u64,
    pub count: u64,
    pub sum_us: u64,
    pub max_us: u64,
}

/// What a partition runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningReport {
    pub model: String,
    pub stage: u64,
    pub batch: u64,
    pub best_effort: bool,
}
