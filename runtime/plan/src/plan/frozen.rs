//! The frozen plan: everything that is decided before the first frame. Who runs where, how much
//! memory each thing takes, what every task was promised and why the promise can be kept.
//!
//! Nothing in here changes after it was built, and nothing was read from the environment while
//! it was: the same manifest, board, host facts, packages and profiles give the same plan, bit for bit.

use std::num::{NonZeroU8, NonZeroU32};
use std::path::{Path, PathBuf};

use punctual_core::{
    Confidence, Config, Criticality, ModelId, Nanos, PartitionId, StageId, TaskId,
};
use punctual_diagnostics::RenamedKey;
use punctual_model::{LaunchProfile, OutputLayout, PAGE_BYTES, SolutionChoice, Tensor, Verified};
use serde::Serialize;

use super::warning::Warning;
use crate::budget::{ArrivalBound, CoreLoad, GpuPlan, MemoryBudget, PartitionReport, PlaceReport};
use crate::inputs::{DeviceKind, PolicyChoice};
use crate::manifest::{Defaulted, Margins, RecorderPlan};
use crate::resolve::{
    AdmissionPlan, ChannelPlan, CropsPlan, EntryPlan, FramePlan, PartitionPlan, Role, ThreadPlan,
    VectorPlan,
};

/// A validated configuration, ready to be carried out. Made by [`Plan::build`] only.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// Identifies the rest of the content; the manifest's path, comments and spelling do not count.
    pub hash: PlanHash,
    /// The manifest that asked for it.
    #[serde(serialize_with = "shown")]
    pub manifest: PathBuf,
    pub board: String,
    /// The power mode that the profiles hold for.
    pub power_mode: String,
    pub socket: PathBuf,
    /// Who may connect there.
    #[serde(rename = "door")]
    pub admission: AdmissionPlan,
    /// Longest time that a drain may take before the daemon terminates anyway.
    pub drain_bound: Nanos,
    /// A real-time thread that does not take a turn of its loop for this long is stuck, and the daemon terminates.
    pub watchdog: Nanos,
    /// While the daemon serves, cores stay out of idle states that take longer to leave; none: as the
    /// machine has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_latency: Option<Nanos>,
    /// What a start writes while stages run, in 10^6 bytes a second; none: what each device takes for harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_mb_per_s: Option<NonZeroU32>,
    pub recorder: RecorderPlan,
    /// Whether threads are to ask for real-time priorities and locked memory. False when the host
    /// does not allow it; every [`ThreadPlan::priority`] is then `None`.
    pub realtime: bool,
    /// How budgets were made from measurements.
    pub margins: Margins,
    /// All threads that take part in the way of a frame, and where they run.
    pub threads: Vec<ThreadPlan>,
    /// Cores on which ordinary threads (accepting, logs, metrics) may run.
    pub housekeeping_cores: Vec<u16>,
    /// Position `p` is `PartitionId(p)`.
    pub partitions: Vec<PartitionPlan>,
    /// Position `m` is `ModelId(m)`.
    pub models: Vec<ModelPlan>,
    /// Position `t` is `TaskId(t)`.
    pub tasks: Vec<TaskPlan>,
    /// Position `c` is client slot `c`: at most one connected client at a time holds it, and its
    /// port and its intake thread are [`Role::Port`](crate::Role::Port) and [`Role::Intake`](crate::Role::Intake) with the same number.
    pub client_slots: Vec<ClientSlotPlan>,
    /// What is taken at start, against what the board has.
    pub memory: MemoryBudget,
    /// The GPU; none if no partition is on it, and then nothing looks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuPlan>,
    pub policy: PolicyChoice,
    /// The scheduler's own part of the plan.
    pub scheduler: Config,
    /// Every place that the manifest asks for, and whether it pays. Those that do are partitions, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceReport>,
    /// Promised work on every core that the plan uses, by rising core.
    pub core_loads: Vec<CoreLoad>,
    /// Why the promises can be kept, a partition at a time.
    pub schedulability: Vec<PartitionReport>,
    /// What is allowed, but somebody should know.
    pub warnings: Vec<Warning>,
    /// What the manifest leaves out. Spelling is no part of the content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<Defaulted>,
    /// Keys that the manifest has under their former names. Spelling is no part of the content.
    #[serde(skip)]
    pub renamed_keys: Vec<RenamedKey>,
}

