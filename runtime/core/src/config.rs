//! The part of the plan that the scheduler needs. `runtime/plan` makes it. The scheduler checks the
//! relations that its promises depend on, and rejects a plan in which one does not hold.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::ids::{Confidence, ModelId, PartitionId, StageId, TaskId};
use crate::time::Nanos;

/// Everything the scheduler knows of the world before the first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    pub tasks: Vec<TaskConfig>,
    pub models: Vec<ModelConfig>,
    /// The parts of the device that actions run on. Two that share a compute unit never run at the
    /// same time, unless the policy says so ([`Partitioning::PerTask`](crate::Partitioning)). One to which no task
    /// is assigned is used as a place only ([`ModelConfig::places`]).
    pub partitions: Vec<PartitionConfig>,
    /// The number of request buffers of the device.
    pub request_buffers: u16,
    /// The pages of weights that the device holds at once; 0: all weights are always resident.
    pub pages: u32,
    /// Bound on one decision and its hand-over, added to every execution time (delta).
    pub dispatch_cost: Nanos,
    /// Bound on the time from a finished stage to the answer at the client, subtracted from every deadline
    /// (epsilon).
    pub egress_bound: Nanos,
}

impl Config {
    /// Whether any model may run on other partitions than those of its tasks.
    #[must_use]
    pub fn has_places(&self) -> bool {
        self.models.iter().any(|model| !model.places.is_empty())
    }

    /// By model: the tasks that run any of its stages, which may be tasks of other models ([`StageConfig::runs_as`]). What
    /// changes about a model concerns these alone.
    #[must_use]
    pub fn tasks_by_model(&self) -> Box<[Box<[TaskId]>]> {
        let mut by_model = alloc::vec![Vec::new(); self.models.len()];
        for (id, task) in (0..).map(TaskId).zip(&self.tasks) {
            for stage in &self.models[task.model.index()].stages {
                let tasks = &mut by_model[stage.runs_as.unwrap_or(task.model).index()];
                if tasks.last() != Some(&id) {
                    tasks.push(id);
                }
            }
        }
        by_model.into_iter().map(Vec::into_boxed_slice).collect()
    }

    #[must_use]
    pub fn units(&self, partition: PartitionId) -> Units {
        self.partitions[partition.index()].units
    }
}

/// A configured stream of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskConfig {
    /// The network that answers its requests.
    pub model: ModelId,
    pub partition: PartitionId,
    pub criticality: Criticality,
    /// Deadline relative to capture (D). Best-effort tasks may have none.
    pub deadline: Option<Nanos>,
    /// Least time between two captures (T): the reservation is for one frame in this time.
    pub period: Nanos,
    /// How many requests may have the same capture time, as the parts of one frame have: the reservation is for that many in
    /// each period.
    #[serde(default = "one")]
    pub burst: u8,
    /// Bound on the time from capture to the prepared input in the request buffer (J): the channel plus the
    /// profiled preparation. Must be less than `deadline`.
    pub jitter: Nanos,
    /// Profiled time of one preparation alone. A frame that arrives with less than this plus its mandatory work
    /// left is late on arrival.
    pub prepare: Nanos,
    /// The shallowest exit whose answer counts.
    pub mandatory_exit: StageId,
    /// A request with an answer of this confidence goes no deeper.
    pub threshold: Confidence,
    /// An answer of this confidence is enough where time is short; not above `threshold`. With less, a request goes
    /// deeper at any price of depth and before best-effort work.
    pub threshold_min: Confidence,
    /// The largest batch that its requests may join.
    pub batch_max: u8,
    /// Most open requests of this task.
    pub queue_max: u16,
    /// Whether the offline test reserves capacity for it (best-effort tasks: false).
    pub reserved: bool,
    /// Which answers of a request go to its client, and when.
    pub answers: Answers,
    /// Value of its accuracy relative to other tasks'; 1 is ordinary. When the machine slows down, tasks of
    /// less weight lose their guarantees first.
    pub weight: u16,
    /// The task to which it offloads the frames that it would reject when they arrive: one for the same network
    /// on a partition of another device. The frames keep their deadline and count for this task. Only the policy
    /// `punctual` does this. The manifest's `offload_to`.
    pub offload_to: Option<TaskId>,
    /// Whether a newer frame of the same client replaces one that still waits.
    pub delivery: Delivery,
}

