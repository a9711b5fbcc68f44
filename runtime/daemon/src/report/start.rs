//! How far the start is, and how long it took.

use serde::{Deserialize, Serialize};

/// Milliseconds are counted from the beginning of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartReport {
    /// When the process began, in nanoseconds of the monotonic clock.
    pub began_ns: u64,
    /// Until frames of the first task were answered, and the daemon said that it is ready; none: not yet.
    pub ready_ms: Option<f64>,
    /// Until all networks ran as they were measured; none: not yet, or not all could be loaded.
    pub whole_ms: Option<f64>,
    /// Tasks of which frames are answered.
    pub tasks_ready: u64,
    /// Nothing more will be loaded.
    pub is_over: bool,
    /// Networks that could not be loaded.
    pub failures: Vec<ModelFailureReport>,
}

/// A network that could not be loaded, or not all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailureReport {
    pub model: String,
    pub reason: String,
}

/// How far a task's start is, in milliseconds from the beginning of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskStartReport {
    /// `not-ready`: its frames are rejected; `unmeasured`: they are answered without a promise; `shallow`: as planned, without
    /// its deepest exits; `whole`: as planned.
    pub readiness: String,
    /// Until its frames were answered.
    pub ready_ms: Option<f64>,
    /// Until all of its network ran as it was measured.
    pub whole_ms: Option<f64>,
    /// Until its first answer.
    pub answered_ms: Option<f64>,
}
