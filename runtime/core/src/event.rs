//! The events that the scheduler learns of.

use heapless::Vec;
use serde::{Deserialize, Serialize};

use crate::action::Failure;
use crate::ids::{
    ActionId, BATCH_MAX, ClientId, Confidence, ModelId, PartitionId, RequestId, TaskId, Ticket,
};
use crate::time::{Instant, Nanos};

/// An event. The time at which the scheduler learns of it is an argument of
/// [`Scheduler::step`](crate::Scheduler::step).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A client submitted a frame. Its port has validated its descriptor; the payload is not read yet.
    Arrived(Arrival),
    /// With this capture time no more requests come for the task than these, fewer than its [`burst`](crate::TaskConfig::burst).
    /// They arrive after it.
    Burst {
        task: TaskId,
        captured: Instant,
        requests: u8,
    },
    /// The intake wrote the request's input into its request buffer, or could not.
    Prepared {
        /// The request whose input it is.
        request: RequestId,
        /// How long the preparation took.
        measured: Nanos,
        /// Whether the input is there; if not, the request fails for this reason.
        ready: Result<(), Failure>,
    },
    /// A device finished an [`Action::Infer`](crate::Action::Infer).
    Finished(Finished),
    /// A device did not start an action inside its window. Its members' state is unchanged.
    NotRun { action: ActionId },
    /// A device preempted a best-effort action ([`Action::Preempt`](crate::Action::Preempt)). The stage can run
    /// again from its inputs.
    Preempted { action: ActionId },
    /// A device reports that an action failed. Its members fail.
    Failed { action: ActionId },
    /// A device loaded a model's weights ([`Action::Load`](crate::Action::Load)).
    Loaded {
        action: ActionId,
        /// How long the transfer took.
        measured: Nanos,
    },
    /// A client disconnected. The scheduler ends its requests: each still gets a verdict, but no reply is sent.
    ClientGone { client: ClientId },
    /// The time that [`Scheduler::next_timer`](crate::Scheduler::next_timer) requested has come.
    Tick,
    /// Shut down: answer accepted requests, reject those that arrive from now on.
    Drain,
    /// Shed best-effort work, as something is wrong with the machine. The scheduler rejects best-effort
    /// requests, gives waiting ones the answer that they have or `Rejected(Shedding)`, and preempts running
    /// ones, while the hold lasts. Real-time work does not change.
    Shed {
        /// True: the hold begins; false: it ends.
        hold: bool,
    },
    /// The machine does not run the threads of a partition, or does so again. What is lost meanwhile
    /// ([`crate::lost`]) fails for that reason. No decision depends on it.
    Starved {
        partition: PartitionId,
        /// True: its threads are ready to run and do not; false: they run.
        starved: bool,
    },
    /// How much of a model its device can run from now on, while a start goes on.
    Readiness(Readiness),
}

/// How much of a model a device can run. Until a device reports a model, all of it runs as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    pub model: ModelId,
    /// The number of its first stages that can run; 0: none.
    pub stages: u8,
    /// Whether they run as they were measured. If not, general solutions stand in for those that were chosen by
    /// measuring: the answers are as good, and the budgets do not hold. Fewer stages of which that was said before stay as
    /// measured: what is added then is not.
    pub as_measured: bool,
    /// Whether solutions of these stages that were chosen by measuring cannot be loaded, so that general ones stay.
    pub stays_general: bool,
}

/// A validated submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    pub task: TaskId,
    /// The address of the reply.
    pub ticket: Ticket,
    /// The capture time that the client claims. Never after the time of the step: the port rejects capture
    /// times in the future.
    pub captured: Instant,
    /// The client's absolute deadline, if it gave one. The task's own applies if that is earlier.
    pub deadline: Option<Instant>,
    /// How long answers took lately from the decision until this client had them, at most. A held answer leaves that
    /// long before the deadline. Promises count with the plan's bound alone, which applies here, too, if it is longer.
    pub egress: Nanos,
}

/// A stage that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub action: ActionId,
    /// When the device started it.
    pub started: Instant,
    /// How long it ran on the device.
    pub measured: Nanos,
    /// One answer for each member, in the action's order of members.
    pub members: Vec<Answer, BATCH_MAX>,
}

/// The output of an exit for one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The class with the largest softmax output.
    pub class: u16,
    /// That output.
    pub confidence: Confidence,
}
