//! What goes from thread to thread. All `Copy`: nothing in here owns anything.

use punctual_core::{Arrival, Failure, Nanos, Reply, RequestId, TaskId, Ticket};
use punctual_ipc::{HandedOver, Part};
use punctual_types::Size;

/// Where a submission's payload lies and which part of it the network is to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    pub slot: u16,
    pub sequence: u64,
    /// What it was submitted to.
    pub task: TaskId,
    /// Column of the crop's first pixel.
    pub crop_x: u32,
    /// Row of the crop's first pixel.
    pub crop_y: u32,
    /// The size of the crop, where it is not the task's.
    pub size: Option<Size>,
    /// When it claims to have been captured, in ns.
    pub captured_ns: u64,
}

/// From a client's port to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbound {
    Arrived {
        arrival: Arrival,
        payload: Payload,
    },
    /// The last message of a client: it closed the connection or was disconnected.
    Gone,
}

/// From the scheduler to a client's intake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntakeOrder {
    /// Prepare, answer with [`Prepared`].
    Prepare {
        request: RequestId,
        /// Whose network will read it: the task that it was submitted to, or the one that takes it on instead.
        task: TaskId,
        payload: Payload,
    },
    /// The client's work has ended: hand its payload reader back.
    Retire,
}

/// From an intake to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub request: RequestId,
    pub measured: Nanos,
    /// Whether the input is there; if not, why the request fails.
    pub ready: Result<(), Failure>,
}

/// From the scheduler to a client's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// Give the client an answer before its verdict.
    Answer(Answered),
    /// Tell the client what becomes of a part of a frame, whose slot stays the daemon's.
    Part(Answered),
    /// Tell the client, and give it its slot back.
    Verdict(Answered),
    /// The same of a frame whose parts all have their verdicts.
    Whole(Answered),
    /// The same of a submission that the policy never saw.
    Refused(Refusal),
    /// The client's work has ended: hand its result ring back.
    Retire,
}

/// A verdict, or an answer before it, with what the scheduler does not know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    pub reply: Reply,
    /// When the scheduler's thread passed it on.
    pub decided_ns: u64,
    /// Where the answer's outputs are.
    pub outputs: Option<HandedOver>,
    /// Whether values of them are not finite.
    pub not_finite: bool,
    /// Which crop of a frame it is about; none: the frame.
    pub part: Option<Part>,
    /// Boxes of a frame that are beyond what its tasks look at.
    pub left_out: u16,
}

/// A submission that the scheduler's policy never saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub task: TaskId,
    pub ticket: Ticket,
    pub reason: Refused,
    /// Which crop of a frame it is about; none: the frame.
    pub part: Option<Part>,
    /// When it claims to have been captured, in ns.
    pub captured_ns: u64,
    /// The client's own deadline, in ns; 0 if it gave none.
    pub deadline_ns: u64,
}

/// Why a submission was refused before the policy saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Captured after it was read.
    CaptureInFuture,
    Draining,
    /// Its client submits faster than it may.
    Quota,
    /// No output area of its client is free.
    NoArea,
}
