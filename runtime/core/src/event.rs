//! What the world tells the scheduler.

use heapless::Vec;
use serde::{Deserialize, Serialize};

use crate::ids::{ActionId, BATCH_MAX, ClientId, Confidence, RequestId, TaskId, Ticket};
use crate::time::{Instant, Nanos};

/// One thing that happened. The time at which the scheduler learns of it is an argument of
/// [`Scheduler::step`](crate::Scheduler::step).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A client submitted a frame; its descriptor has been validated, its payload not touched.
    Arrived(Arrival),
    /// The intake wrote the request's input into its request buffer (or could not).
    Prepared {
        /// Whose input.
        request: RequestId,
        /// How long the preparation took.
        measured: Nanos,
        /// False when the payload could not be read; the request then fails.
        ok: bool,
    },
    /// A device finished an [`Action::Infer`](crate::Action::Infer).
    Finished(Finished),
    /// A device did not start an action inside its window. Its members' state is unchanged.
    NotRun {
        /// Which action.
        action: ActionId,
    },
    /// A device stopped a best-effort action when told to ([`Action::Preempt`](crate::Action::Preempt)).
    /// The stage can be run again from its inputs.
    Preempted {
        /// Which action.
        action: ActionId,
    },
    /// A device reports that an action failed; its members get a verdict of failure.
    Failed {
        /// Which action.
        action: ActionId,
    },
    /// A device brought a model's weights in ([`Action::Load`](crate::Action::Load)).
    Loaded {
        /// Which action.
        action: ActionId,
        /// How long the transfer took.
        measured: Nanos,
    },
    /// A client is gone. Its requests are dropped: no reply is sent, each still gets a verdict.
    ClientGone {
        /// Which client.
        client: ClientId,
    },
    /// The time that [`Scheduler::next_timer`](crate::Scheduler::next_timer) asked for has come.
    Tick,
    /// Shut down: answer what was accepted, reject what arrives from now on.
    Drain,
    /// Give best-effort work up, as something is wrong with the machine: from now on it is refused,
    /// what waits gets the answer it has or `Rejected(Shedding)`, and what runs is told to stop,
    /// until the hold is lifted. Real-time work goes on as ever.
    Shed {
        /// True: from now on; false: no longer.
        hold: bool,
    },
}

/// A validated submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The task it belongs to.
    pub task: TaskId,
    /// Where the reply goes.
    pub ticket: Ticket,
    /// When the frame was captured, as the client claims. Never after the time of the step: the
    /// ingress refuses capture times in the future.
    pub captured: Instant,
    /// The client's absolute deadline, if it gave one; the task's own applies when it is earlier.
    pub deadline: Option<Instant>,
}

/// A stage that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Which action.
    pub action: ActionId,
    /// When the device started it.
    pub started: Instant,
    /// How long it ran on the device.
    pub measured: Nanos,
    /// One answer a member, in the action's order of members.
    pub members: Vec<Answer, BATCH_MAX>,
}

/// What an exit head says of one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The class with the largest softmax output.
    pub class: u16,
    /// That output.
    pub confidence: Confidence,
}
