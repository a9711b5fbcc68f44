//! Identifiers. Each has its own type, so that a task cannot be passed for a model.

use serde::{Deserialize, Serialize};

/// The largest batch of any stage. It is fixed, because an action stores its members inside itself and allocates
/// nothing.
pub const BATCH_MAX: usize = 32;

/// The most stages, and so exits, of a model.
pub const STAGES_MAX: usize = 16;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $raw);

        impl $name {
            /// The position in the plan.
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
    /// A connected client process. The daemon assigns it; the core only compares it.
    ClientId(u16)
}

/// A request that holds a buffer: the request buffer and a generation, so that the scheduler notices a stale id.
///
/// `buffer` is the index of the request buffer (prepared input and carried activations) on the
/// device. It belongs to this request until its [`Action::Reply`](crate::Action::Reply).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestId {
    pub buffer: u16,
    /// Counts the uses of that buffer.
    pub generation: u32,
}

/// The origin of a submission. The core copies it from the arrival to the reply; it reads only the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ticket {
    /// The client that submitted the frame.
    pub client: ClientId,
    /// The client's slot that holds the payload.
    pub slot: u16,
    /// Which part of the submission: 0 is the frame, those after it are crops of it.
    pub part: u8,
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

    #[must_use]
    pub fn as_probability(self) -> f32 {
        f32::from(self.0) / 65_535.0
    }
}

/// Assigns ids to actions, each once.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
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
