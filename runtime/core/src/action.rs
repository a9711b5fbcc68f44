//! The actions that the scheduler orders. Devices and threads carry each one out, inside its window, or
//! report an event that says otherwise.

use heapless::Vec;
use serde::{Deserialize, Serialize};

use crate::config::Criticality;
use crate::event::Answer;
use crate::ids::{ActionId, BATCH_MAX, ModelId, PartitionId, RequestId, StageId, TaskId, Ticket};
use crate::time::Instant;

/// One command of the scheduler.
// Actions live in a buffer that is allocated once. A box for the largest would be allocated each time.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Copy the ticket's payload and write the prepared input to the request's buffer. Report
    /// [`Event::Prepared`](crate::Event::Prepared).
    Prepare {
        /// The request whose buffer it is.
        request: RequestId,
        /// The task, which determines the geometry and the model.
        task: TaskId,
        /// The submission whose payload it is.
        ticket: Ticket,
    },
    /// Run one stage for a batch. Report `Finished`, `NotRun`, `Preempted` or `Failed`.
    Infer(Infer),
    /// Load a model's weights to the device. Report `Loaded` or `Failed`. The model has its pages from this
    /// action on.
    Load {
        /// The id in the event that reports the transfer.
        id: ActionId,
        model: ModelId,
    },
    /// Free the pages of a model's weights. Takes no time and has no event.
    Unload { model: ModelId },
    /// A model broke its profile on a partition. Its tasks there have no promises until it is reinstated. Takes
    /// no time and has no event.
    Demote(Demotion),
    /// A demoted model has kept its profile for long enough. Its tasks have promises again. Takes no time and
    /// has no event.
    Reinstate {
        partition: PartitionId,
        model: ModelId,
    },
    /// Preempt a best-effort action as soon as the device can. Report `Preempted`, or `Finished` if the action
    /// ended before.
    Preempt {
        partition: PartitionId,
        action: ActionId,
    },
    /// Send an answer that counts before the verdict, which is still to come: a deeper answer may replace it
    /// ([`Answers::EachExit`](crate::Answers)).
    Deliver(Reply),
    /// Send the one verdict of a submission. Its request buffer, if it had one, is free once this is carried
    /// out, unless an action of which it is a member is in flight: then once that is reported.
    Reply(Reply),
}

/// The reason for which a model lost its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demotion {
    pub partition: PartitionId,
    pub model: ModelId,
    /// How many of its newest stages there took longer than their budgets.
    pub overran: u8,
    /// The number of those stages.
    pub of: u8,
    /// The longest of them, in thousandths of its budget.
    pub worst: u32,
}

/// One stage, one batch, one partition, one window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Infer {
    /// The id in the event that reports the action.
    pub id: ActionId,
    pub partition: PartitionId,
    pub model: ModelId,
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
    /// It may not start before this time.
    pub earliest: Instant,
    /// It may not start after this time: a later start would break a promise, so the device reports `NotRun`.
    pub latest: Instant,
}

/// A verdict for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The request buffer it held; none if it was rejected before it got one.
    pub request: Option<RequestId>,
    pub task: TaskId,
    /// The address of the reply.
    pub ticket: Ticket,
    pub verdict: Verdict,
    /// The deepest answer, with its exit. Present for `OnTime` and `Late`.
    pub answer: Option<(StageId, Answer)>,
    /// When the frame was captured (clamped as the policy says).
    pub captured: Instant,
    /// The absolute deadline that applied.
    pub deadline: Instant,
    /// When this answer was delivered before ([`Action::Deliver`]): then the verdict is about that time.
    pub delivered: Option<Instant>,
}

/// The result of a submission. Each gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Answered before its deadline.
    OnTime,
    /// Answered, but after its deadline.
    Late,
    /// Not accepted, or replaced by a newer frame before its first stage.
    Rejected(Rejection),
    /// Accepted, and then not answered.
    Failed(Failure),
}

/// Why a submission was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rejection {
    /// Its deadline had passed, or could not be met even alone, when it arrived.
    LateOnArrival,
    /// No slack: to accept it would endanger promises to other requests.
    NoSlack,
    /// Its task's queue is full, or no request buffer is free for it.
    QueueFull,
    /// The daemon shuts down.
    Draining,
    /// A newer frame of the same client replaced it before any stage of it began
    /// ([`Delivery::LatestFrame`](crate::Delivery)).
    Superseded,
    /// Best-effort work is shed at present ([`Event::Shed`](crate::Event::Shed)).
    Shedding,
    /// Its network is not loaded yet ([`Event::Readiness`](crate::Event::Readiness)).
    NotReady,
}

/// Why an accepted request got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Failure {
    /// The device reported an error, or did not report in time.
    Device,
    /// The payload could not be read or converted.
    Payload,
    ClientGone,
    /// Dropped after an overrun, so that a request of higher value is on time.
    Shed,
    /// The payload is a tensor with a value that is infinite or no number.
    NotFinite,
    /// A number of a vector is out of range, or is none.
    Vector,
    /// The device did not report in time, as the machine ran others instead of its threads
    /// ([`Event::Starved`](crate::Event::Starved)).
    Starved,
}
