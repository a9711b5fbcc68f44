//! What the scheduler tells the world to do. The world does exactly this, inside the window, or
//! reports an event that says it did not.

use heapless::Vec;
use serde::{Deserialize, Serialize};

use crate::config::Criticality;
use crate::event::Answer;
use crate::ids::{ActionId, BATCH_MAX, ModelId, PartitionId, RequestId, StageId, TaskId, Ticket};
use crate::time::Instant;

/// One order.
// Orders live in a buffer that is allocated once; a box for the largest would be allocated each time.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Copy the ticket's payload in and write the prepared input to the request's buffer; answer
    /// with [`Event::Prepared`](crate::Event::Prepared).
    Prepare {
        /// Whose buffer.
        request: RequestId,
        /// The task, which names the geometry and the model.
        task: TaskId,
        /// Whose payload.
        ticket: Ticket,
    },
    /// Run one stage for a batch; answer with `Finished`, `NotRun`, `Preempted` or `Failed`.
    Infer(Infer),
    /// Bring a model's weights to the device; answer with `Loaded` or `Failed`. The pages are the
    /// model's from this order on.
    Load {
        /// Names the action in the event that answers it.
        id: ActionId,
        /// Whose weights.
        model: ModelId,
    },
    /// The pages of a model's weights are free from now on. Takes no time and has no event.
    Unload {
        /// Whose weights.
        model: ModelId,
    },
    /// Known from now on: a model broke its profile on a partition, and its tasks there are promised
    /// nothing until it is reinstated. Takes no time and has no event.
    Demote(Demotion),
    /// Known from now on: a demoted model has kept its profile for long enough, and its tasks are
    /// promised again what they were. Takes no time and has no event.
    Reinstate {
        /// Where.
        partition: PartitionId,
        /// Which model.
        model: ModelId,
    },
    /// Stop a best-effort action as soon as the device can; answer with `Preempted`, or with
    /// `Finished` if it was faster.
    Preempt {
        /// Where it runs.
        partition: PartitionId,
        /// Which one.
        action: ActionId,
    },
    /// The one verdict of a submission. The request buffer, if there was one, is free again once
    /// this has been carried out.
    Reply(Reply),
}

/// Why a model lost its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demotion {
    /// Where it ran.
    pub partition: PartitionId,
    /// Which model.
    pub model: ModelId,
    /// So many of its newest stages there took longer than their budgets,
    pub overran: u8,
    /// of so many.
    pub of: u8,
    /// The longest of them, in thousandths of its budget.
    pub worst: u32,
}

/// One stage, one batch, one partition, one window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Infer {
    /// Names the action in the event that answers it.
    pub id: ActionId,
    /// Where to run.
    pub partition: PartitionId,
    /// Which model.
    pub model: ModelId,
    /// Which stage of it.
    pub stage: StageId,
    /// The batch size to run: the smallest compiled size that holds all members.
    pub batch: u8,
    /// The members, at most `batch`.
    pub members: Vec<RequestId, BATCH_MAX>,
    /// When it may start.
    pub window: Window,
    /// Best-effort actions can be preempted; real-time ones run to their end.
    pub criticality: Criticality,
}

/// The times within which an action may start (Clockwork, section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Not before.
    pub earliest: Instant,
    /// Not after; started later, its guarantee would be void, so the device reports `NotRun`.
    pub latest: Instant,
}

/// A verdict on its way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The request buffer it held; none if it was rejected before it got one.
    pub request: Option<RequestId>,
    /// The task.
    pub task: TaskId,
    /// Where to.
    pub ticket: Ticket,
    /// What became of it.
    pub verdict: Verdict,
    /// The deepest answer reached, with its exit. Present for `OnTime` and `Late`.
    pub answer: Option<(StageId, Answer)>,
    /// When the frame was captured (clamped as the policy says).
    pub captured: Instant,
    /// The absolute deadline that applied.
    pub deadline: Instant,
}

/// Every submission gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Answered before its deadline.
    OnTime,
    /// Answered, but after its deadline.
    Late,
    /// Not taken on.
    Rejected(Rejection),
    /// Taken on, and then not answered.
    Failed(Failure),
}

/// Why a submission was not taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rejection {
    /// Its deadline had passed, or could not be met even alone, when it arrived.
    LateOnArrival,
    /// Taking it on would endanger requests already promised.
    NoSlack,
    /// Its task's queue bound is reached, or no request buffer is free.
    QueueFull,
    /// The daemon is shutting down.
    Draining,
    /// A newer frame of the same client took its place before any stage of it began
    /// ([`Delivery::LatestFrame`](crate::Delivery)).
    Superseded,
    /// Best-effort work is refused at present ([`Event::Shed`](crate::Event::Shed)).
    Shedding,
}

/// Why an accepted request got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Failure {
    /// The device reported an error.
    Device,
    /// The payload could not be read or converted.
    Payload,
    /// The client is gone.
    ClientGone,
    /// Dropped after an overrun, to keep the promises that still could be kept.
    Shed,
}