impl Plan {
    /// All of it, for machines. Same plan, same text.
    ///
    /// # Panics
    /// Never: all of it is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("plain data always serialises");
        json.push('\n');
        json
    }

    /// The task of that name, for a client's registration.
    #[must_use]
    pub fn task_named(&self, name: &str) -> Option<(TaskId, &TaskPlan)> {
        let position = self.tasks.iter().position(|task| task.name == name)?;
        Some((TaskId(position as u16), &self.tasks[position]))
    }

    /// A task.
    ///
    /// # Panics
    /// If the id is not of this plan.
    #[must_use]
    pub fn task(&self, id: TaskId) -> &TaskPlan {
        &self.tasks[id.index()]
    }

    /// The thread that leads a partition. A place of TPCs may share that of a partition, or of another place, that begins
    /// at the same TPC.
    #[must_use]
    pub fn leader(&self, partition: PartitionId) -> Option<&ThreadPlan> {
        let leads = |of: PartitionId| {
            let role = Role::Worker {
                partition: of,
                unit: 0,
            };
            self.threads.iter().find(|thread| thread.role == role)
        };
        let own = self.partitions.get(partition.index())?;
        let shared = || {
            let before = (0..).map(PartitionId).zip(&self.partitions);
            let mut before = before.take(partition.index());
            let (first, _) = before.find(|(_, other)| {
                !own.tpcs.is_empty() && !other.tpcs.is_empty() && other.cores == own.cores
            })?;
            leads(first)
        };
        leads(partition).or_else(shared)
    }

    /// Whether a device of that kind serves any model.
    #[must_use]
    pub fn needs(&self, device: DeviceKind) -> bool {
        self.models.iter().any(|model| model.device == device)
    }

    /// Bytes of a page of the weights that come and go, which are on one device.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        let paged = self.models.iter().zip(&self.scheduler.models);
        let mut paged = paged.filter(|(_, config)| config.weights.is_some());
        let on_gpu = paged.any(|(model, _)| model.device == DeviceKind::Cuda);
        let gpu = self.gpu.as_ref().filter(|_| on_gpu);
        gpu.map_or(PAGE_BYTES as u64, |gpu| gpu.page_bytes)
    }

    /// The folder that the paths of packages are relative to.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.manifest.parent().unwrap_or(Path::new(""))
    }
}

/// Identifies the content of a plan, 64 hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PlanHash(String);

