//! The frozen plan, as far as the scheduler needs it. `runtime/plan` makes it; the scheduler
//! checks the relations that its own safety rests on and refuses what does not hold.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::{Confidence, ModelId, PartitionId, StageId, TaskId};
use crate::time::Nanos;

/// Everything the scheduler knows of the world before the first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The streams of requests.
    pub tasks: Vec<TaskConfig>,
    /// The networks.
    pub models: Vec<ModelConfig>,
    /// The parts of the device that actions run on. Two that share a compute unit never run at the
    /// same time, unless the policy says so ([`Partitioning::PerTask`](crate::Partitioning)).
    pub partitions: Vec<PartitionConfig>,
    /// Other ways to assign the tasks to partitions; the policy `punctual` changes between them and the tasks'
    /// own as demand does. In each, the partitions of two tasks are the same or have no compute unit in common.
    pub layouts: Vec<Layout>,
    /// Bound on what a change between layouts takes once its partitions are idle (R).
    pub switch_cost: Nanos,
    /// How many request buffers the device has.
    pub request_buffers: u16,
    /// How many pages of weights the device holds at once; 0: all weights are resident for good.
    pub pages: u32,
    /// Cost of one decision and hand-over, added to every execution time (delta).
    pub dispatch_cost: Nanos,
    /// Bound on the way from a finished stage to the client, taken off every deadline (epsilon).
    pub egress_bound: Nanos,
}

/// An assignment of tasks to partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Where each task's stages run, one entry a task.
    pub partitions: Vec<PartitionId>,
}

impl Config {
    /// This plan with its tasks where a layout puts them: 0 where they are, 1 the first of
    /// [`Self::layouts`], and so on.
    ///
    /// # Panics
    /// If there is no such layout, or it does not name a partition for each task.
    #[must_use]
    pub fn in_layout(&self, layout: usize) -> Self {
        let mut config = self.clone();
        if let Some(layout) = layout.checked_sub(1) {
            for (index, task) in config.tasks.iter_mut().enumerate() {
                task.partition = self.layouts[layout].partitions[index];
            }
        }
        config
    }
}

/// A configured stream of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskConfig {
    /// The network it asks.
    pub model: ModelId,
    /// Where its stages run.
    pub partition: PartitionId,
    /// Real-time or best-effort.
    pub criticality: Criticality,
    /// Deadline relative to capture (D). Best-effort tasks may have none.
    pub deadline: Option<Nanos>,
    /// Least time between two captures (T); what the reservation is made for.
    pub period: Nanos,
    /// Bound on capture → input prepared in the request buffer (J): the way through the channel
    /// plus the profiled preparation. Must be less than `deadline`.
    pub jitter: Nanos,
    /// Profiled time of one preparation alone; a frame that arrives with less than this plus its
    /// mandatory work left is late on arrival.
    pub prepare: Nanos,
    /// The shallowest exit whose answer counts.
    pub mandatory_exit: StageId,
    /// An answer this confident is good enough to stop (theta at most).
    pub threshold: Confidence,
    /// Below this confidence no price keeps a request from going deeper (theta at least); not
    /// above `threshold`. Between the two, what a deeper answer gains for its time decides.
    pub threshold_min: Confidence,
    /// The largest batch that its requests may join.
    pub batch_max: u8,
    /// Most requests of this task inside the scheduler at once.
    pub queue_max: u16,
    /// Whether the offline test reserved capacity for it (best-effort tasks: false).
    pub reserved: bool,
    /// Answer as soon as no deeper stage is allowed, instead of waiting for capacity until the last moment.
    pub eager: bool,
    /// Relative worth of a gain in accuracy against other tasks', 1 being ordinary.
    pub weight: u16,
    /// Who takes on the frames that this task would have to refuse when they arrive: a task for the
    /// same network, prepared for another device, on a partition there. They keep their deadline, and
    /// count as this task's; the policies other than `punctual` take no notice.
    pub spill: Option<TaskId>,
    /// What becomes of a frame that still waits when the same client has a newer one ready.
    pub delivery: Delivery,
}

