//! Counts of a task's requests by what became of them. Plain numbers: the daemon copies them after a step
//! and reports the difference.

use serde::{Deserialize, Serialize};

use crate::action::{Failure, Rejection, Verdict};
use crate::ids::{STAGES_MAX, StageId};

/// Counts of one task since the start.
///
/// `submitted = on_time + late + rejected() + failed() + open` after every step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub submitted: u64,
    pub on_time: u64,
    pub late: u64,
    pub rejected_late_on_arrival: u64,
    pub rejected_no_slack: u64,
    pub rejected_queue_full: u64,
    pub rejected_draining: u64,
    pub rejected_superseded: u64,
    pub rejected_shedding: u64,
    pub rejected_not_ready: u64,
    /// Verdicts `Failed(Device)` and `Failed(Starved)`.
    pub failed_device: u64,
    /// Verdicts `Failed(Payload)`, `Failed(NotFinite)` and `Failed(Vector)`.
    pub failed_payload: u64,
    pub failed_client_gone: u64,
    pub failed_shed: u64,
    /// Answers (on time or late) by their exits.
    pub exits: [u64; STAGES_MAX],
    /// Open requests: submitted, without a verdict.
    pub open: u64,
    /// Requests that used a reservation (conforming).
    pub conforming: u64,
    /// Times that a request's stage was preempted.
    pub preempted: u64,
    /// Times that a request's stage ran past its promised end.
    pub overruns: u64,
    /// The longest stage of its requests, in thousandths of its budget; 0 if none took longer than its budget.
    pub overrun_worst: u64,
    /// Times that a model which it runs was demoted. While there are more demotions than reinstatements, the
    /// task has no promises.
    pub demotions: u64,
    /// Times that such a model was reinstated.
    pub reinstatements: u64,
    /// Times that a request's stage was not started inside its window.
    pub not_run: u64,
    /// Arrivals that were offloaded ([`TaskConfig::offload_to`](crate::TaskConfig::offload_to)). Their verdicts are
    /// counted here, too.
    pub offloaded: u64,
}

impl Counters {
    #[must_use]
    pub const fn rejected(&self) -> u64 {
        self.rejected_late_on_arrival
            + self.rejected_no_slack
            + self.rejected_queue_full
            + self.rejected_draining
            + self.rejected_superseded
            + self.rejected_shedding
            + self.rejected_not_ready
    }

    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.failed_device + self.failed_payload + self.failed_client_gone + self.failed_shed
    }

    /// Counts one verdict, and the exit of its answer.
    pub fn count(&mut self, verdict: Verdict, exit: Option<StageId>) {
        let counter = match verdict {
            Verdict::OnTime => &mut self.on_time,
            Verdict::Late => &mut self.late,
            Verdict::Rejected(Rejection::LateOnArrival) => &mut self.rejected_late_on_arrival,
            Verdict::Rejected(Rejection::NoSlack) => &mut self.rejected_no_slack,
            Verdict::Rejected(Rejection::QueueFull) => &mut self.rejected_queue_full,
            Verdict::Rejected(Rejection::Draining) => &mut self.rejected_draining,
            Verdict::Rejected(Rejection::Superseded) => &mut self.rejected_superseded,
            Verdict::Rejected(Rejection::Shedding) => &mut self.rejected_shedding,
            Verdict::Rejected(Rejection::NotReady) => &mut self.rejected_not_ready,
            Verdict::Failed(Failure::Device | Failure::Starved) => &mut self.failed_device,
            Verdict::Failed(Failure::Payload | Failure::NotFinite | Failure::Vector) => {
                &mut self.failed_payload
            }
            Verdict::Failed(Failure::ClientGone) => &mut self.failed_client_gone,
            Verdict::Failed(Failure::Shed) => &mut self.failed_shed,
        };
        *counter += 1;
        if let Some(exit) = exit {
            self.exits[exit.index()] += 1;
        }
    }
}
