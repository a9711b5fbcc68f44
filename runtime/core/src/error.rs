//! The errors of a plan. Each names the bad value, the limit, and what to do.

use crate::config::Units;
use crate::ids::{BATCH_MAX, Confidence, ModelId, PartitionId, STAGES_MAX, StageId, TaskId};
use crate::offline::Infeasible;
use crate::time::Nanos;

/// A state from which no scheduler can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the policy `{policy}` keeps no state: begin where it was started")]
    NotKept { policy: &'static str },
    #[error("the state cannot be read; it is damaged, or of another version of Punctual")]
    Unreadable,
    #[error("the state is of another plan: its lists have other lengths")]
    OtherPlan,
    #[error("the state contradicts itself: {0}")]
    Broken(&'static str),
}

/// A relation that the scheduler's promises depend on does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is nothing to run on.
    #[error("the plan has 0 partitions; add at least one")]
    NoPartition,
    /// [`share_max`](crate::PartitionConfig::share_max) is 1 to 1000 thousandths.
    #[error("a partition's share_max is {0} thousandths of its time; choose 1 to 1000")]
    Share(u16),
    /// Tasks, models and partitions have ids of 16 bits.
    #[error("the plan has {count} {what}; at most {COUNT_MAX} are possible")]
    Count { what: &'static str, count: usize },
    /// Each partition has queues with room for all requests.
    #[error(
        "{partitions} partitions with {buffers} request buffers have more than {QUEUED_MAX} places in their queues; use fewer \
         of one of the two"
    )]
    Queues { partitions: usize, buffers: u16 },
    /// A task names a model that does not exist.
    #[error(
        "task {}: there is no model {}; name one of the plan's {models} models, counted from 0",
        task.0, model.0
    )]
    UnknownModel {
        task: TaskId,
        model: ModelId,
        models: usize,
    },
    /// A task names a partition that does not exist.
    #[error(
        "task {}: there is no partition {}; name one of the plan's {partitions} partitions, counted from 0",
        task.0, partition.0
    )]
    UnknownPartition {
        task: TaskId,
        partition: PartitionId,
        partitions: usize,
    },
    /// A model must have 1 to [`STAGES_MAX`] stages.
    #[error("model {}: it has {stages} stages; cut it into 1 to {STAGES_MAX}", model.0)]
    Stages { model: ModelId, stages: usize },
    /// Batch sizes must rise from 1 to at most [`BATCH_MAX`], each with a time for each partition.
    #[error(
        "model {}, stage {}: its batch sizes do not rise strictly from 1 to at most {BATCH_MAX}, or one \
         lacks a time for a partition; list them in that order, each with one time for each partition",
        model.0, stage.0
    )]
    Batches { model: ModelId, stage: StageId },
    /// Calibration must have one row for each deeper exit.
    #[error(
        "model {}, stage {}: calibration has {rows} rows; give one for each of the {exits} deeper stages",
        model.0, stage.0
    )]
    Calibration {
        model: ModelId,
        stage: StageId,
        rows: usize,
        /// Rows needed.
        exits: usize,
    },
    /// The weights of a model must fit the device.
    #[error(
        "model {}: its weights fill {needed} pages, but the device has {pages}; give it more pages (weight_cache)",
        model.0
    )]
    Pages {
        model: ModelId,
        needed: u32,
        /// What there is.
        pages: u32,
    },
    /// Only some policies load weights.
    #[error(
        "model {}: its weights are paged, and the policy does not load weights; keep all weights resident \
         (no weight_cache) or choose a policy that loads them", model.0
    )]
    NotResident { model: ModelId },
    /// A last stage, or the stage of a mandatory exit, has no exit.
    #[error(
        "model {}: stage {} has no exit, but a model's last stage and each mandatory exit need one; give \
         it an exit, or name another mandatory exit", model.0, stage.0
    )]
    NoExit { model: ModelId, stage: StageId },
    /// A stage cannot run as another model's.
    #[error("model {}, stage {}: it cannot run as the stage of model {}: {reason}", model.0, stage.0, with.0)]
    NotShared {
        model: ModelId,
        stage: StageId,
        with: ModelId,
        /// The reason, and what to do.
        reason: &'static str,
    },
    /// A task cannot offload frames to another.
    #[error("task {}: its offload_to cannot be task {}: {reason}", task.0, taker.0)]
    Offload {
        task: TaskId,
        /// The task that would serve its frames.
        taker: TaskId,
        /// The reason, and what to do.
        reason: &'static str,
    },
    /// The model has fewer stages.
    #[error(
        "task {}: its mandatory_exit is {}, but its model has {stages} stages; choose 0 to {}",
        task.0, exit.0, stages.saturating_sub(1)
    )]
    MandatoryExit {
        task: TaskId,
        exit: StageId,
        /// The stages of its model, at least 1.
        stages: usize,
    },
    /// A real-time task needs a deadline.
    #[error("task {}: it is real-time and has no deadline; give it one, or make it best-effort", task.0)]
    NoDeadline { task: TaskId },
    /// Only real-time tasks can have a reservation.
    #[error("task {}: it is best-effort and reserved; make it real-time, or give it reserved = false", task.0)]
    ReservedBestEffort { task: TaskId },
    /// The weights of a task with a reservation must be resident: no promise waits for a transfer.
    #[error(
        "task {}: it is reserved, but the weights of its model {} are paged; keep them resident, or give the \
         task reserved = false", task.0, model.0
    )]
    ReservedPaged { task: TaskId, model: ModelId },
    /// A span is zero or longer than [`SPAN_MAX`], so arithmetic could overflow.
    #[error("task {}: {what} is {span}; choose more than 0 and at most {SPAN_MAX}", task.0)]
    Span {
        task: TaskId,
        what: &'static str,
        span: Nanos,
    },
    /// A span of the plan as a whole, or a stage's time, is longer than [`SPAN_MAX`].
    #[error("{what} is {span}; choose at most {SPAN_MAX}")]
    PlanSpan { what: &'static str, span: Nanos },
    /// J and the egress bound must leave something of D.
    #[error(
        "task {}: its jitter of {jitter} and the egress bound of {egress} take up its deadline of {deadline}; \
         lengthen the deadline, or shorten the preparation", task.0
    )]
    Jitter {
        task: TaskId,
        /// J.
        jitter: Nanos,
        /// D.
        deadline: Nanos,
        /// Epsilon.
        egress: Nanos,
    },
    /// The lowest threshold is above the highest.
    #[error(
        "task {}: threshold_min is {}, above the threshold of {} (in 1/65535); lower the first or raise the second",
        task.0, least.0, most.0
    )]
    Thresholds {
        task: TaskId,
        /// `threshold_min`.
        least: Confidence,
        /// `threshold`.
        most: Confidence,
    },
    /// A task's batch or queue bound is zero.
    #[error("task {}: {what} is 0; choose at least 1", task.0)]
    Zero { task: TaskId, what: &'static str },
    /// A reserved task's queue does not hold its own conforming requests.
    #[error(
        "task {}: its queue has {queue_max} places, but its conforming requests alone need {needed}; make it \
         that long", task.0
    )]
    Queue {
        task: TaskId,
        queue_max: u16,
        /// What it needs: [`crate::offline::buffers_reserved`].
        needed: u64,
    },
    /// There are fewer request buffers than must be reserved for conforming requests.
    #[error(
        "there are {buffers} request buffers, but {needed} are needed: those reserved for conforming requests, \
         and one for all other requests; add the missing ones, or give fewer tasks a reservation"
    )]
    Buffers { buffers: u16, needed: u64 },
    /// A parameter of the policy breaks a rule.
    #[error("policy {policy}: {rule}")]
    Policy {
        policy: &'static str,
        /// The parameter, and what it must be.
        rule: &'static str,
    },
    /// The policy picks ranges of compute units, and the plan lacks one.
    #[error(
        "policy {policy} needs a partition for each contiguous range of compute units, but there is none of {} \
         units from unit {} on; add it", units.count, units.first
    )]
    MissingRange { policy: &'static str, units: Units },
    /// Two partitions of tasks share a compute unit.
    #[error("partitions {} and {} share compute units; assign each unit to one of them", a.0, b.0)]
    Overlap { a: PartitionId, b: PartitionId },
    /// A model's place cannot be one.
    #[error("model {}: partition {} cannot be a place of it: {reason}", model.0, place.0)]
    Place {
        model: ModelId,
        place: PartitionId,
        /// Why not, and what to do.
        reason: &'static str,
    },
    /// A plan with places has too many partitions.
    #[error(
        "a plan with places has {partitions} partitions, homes and places together; use at most {limit}, \
         for example wider cells"
    )]
    PlacedPartitions { partitions: usize, limit: usize },
    /// The mandatory work of a partition does not pass the offline test.
    #[error("partition {}: {reason}", partition.0)]
    Infeasible {
        partition: PartitionId,
        /// The result of the offline test.
        reason: Infeasible,
    },
}

/// Most tasks, models or partitions of a plan.
pub const COUNT_MAX: usize = u16::MAX as usize;

/// Most partitions times request buffers: twice a partition for each range of 256 compute units, with 256 buffers each. It
/// bounds the memory that a plan from an untrusted file takes.
pub const QUEUED_MAX: usize = 1 << 24;

/// The longest span that a plan may name: one hour. Sums of 2^16 of them stay below 2^63 ns, so slack, which
/// is signed, does not overflow.
pub const SPAN_MAX: Nanos = Nanos::from_millis(3_600_000);
