//! Frames that a device prepares itself, instead of the intake's thread on its core.
//!
//! The device reads a frame where its client has it, if that memory was [attached](FramePreparer::attach) and the device can read it;
//! otherwise from a copy in memory of its own. The client may write to it meanwhile: the device reads within the crop's rows,
//! whose places are checked, so that changes pixels of this client's frame and nothing else.

use std::error::Error;
use std::sync::Arc;

use punctual_core::{ModelId, PartitionId};
pub use punctual_kernels::preprocess::{CropRows, RowSpan};
use punctual_types::{FrameLayout, SharedBytes, Size};
pub use punctual_types::{FrameMemory, HeldBytes};
use thiserror::Error;

use crate::request_buffers::InputWriter;

/// The frames of one task, as an intake has them prepared.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameWork {
    /// The network that they are for.
    pub model: ModelId,
    /// Whose compute units prepare them.
    pub partition: PartitionId,
    /// How they lie where nothing else is said, and the size of the part that the network sees, stretched to its input.
    pub layout: FrameLayout,
    pub crop: Size,
    /// Subtracted a channel, and divided by, in units of the full scale.
    pub mean: [f32; 3],
    pub std: [f32; 3],
    /// A frame that takes longer is taken to hang, in nanoseconds.
    pub limit_ns: u64,
}

/// Prepares the frames of one intake on a device.
pub trait FramePreparer: Send + Sync {
    /// From now on frames lie in this memory, of which the device reads in place as much as it can; why it cannot, if some is
    /// copied. May wait, for the driver: never called by a real-time thread, nor while a frame is prepared.
    fn attach(&self, memory: Vec<FrameMemory>) -> Option<FramesCopied>;

    /// Gives the memory back; as [`attach`](Self::attach).
    fn detach(&self);

    /// Prepares the rows of a frame into a request's input, of the work at position `work`, and returns when they are there. How
    /// many bytes were copied for that. Does not allocate; sleeps while the device works.
    ///
    /// # Errors
    /// When the device fails or is being restarted: the frame cannot be answered.
    ///
    /// # Panics
    /// If there is no such work, or the frame is shorter than its rows.
    fn prepare(
        &self,
        work: usize,
        rows: &CropRows,
        frame: SharedBytes<'_>,
        input: &mut InputWriter<'_>,
    ) -> Result<usize, NotPrepared>;
}

/// Why a device copies frames before it prepares them.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct FramesCopied(pub Box<dyn Error + Send + Sync>);

/// The device did not prepare a frame. Why is in its own faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the device fails, or is being restarted: submit the next frame")]
pub struct NotPrepared;

/// Why a device prepares no such frames.
#[derive(Debug, Error)]
pub enum FramesRefused {
    #[error("this device prepares no frames: leave `prepare` at \"cores\"")]
    NoDevice,
    #[error("model {} or partition {} is not on the device", model.0, partition.0)]
    Unknown {
        model: ModelId,
        partition: PartitionId,
    },
    #[error(
        "frames of {} for a network of {channels} channels have no kernel: leave `prepare` at \"cores\"",
        layout.format.name()
    )]
    NoKernel {
        layout: FrameLayout,
        channels: usize,
    },
    /// An integrated GPU of before Xavier, or a driver without the memory of others.
    #[error(
        "the GPU cannot read memory that was not taken through its driver: leave `prepare` at \"cores\""
    )]
    NotMapped,
    #[error("the device cannot be made ready for frames: {0}")]
    Device(#[from] Box<dyn Error + Send + Sync>),
}

/// What prepares the frames of an intake.
pub type SharedPreparer = Arc<dyn FramePreparer>;
