//! Names of things. Each is its own type, so that a task cannot be passed for a model.

use serde::{Deserialize, Serialize};

/// The largest batch that any stage can run, fixed by design: the members of an action are stored inside the action.
pub const BATCH_MAX: usize = 32;

/// The most stages (and so exits) that a model can have.
pub const STAGES_MAX: usize = 16;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $raw);

        impl $name {
            /// The position in the plan's table of these.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A task: a configured stream of requests. Position in [`Config::tasks`](crate::Config::tasks).
    TaskId(u16)
}
index! {
    /// A model. Position in [`Config::models`](crate::Config::models).
    ModelId(u16)
}
index! {
    /// A stage of a model, counted from the input; also the exit that it ends in.
    StageId(u8)
}
impl StageId {
    /// The stage after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

index! {
    /// A partition: a set of TPCs, or of cores on the CPU device.
    /// Position in [`Config::partitions`](crate::Config::partitions).
    PartitionId(u16)
}
index! {
    /// A connected client process; given by the ingress, opaque to the core.
    ClientId(u16)
}

/// A request the scheduler has taken in: a request buffer plus a generation, so that a stale handle is noticed.
///
/// `buffer` is the index of the request buffer (prepared input and carried activations) on the
/// device. It belongs to this request until its [`Action::Reply`](crate::Action::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestId {
    /// Which request buffer.
    pub buffer: u16,
    /// Which use of that buffer.
    pub generation: u32,
}

/// Where a submission came from; the core carries it from arrival to reply and never looks inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ticket {
    /// The client that submitted the frame.
    pub client: ClientId,
    /// The client's slot that holds the payload.
    pub slot: u16,
    /// The client's own sequence number, echoed in the reply.
    pub sequence: u64,
}

/// An action handed to a device, unique for a scheduler's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActionId(pub u64);

/// A network's confidence in its answer, in units of 1/65535 (the largest softmax output).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Confidence(pub u16);

impl Confidence {
    /// Certain.
    pub const ONE: Self = Self(u16::MAX);

    /// From a probability; values outside 0..=1, and NaN, are clamped into it (NaN to 0).
    #[must_use]
    pub fn from_probability(p: f32) -> Self {
        // `as` saturates and maps NaN to 0, which is the clamp that the doc promises.
        Self((p * 65_535.0 + 0.5) as u16)
    }

    /// As a probability.
    #[must_use]
    pub fn as_probability(self) -> f32 {
        f32::from(self.0) / 65_535.0
    }
}

/// Names for actions, each used once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ActionIds(u64);

impl ActionIds {
    pub(crate) fn next(&mut self) -> ActionId {
        let id = ActionId(self.0);
        self.0 += 1;
        id
    }

    pub(crate) const fn has_given(self, id: ActionId) -> bool {
        id.0 < self.0
    }
}
