//! Why a configuration is refused.

use crate::config::Units;
use crate::ids::{BATCH_MAX, Confidence, ModelId, PartitionId, STAGES_MAX, StageId, TaskId};
use crate::offline::Infeasible;
use crate::time::Nanos;

/// A relation that the scheduler's safety rests on does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is nothing to run on.
    #[error("the plan has no partition")]
    NoPartition,
    /// A share is 1 to 1000 thousandths.
    #[error("a partition's share for real-time work is {0} thousandths; it must be 1 to 1000")]
    Share(u16),
    /// Position does not exist.
    #[error("task {}: model {} of {models} does not exist", task.0, model.0)]
    UnknownModel {
        /// The task.
        task: TaskId,
        /// What it names.
        model: ModelId,
        /// How many there are.
        models: usize,
    },
    /// Position does not exist.
    #[error("task {}: partition {} of {partitions} does not exist", task.0, partition.0)]
    UnknownPartition {
        /// The task.
        task: TaskId,
        /// What it names.
        partition: PartitionId,
        /// How many there are.
        partitions: usize,
    },
    /// A model must have 1 to [`STAGES_MAX`] stages.
    #[error("model {}: {stages} stages; a model has 1 to {STAGES_MAX}", model.0)]
    Stages {
        /// The model.
        model: ModelId,
        /// How many it has.
        stages: usize,
    },
    /// Batch sizes must rise from 1 to at most [`BATCH_MAX`], each with a time for each partition.
    #[error(
        "model {}, stage {}: compiled batch sizes must rise strictly from 1 to at most \
         {BATCH_MAX}, each with one time for each partition", model.0, stage.0
    )]
    Batches {
        /// The model.
        model: ModelId,
        /// The stage.
        stage: StageId,
    },
    /// Calibration must have one row for each deeper exit.
    #[error("model {}, stage {}: {rows} rows of calibration for {exits} deeper exits", model.0, stage.0)]
    Calibration {
        /// The model.
        model: ModelId,
        /// The stage.
        stage: StageId,
        /// Rows given.
        rows: usize,
        /// Rows needed.
        exits: usize,
    },
    /// The weights of a model must fit the device.
    #[error("model {}: its weights fill {needed} pages, the device has {pages}", model.0)]
    Pages {
        /// The model.
        model: ModelId,
        /// What it needs.
        needed: u32,
        /// What there is.
        pages: u32,
    },
    /// Only some policies move weights.
    #[error(
        "model {}: its weights are not resident, and the policy does not bring them in; let the \
         device hold all weights (pages = 0) or choose a policy that does", model.0
    )]
    NotResident {
        /// The model.
        model: ModelId,
    },
    /// An answer is asked where there is none.
    #[error("model {}: stage {} ends in no exit, but the last one has to, and each mandatory exit", model.0, stage.0)]
    NoExit {
        /// The model.
        model: ModelId,
        /// Which stage.
        stage: StageId,
    },
    /// Two stages that are said to be the same are not, or cannot be shared.
    #[error("model {}, stage {}: it cannot run as the same stage of model {}: {reason}", model.0, stage.0, with.0)]
    NotShared {
        /// The model.
        model: ModelId,
        /// Its stage.
        stage: StageId,
        /// The other model.
        with: ModelId,
        /// Why not.
        reason: &'static str,
    },
    /// A task cannot take on what another would refuse.
    #[error("task {}: its frames cannot spill to task {}: {reason}", task.0, spill.0)]
    Spill {
        /// Whose frames.
        task: TaskId,
        /// Who would take them on.
        spill: TaskId,
        /// Why not.
        reason: &'static str,
    },
    /// The model is not so deep.
    #[error("task {}: mandatory exit {} of a model with {stages} exits", task.0, exit.0)]
    MandatoryExit {
        /// The task.
        task: TaskId,
        /// What it asks.
        exit: StageId,
        /// Exits of its model.
        stages: usize,
    },
    /// A real-time task needs a deadline.
    #[error("task {}: real-time, but without a deadline", task.0)]
    NoDeadline {
        /// The task.
        task: TaskId,
    },
    /// Only real-time tasks can be reserved for.
    #[error("task {}: best-effort, but reserved", task.0)]
    ReservedBestEffort {
        /// The task.
        task: TaskId,
    },
    /// A reservation does not wait for a transfer.
    #[error(
        "task {}: reserved, but the weights of its model {} are not resident for good; give the \
         model no `weights`, or the task no reservation", task.0, model.0
    )]
    ReservedPaged {
        /// The task.
        task: TaskId,
        /// Its model.
        model: ModelId,
    },
    /// A span is zero or longer than [`SPAN_MAX`], so arithmetic could overflow.
    #[error("task {}: {what} is {span}; it must be more than 0 and at most {SPAN_MAX}", task.0)]
    Span {
        /// The task.
        task: TaskId,
        /// Which span.
        what: &'static str,
        /// Its value.
        span: Nanos,
    },
    /// A span of the plan as a whole, or a stage's time, is longer than [`SPAN_MAX`].
    #[error("{what} is {span}; the most is {SPAN_MAX}")]
    PlanSpan {
        /// Which span.
        what: &'static str,
        /// Its value.
        span: Nanos,
    },
    /// J and the egress bound must leave something of D.
    #[error("task {}: jitter {jitter} and egress bound {egress} leave nothing of deadline {deadline}", task.0)]
    Jitter {
        /// The task.
        task: TaskId,
        /// J.
        jitter: Nanos,
        /// D.
        deadline: Nanos,
        /// Epsilon.
        egress: Nanos,
    },
    /// Theta at least is above theta at most.
    #[error("task {}: threshold_min {} is above the threshold {}", task.0, least.0, most.0)]
    Thresholds {
        /// The task.
        task: TaskId,
        /// Theta at least.
        least: Confidence,
        /// Theta at most.
        most: Confidence,
    },
    /// A task's batch or queue bound is zero.
    #[error("task {}: {what} is 0", task.0)]
    Zero {
        /// The task.
        task: TaskId,
        /// Which bound.
        what: &'static str,
    },
    /// A reserved task's queue does not hold its own conforming requests.
    #[error("task {}: a queue of {queue_max} is too short, its conforming requests alone need {needed}", task.0)]
    Queue {
        /// The task.
        task: TaskId,
        /// What it has.
        queue_max: u16,
        /// What it needs: [`crate::offline::buffers_kept`].
        needed: u64,
    },
    /// There are fewer request buffers than must be kept for conforming requests.
    #[error(
        "{buffers} request buffers; {needed} are needed, the conforming requests' and one for all others"
    )]
    Buffers {
        /// What there are.
        buffers: u16,
        /// What is needed.
        needed: u64,
    },
    /// A parameter of the policy breaks a rule.
    #[error("policy {policy}: {rule}")]
    Policy {
        /// The policy's name.
        policy: &'static str,
        /// The parameter, and what it must be.
        rule: &'static str,
    },
    /// The policy picks ranges of compute units, and the plan lacks one.
    #[error(
        "policy {policy} needs a partition for each contiguous range of compute units; there is \
         none of {} units from unit {} on", units.count, units.first
    )]
    MissingRange {
        /// The policy's name.
        policy: &'static str,
        /// The range.
        units: Units,
    },
    /// A layout must name one of the partitions for each task.
    #[error(
        "layout {layout}: it must name one of the {partitions} partitions for each of the {tasks} \
         tasks"
    )]
    Layout {
        /// Which one; 0 is the tasks' own partitions, 1 the first other.
        layout: usize,
        /// How many tasks there are.
        tasks: usize,
        /// How many partitions there are.
        partitions: usize,
    },
    /// Two partitions of a layout share a compute unit.
    #[error(
        "layout {layout}: partitions {} and {} have compute units in common; in a layout that \
         promises anything, each unit belongs to one", a.0, b.0
    )]
    Overlap {
        /// Which layout.
        layout: usize,
        /// One.
        a: PartitionId,
        /// The other.
        b: PartitionId,
    },
    /// A partition cannot keep what would be promised.
    #[error("layout {layout}, partition {}: {reason}", partition.0)]
    Infeasible {
        /// In which layout; 0 is the tasks' own partitions.
        layout: usize,
        /// The partition.
        partition: PartitionId,
        /// What the offline test says.
        reason: Infeasible,
    },
}

/// The longest span that a plan may name: sums of 2^16 of them stay far below 2^63 ns.
pub const SPAN_MAX: Nanos = Nanos::from_millis(3_600_000);