/// Which of a client's frames are answered when they come faster than they can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Each frame that was taken on, in its turn.
    #[default]
    EveryFrame,
    /// The newest: once its input is ready and it is taken on, it takes the place of those of the
    /// same client and task of which no stage has begun, and they get `Rejected(Superseded)`. It
    /// has to be done by the time that was promised to them.
    LatestFrame,
}

/// Whose answers may delay whose. There is no `Ord`: "less critical" would be ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criticality {
    /// Admitted against its deadline; never delayed by best-effort work beyond the device's preemption bound.
    RealTime,
    /// Runs in the gaps and yields.
    BestEffort,
}

/// A network as the scheduler sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// From input to last exit.
    pub stages: Vec<StageConfig>,
    /// Where its weights can be paged in; none: they are resident for good.
    pub weights: Option<Weights>,
}

/// The weights of a model that is not always resident (Clockwork, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// Pages that they fill.
    pub pages: u32,
    /// Budget of one transfer to the device.
    pub load: Nanos,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageConfig {
    /// Compiled batch sizes with their execution times, by rising batch size, the first being 1.
    /// `times[i].on[p]` is for partition `p`.
    pub times: Vec<BatchTime>,
    /// Expected accuracy of this exit's answer by confidence, in [`ACCURACY_BINS`] equal bins of
    /// confidence *at this exit*, in 1/65535 (from calibration).
    pub accuracy: [u16; ACCURACY_BINS],
    /// For a request whose answer at this exit falls into a bin: the expected accuracy at each
    /// deeper exit. `deeper[k][bin]` is for exit `stage + 1 + k`.
    pub deeper: Vec<[u16; ACCURACY_BINS]>,
    /// How confidence moves from the exit before to this one (from calibration): of the requests
    /// whose answer there falls into bin `a`, `follows[a][b]`, in 1/65535, have an answer here in
    /// bin `b`. Nothing is before the first exit: each of its rows says how often its bins occur.
    /// All zeros: not known; then nobody is expected to come this far.
    pub follows: [[u16; ACCURACY_BINS]; ACCURACY_BINS],
    /// Whether it ends in an exit. A stage without one only brings its requests further: they keep
    /// the answer that they have, and what its calibration says is what that of the exit before
    /// does. The last stage has one, and so has a mandatory exit.
    pub answers: bool,
    /// The model whose stage at this position does the same to the same input, so that requests of
    /// both run in one batch, as that model's (Nexus, section 6.3). None: its own.
    pub runs_as: Option<ModelId>,
}

/// Bins of confidence in which calibration is kept.
pub const ACCURACY_BINS: usize = 8;

/// Execution times of one stage at one batch size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchTime {
    /// The compiled batch size.
    pub batch: u8,
    /// One entry a partition.
    pub on: Vec<StageTime>,
}

/// How long a stage takes on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// The budget: a high quantile of the measurements (C, without the dispatch cost).
    pub budget: Nanos,
    /// The longest ever measured.
    pub max_seen: Nanos,
}

/// The share of a partition's time that is all of it: [`PartitionConfig::share_max`] is in these.
pub(crate) const SHARE_WHOLE: u16 = 1000;

/// Compute units (TPCs, or cores) by position: `first`, and `count` in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Units {
    /// The first of them.
    pub first: u16,
    /// How many.
    pub count: u16,
}

impl Units {
    /// The one after the last.
    #[must_use]
    pub const fn end(self) -> u16 {
        self.first.saturating_add(self.count)
    }

    /// Whether both contain a unit.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }
}

/// A part of the device that runs one action at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionConfig {
    /// The compute units it consists of.
    pub units: Units,
    /// Bound on the time from `Preempt` until the partition is free (P).
    pub preemption_bound: Nanos,
    /// The share of the time, in thousandths, that real-time work may take when more is asked than
    /// was promised; what is left keeps the operating system from taking it by force. 1000: all,
    /// for devices that nobody else needs.
    pub share_max: u16,
}
