//! The contract between the scheduler's world and whatever runs stages.

use punctual_core::{ActionId, Event, Infer, ModelId, PartitionId, StageId};
use thiserror::Error;

/// Runs stages for batches of requests on partitions.
///
/// Called by one thread, the scheduler's; nothing here blocks or allocates. A device holds at
/// most two actions a partition: the one that runs, and one that is ready to follow it.
///
/// Every action that [`submit`](Self::submit) took is answered by exactly one event:
/// - [`Event::Finished`] with one answer a member, when it ran;
/// - [`Event::NotRun`], when the partition was not free between the window's `earliest` and
///   `latest`: nothing was touched;
/// - [`Event::Preempted`], when [`preempt`](Self::preempt) stopped it: it can be submitted again
///   and then gives the answer that it would have given;
/// - [`Event::Failed`], when it could not be completed; its members' buffers hold nothing of use.
///
/// Weights of paged models are loaded and unloaded by [`load`](Self::load) and
/// [`unload`](Self::unload), which is the core's decision; actions of a model are taken only while
/// its weights are there. Pinned ones may come by themselves, after the device has started:
/// [`Start`](crate::Start) tells how it says so.
///
/// The device rings the doorbell that it was started with after each event it has ready.
pub trait Device {
    /// Takes an action. No event will follow a refused one.
    ///
    /// # Errors
    /// [`SubmitError`], when the action does not fit what was loaded, or the partition already holds
    /// two: both are errors of the caller, and the device is as it was before.
    fn submit(&mut self, infer: &Infer) -> Result<(), SubmitError>;

    /// Begins to bring a model's weights in; the pages they fill are the model's from now on. One event answers:
    /// [`Event::Loaded`], and actions of the model are taken once that has been polled; or [`Event::Failed`], and
    /// the pages are free again. Loads are carried out one after the other, in this order.
    ///
    /// # Errors
    /// [`SubmitError`], when the model is not to be loaded now or does not fit; no event follows.
    fn load(&mut self, action: ActionId, model: ModelId) -> Result<(), SubmitError>;

    /// The pages of a model's weights are free from now on; no event follows.
    ///
    /// # Errors
    /// [`SubmitError`], when the weights are not there, or an action that reads them was taken and
    /// its event has not been polled.
    fn unload(&mut self, model: ModelId) -> Result<(), SubmitError>;

    /// Asks for a best-effort action to be stopped at the next operator. Without effect when that
    /// action is not (or no longer) there: the event of its end is on its way then.
    fn preempt(&mut self, partition: PartitionId, action: ActionId);

    /// The next event that is ready, oldest first within a partition and among the loads; none when there is none now.
    fn poll(&mut self) -> Option<Event>;
}

/// Why an action was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// The partition holds its two actions.
    #[error("partition {} already holds two actions: submit after the event of one", .0.0)]
    Busy(PartitionId),
    /// The device was not started with that partition.
    #[error("partition {} does not exist", .0.0)]
    UnknownPartition(PartitionId),
    /// The device was not started with that model.
    #[error("model {} is not loaded", .0.0)]
    UnknownModel(ModelId),
    /// The model is on another device than the partition.
    #[error("model {} is not on the device of partition {}", .model.0, .partition.0)]
    OtherDevice {
        model: ModelId,
        partition: PartitionId,
    },
    /// The model has no such stage.
    #[error("model {} has no stage {}", .model.0, .stage.0)]
    UnknownStage {
        model: ModelId,
        /// The stage asked for.
        stage: StageId,
    },
    /// The stage was not prepared for that batch size.
    #[error("model {} is not compiled for batch size {batch}", .model.0)]
    UnknownBatch {
        model: ModelId,
        /// The size asked for.
        batch: u8,
    },
    /// The partition has no workspace for a batch of that size.
    #[error("partition {} takes batches of up to {limit}, not {batch}", .partition.0)]
    BatchTooLarge {
        partition: PartitionId,
        /// The size asked for.
        batch: u8,
        /// The largest (`PartitionSpec::batch_max`).
        limit: u8,
    },
    /// A start in turn has not come to the stage yet, or could not load it.
    #[error(
        "stage {} of model {} is not ready: use it after the `Readiness` that says so", .stage.0, .model.0
    )]
    StageNotReady {
        model: ModelId,
        /// The stage asked for.
        stage: StageId,
    },
    /// The model's weights are not on the device (any more, or yet).
    #[error("the weights of model {} are not resident: use them between `Loaded` and `Unload`", .0.0)]
    NotResident(ModelId),
    /// The model's weights are pinned.
    #[error("the weights of model {} are pinned: only paged weights are loaded and unloaded", .0.0)]
    Pinned(ModelId),
    /// The model's weights are there already, or on their way.
    #[error("the weights of model {} are resident or loading already: load them once", .0.0)]
    AlreadyLoaded(ModelId),
    /// An action that reads the weights is not over.
    #[error("the weights of model {} are in use: unload them after the events of its actions", .0.0)]
    WeightsInUse(ModelId),
    /// The weights need more pages than are free.
    #[error("model {} fills {needs} pages and {free} are free: unload others first", .model.0)]
    NoFreePages {
        model: ModelId,
        /// Pages that it fills.
        needs: u32,
        /// Pages that are free.
        free: u32,
    },
    /// No members, or more than the batch size.
    #[error("{members} members do not fit a batch of {batch}")]
    Members {
        members: u8,
        /// The batch size.
        batch: u8,
    },
    /// A member names a request buffer that the device does not have.
    #[error("request buffer {buffer} does not exist: there are {buffers}")]
    UnknownBuffer {
        buffer: u16,
        /// How many there are.
        buffers: u16,
    },
}

impl SubmitError {
    /// The same, about what the caller calls `model` and `partition`.
    pub(crate) fn renamed(self, model: ModelId, partition: PartitionId) -> Self {
        match self {
            Self::Busy(_) => Self::Busy(partition),
            Self::UnknownPartition(_) => Self::UnknownPartition(partition),
            Self::OtherDevice { .. } => Self::OtherDevice { model, partition },
            Self::BatchTooLarge { batch, limit, .. } => Self::BatchTooLarge {
                partition,
                batch,
                limit,
            },
            other => other.of_model(model),
        }
    }

    /// The same, about what the caller calls `model`.
    pub(crate) fn of_model(self, model: ModelId) -> Self {
        match self {
            Self::UnknownModel(_) => Self::UnknownModel(model),
            Self::UnknownStage { stage, .. } => Self::UnknownStage { model, stage },
            Self::UnknownBatch { batch, .. } => Self::UnknownBatch { model, batch },
            Self::StageNotReady { stage, .. } => Self::StageNotReady { model, stage },
            Self::NotResident(_) => Self::NotResident(model),
            Self::Pinned(_) => Self::Pinned(model),
            Self::AlreadyLoaded(_) => Self::AlreadyLoaded(model),
            Self::WeightsInUse(_) => Self::WeightsInUse(model),
            Self::NoFreePages { needs, free, .. } => Self::NoFreePages { model, needs, free },
            Self::OtherDevice { partition, .. } => Self::OtherDevice { model, partition },
            Self::Busy(_)
            | Self::UnknownPartition(_)
            | Self::BatchTooLarge { .. }
            | Self::Members { .. }
            | Self::UnknownBuffer { .. } => self,
        }
    }
}
