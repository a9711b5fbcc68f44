//! The clients that are connected, and those that were.

use serde::{Deserialize, Serialize};

use super::{FailedReport, RejectedReport};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientsReport {
    /// Places for clients in the plan.
    pub slots: u64,
    /// Taken now, by clients that live or whose work has not ended yet.
    pub in_use: u64,
    pub accepted: u64,
    /// Refused so far: bad hello, unknown task, no place left.
    pub refused: u64,
    /// Clients so far that closed their connection, died or were disconnected by the daemon.
    pub gone: u64,
    /// Those of `in_use`, by slot.
    #[serde(default)]
    pub connected: Vec<ClientReport>,
}

/// Of one client. Frames that it submitted have their outcome in `on_time`, `late`, `rejected` or `failed`, or are open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientReport {
    pub slot: u64,
    pub task: String,
    pub pid: i32,
    pub uid: u32,
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    pub rejected: RejectedReport,
    pub failed: FailedReport,
}