const fn one() -> u8 {
    1
}

/// Which answers of a request go to its client, and when. Answers of exits before the mandatory one never do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// One, with the verdict: when it is sure, or at the last moment, as time for a deeper stage may come until then.
    #[default]
    Final,
    /// One, with the verdict, as soon as no deeper stage may start.
    Early,
    /// Each at once ([`Action::Deliver`](crate::Action::Deliver)). A deeper one replaces it until the verdict, which
    /// comes when [`Self::Final`] would give it.
    EachExit,
}

/// Which of a client's frames are answered when the client submits faster than the scheduler answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    #[default]
    EveryFrame,
    /// The newest. Once it is ready and accepted, it replaces the older ones of the same client and task that no
    /// stage has begun; they get `Rejected(Superseded)`. It takes over their promised deadline, so promises to
    /// other requests do not change.
    LatestFrame,
}

/// Whether a task has deadlines to keep. There is no `Ord`: "less critical" would be ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criticality {
    /// Admitted against its deadline; never delayed by best-effort work beyond the device's preemption bound.
    RealTime,
    /// Runs in the gaps that real-time work leaves, and is preempted.
    BestEffort,
}

/// A network as the scheduler sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// From input to last exit.
    pub stages: Vec<StageConfig>,
    /// Its weights, if they can be paged; none: they are always resident.
    pub weights: Option<Weights>,
    /// Its *places*: the partitions, in addition to the one of its task, on which its stages may run while their compute
    /// units are idle. They may overlap other partitions, and each needs budgets that hold while all other
    /// units are busy. Only the policy `punctual` uses them.
    #[serde(default)]
    pub places: Vec<PartitionId>,
}

/// The weights of a model that is not always resident (Clockwork, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    pub pages: u32,
    /// Budget of one transfer to the device.
    pub load: Nanos,
}

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
    /// How confidence changes from the exit before to this one (from calibration). Of the requests whose answer
    /// there falls into bin `a`, the part `follows[a][b]`, in 1/65535, has an answer here in bin `b`. The first
    /// exit has none before it: each of its rows has the frequencies of its own bins. All zeros: unknown; then
    /// no request is expected to reach this exit.
    pub follows: [[u16; ACCURACY_BINS]; ACCURACY_BINS],
    /// Whether it ends in an exit. At a stage without one, requests keep the answer that they have, and its
    /// calibration is that of the exit before. The last stage has an exit, and so has each mandatory one.
    pub answers: bool,
    /// The model whose stage at this position computes the same from the same input. Requests of both then run
    /// in one batch, as that model's stage (Nexus, section 6.3). None: it runs as its own.
    pub runs_as: Option<ModelId>,
}

/// The number of bins of confidence in calibration.
pub const ACCURACY_BINS: usize = 8;

/// Execution times of one stage at one batch size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchTime {
    pub batch: u8,
    /// One entry a partition.
    pub on: Vec<StageTime>,
}

/// How long a stage takes on one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// The budget: a high quantile of the measurements (C, without the dispatch cost).
    pub budget: Nanos,
    pub max_seen: Nanos,
}

/// The unit of [`PartitionConfig::share_max`]: this many are all of a partition's time.
pub(crate) const SHARE_WHOLE: u16 = 1000;

/// Compute units (TPCs, or cores) by position: `first`, and `count` in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Units {
    pub first: u16,
    pub count: u16,
}

impl Units {
    /// The position after the last. Saturates, so that two ranges at the end overlap rather than wrap around.
    #[must_use]
    pub const fn end(self) -> u16 {
        self.first.saturating_add(self.count)
    }

    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }

    /// The number of units that both contain.
    #[must_use]
    pub const fn common(self, other: Self) -> u16 {
        let first = if self.first > other.first {
            self.first
        } else {
            other.first
        };
        let end = if self.end() < other.end() {
            self.end()
        } else {
            other.end()
        };
        end.saturating_sub(first)
    }
}

/// A part of the device that runs one action at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionConfig {
    pub units: Units,
    /// Bound on the time from `Preempt` until the partition is free (P).
    pub preemption_bound: Nanos,
    /// The part of the time, in thousandths, that real-time work may use while more work arrives than was
    /// promised. The rest is for the operating system, which would otherwise throttle real-time threads
    /// (decision 6). 1000: all, for devices that run nothing else.
    pub share_max: u16,
}
