//! Why a stage could not be carried out.

use thiserror::Error;

use crate::driver::{CallError, Lost};
use crate::queue::NotHandedOver;

/// Why a stage failed. Made on real-time threads: small, and without memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    #[error(transparent)]
    Driver(#[from] CallError),
    /// The device contradicts what it was given.
    #[error(transparent)]
    Contradiction(#[from] NotHandedOver),
    /// All launches have ended, and the last one reported no end.
    #[error(
        "all launches of stage {stage} of model {model} ended, and the last one reported no result"
    )]
    Silent { model: usize, stage: usize },
    /// It took too long, and stopped when told to.
    #[error("stage {stage} of model {model} was not done after {limit_ns} ns and was stopped")]
    Overdue {
        model: usize,
        stage: usize,
        limit_ns: u64,
    },
    #[error("launches on the device still ran {grace_ns} ns after they were preempted")]
    Hang { grace_ns: u64 },
    /// The driver neither takes launches nor lets us empty it.
    #[error("the driver refused a launch, and then to synchronise")]
    Unclear,
    /// What the stage reads is not on the device: it was lost by a restart, or never there.
    #[error("stage {stage} of model {model} needs weights that are not on the device")]
    NotThere { model: usize, stage: usize },
    /// A frame's preparation has ended, and its last launch reported no end.
    #[error("the launches that prepare a frame ended, and the last one reported no result")]
    SilentFrame,
    #[error("a frame was not prepared after {limit_ns} ns")]
    FrameOverdue { limit_ns: u64 },
    #[error("the device is being restarted")]
    Down,
    #[error("a leader panicked")]
    Panic,
}

impl DeviceError {
    /// Whether not even a restart of the device helps: the process must end.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Driver(error) if error.code.loss() == Lost::Process)
    }

    /// Whether only a restart of the device helps, if anything does.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        match self {
            Self::Driver(error) => error.code.loss() != Lost::Nothing,
            Self::Contradiction(_)
            | Self::Silent { .. }
            | Self::SilentFrame
            | Self::FrameOverdue { .. }
            | Self::Hang { .. }
            | Self::Unclear
            | Self::Panic => true,
            Self::Overdue { .. } | Self::NotThere { .. } | Self::Down => false,
        }
    }
}
