//! What costs a client its connection.

use crate::descriptor::DescriptorError;
use crate::ring::PositionError;

/// Why a client's connection ends: it is gone, or it broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelFault {
    /// It closed the connection.
    #[error("the client closed the connection")]
    HungUp,
    /// Its submission ring's position is impossible.
    #[error("submissions: {0}")]
    Submissions(PositionError),
    #[error("descriptor: {0}")]
    Descriptor(#[from] DescriptorError),
    /// It submitted a slot that is still submitted.
    #[error("slot {slot} was submitted again before it was released")]
    SlotInUse { slot: u16 },
    /// It submitted a slot by a handle of an earlier use.
    #[error("slot {slot} in generation {found}, it is {current}")]
    StaleSlot { slot: u16, found: u32, current: u32 },
    /// It has more submissions without a result that it read than results have room.
    #[error("{unread} results unread, there is room for {capacity}")]
    ResultsUnread {
        /// As its position says.
        unread: u32,
        /// The result ring's.
        capacity: u32,
    },
    /// Its position in the result ring is impossible.
    #[error("results: {0}")]
    Results(PositionError),
    /// It rang without having submitted.
    #[error("it rings the doorbell without a submission")]
    Doorbell,
    /// A thread that serves it waits for its memory for too long.
    #[error("the daemon waits for its memory for too long")]
    SlowMemory,
    /// It takes too much processor time to wake it.
    #[error("it takes the daemon too long to wake it")]
    SlowWakeUps,
}

impl ChannelFault {
    /// What kind of fault it is, as the reason for a disconnection.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::HungUp => "connection closed",
            Self::Submissions(_) => "an impossible submission ring position",
            Self::Descriptor(_) => "an invalid descriptor",
            Self::SlotInUse { .. } => "a slot submitted twice",
            Self::StaleSlot { .. } => "a stale slot generation",
            Self::ResultsUnread { .. } => "too many results unread",
            Self::Results(_) => "an impossible result ring position",
            Self::Doorbell => "doorbells without submissions",
            Self::SlowMemory => "slow memory",
            Self::SlowWakeUps => "slow wake-ups",
        }
    }

    /// Whether the client broke the protocol, rather than just closed the connection.
    #[must_use]
    pub const fn is_violation(&self) -> bool {
        !matches!(self, Self::HungUp)
    }
}