impl PlanHash {
    /// BLAKE3 of the plan's JSON without its own hash, the place of its manifest and what that leaves out, without warnings, which are also of the
    /// machine's settings at the moment, and without memory: what is free changes all the time, the program's size is no
    /// decision, and the rest follows from the plan. So `check` and the daemon that is started later have one hash.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut content = plan.clone();
        content.hash = Self::default();
        content.manifest = PathBuf::new();
        content.warnings.clear();
        content.defaults.clear();
        content.memory = MemoryBudget::default();
        if let Some(gpu) = &mut content.gpu {
            gpu.memory = None;
        }
        Self(blake3::hash(content.to_json().as_bytes()).to_string())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for PlanHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A network that is loaded at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelPlan {
    pub name: String,
    /// The package file, as in the manifest: relative to [`Plan::directory`].
    pub package: PathBuf,
    /// The package's hash.
    pub hash: String,
    /// Number of stages. Exits are counted by the stages that they end.
    pub stages: u8,
    pub classes: Vec<String>,
    /// What it takes: channels, rows, columns.
    pub input: Tensor,
    /// Batch sizes that devices must be ready to run, rising, the first being 1.
    pub batches: Vec<u8>,
    /// The solutions that its profile was measured with, so that what runs is what was measured;
    /// operators that are not named run by the direct one. Stages that run as another model's have none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub solutions: Vec<SolutionChoice>,
    /// At how many tiles its launches looked once whether they are preempted when its profile was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look_stride: Option<NonZeroU8>,
    /// How long its launches take alone, where partitions fill what they leave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub launches: Vec<LaunchProfile>,
    /// What of its answers was compared with the reference interpreter's when it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// Hash of the package that it was measured with, if that had other weights; it takes the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_with: Option<String>,
    /// Where it is: on the device of its tasks' partitions.
    pub device: DeviceKind,
    /// No exit says how sure it is: depth follows time alone, and its tasks' thresholds mean nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_confidence: bool,
    /// Where the outputs lie that any of its tasks wants.
    #[serde(skip_serializing_if = "OutputLayout::is_empty")]
    pub outputs: OutputLayout,
}

/// A stream of requests, as the daemon sees it. The scheduler's view is
/// [`Config::tasks`] at the same position.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskPlan {
    /// As in the manifest; clients name it when they register.
    pub name: String,
    pub model: ModelId,
    pub partition: PartitionId,
    pub criticality: Criticality,
    /// Least time between two frames of the task, all its clients together. Best-effort tasks may have none.
    pub period: Option<Nanos>,
    /// Relative to capture, as the manifest says; in a pipeline, for all parts of a frame.
    pub deadline: Option<Nanos>,
    /// Of a task whose frames are parts of another's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<AfterPlan>,
    pub mandatory_exit: StageId,
    pub threshold: Confidence,
    /// The largest batch its requests may join.
    pub batch_max: u8,
    /// Most requests inside the scheduler at once.
    #[serde(rename = "queue")]
    pub queue_depth: u16,
    /// The client slots of this task: positions in [`Plan::client_slots`]. Tasks of one `[[task]]` have the same.
    pub client_slots: Vec<u16>,
    /// What its clients' memory is listed under: its name, or the pattern that its package was found by.
    #[serde(skip)]
    pub clients_of: String,
    /// Who may feed it, and how fast.
    pub entry: EntryPlan,
    pub frame: FramePlan,
    pub channel: ChannelPlan,
    /// The names of the outputs that its clients get, in the network's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// What comes with each frame, in the network's order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<VectorPlan>,
    /// How its jitter bound came about.
    pub arrival: ArrivalBound,
}

impl TaskPlan {
    /// Frames in a second, of all its clients together; none if their rate has no limit.
    #[must_use]
    pub fn hz(&self) -> Option<f64> {
        let period = self.period?.as_nanos().max(1);
        Some(1e9 / period as f64)
    }
}

/// A place for one connected client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClientSlotPlan {
    /// The task that the client submits to; of several the first.
    pub task: TaskId,
    /// How many they are, of one `[[task]]` with a pattern of packages.
    #[serde(skip_serializing_if = "is_one")]
    pub tasks: u16,
    /// How many tasks after these have parts of its frames.
    #[serde(skip_serializing_if = "is_zero")]
    pub parts: u16,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_one(tasks: &u16) -> bool {
    *tasks == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(parts: &u16) -> bool {
    *parts == 0
}

impl ClientSlotPlan {
    /// What the client may submit to.
    pub fn tasks(self) -> impl ExactSizeIterator<Item = TaskId> + Clone {
        (self.task.0..self.task.0 + self.tasks).map(TaskId)
    }

    /// The tasks of a pipeline that have parts of its frames.
    pub fn parts(self) -> impl ExactSizeIterator<Item = TaskId> + Clone {
        let first = self.task.0 + self.tasks;
        (first..first + self.parts).map(TaskId)
    }
}

/// How a task's frames come about: as crops of the boxes that another finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AfterPlan {
    /// The pipeline's first task.
    pub first: TaskId,
    pub crops: CropsPlan,
}

/// A path need not be UTF-8, JSON must be.
fn shown<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
