//! The frozen plan: everything that is decided before the first frame. Who runs where, how much
//! memory each thing takes, what every task was promised and why the promise can be kept.
//!
//! Nothing in here changes after it was built, and nothing was read from the environment while
//! it was: the same manifest, board, host facts, packages and profiles give the same plan, bit for bit.

use crate::policy::PolicyChoice;
use std::path::{Path, PathBuf};

use punctual_core::{
    Confidence, Config, Criticality, ModelId, Nanos, PartitionId, StageId, TaskId,
};
use punctual_model::{PAGE_BYTES, SolutionChoice};
use punctual_types::Size;
use serde::Serialize;

use crate::budgets::Margins;
use crate::door::{DoorPlan, EntryPlan};
pub use crate::frame::FramePlan;
use crate::gpu::GpuPlan;
use crate::load::CoreLoad;
use crate::memory::MemoryBudget;
use crate::partition::{DeviceKind, PartitionPlan};
use crate::reservation::Reservation;
use crate::schedulability::PartitionReport;
use crate::warning::Warning;

/// Batch sizes that packages are compiled and profiled for.
pub const BATCH_SIZES: [u8; 4] = [1, 2, 4, 8];

const _: () = assert!(BATCH_SIZES[BATCH_SIZES.len() - 1] as usize <= punctual_core::BATCH_MAX);

/// A validated configuration, ready to be carried out. Made by [`Plan::build`] only.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Plan {
    /// Identifies the rest of the content; the manifest's path, comments and spelling do not count.
    pub hash: PlanHash,
    /// The manifest that asked for it.
    #[serde(serialize_with = "shown")]
    pub manifest: PathBuf,
    /// The board's name.
    pub board: String,
    /// The power mode that the profiles hold for.
    pub power_mode: String,
    pub socket: PathBuf,
    /// Who may connect there.
    pub door: DoorPlan,
    /// Longest time that a drain may take before the daemon terminates anyway.
    pub drain_bound: Nanos,
    /// A real-time thread that does not take a turn of its loop for this long is stuck, and the daemon terminates.
    pub watchdog: Nanos,
    /// While the daemon serves, cores stay out of idle states that take longer to leave; none: as the
    /// machine has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_latency: Option<Nanos>,
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
    /// intake thread is [`Role::Intake`] with the same number.
    pub client_slots: Vec<ClientSlotPlan>,
    /// What is taken at start, against what the board has.
    pub memory: MemoryBudget,
    /// The GPU; none if no partition is on it, and then nothing looks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuPlan>,
    pub policy: PolicyChoice,
    /// The scheduler's own part of the plan.
    pub scheduler: Config,
    /// Promised work on every core that the plan uses, by rising core.
    pub core_loads: Vec<CoreLoad>,
    /// Why the promises can be kept, a partition at a time.
    pub schedulability: Vec<PartitionReport>,
    /// What is allowed, but somebody should know.
    pub warnings: Vec<Warning>,
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
    /// BLAKE3 of the plan's JSON without its own hash and the place of its manifest.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut content = plan.clone();
        content.hash = Self::default();
        content.manifest = PathBuf::new();
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Descriptors in, validated.
    Ingress,
    /// Runs `drive`.
    Scheduler,
    /// Copies a client's payload in and prepares it. One a client slot.
    Intake {
        /// Position in [`Plan::client_slots`].
        client: u16,
    },
    /// One a compute unit of a partition; unit 0 leads.
    Worker {
        partition: PartitionId,
        /// Position in the partition's cores.
        unit: u8,
    },
    Egress,
    /// Watches for stalls of the machine. One a core that the plan uses, since a virtual machine stalls core by core.
    StallProbe,
}

/// Where a thread runs and how urgent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadPlan {
    pub role: Role,
    /// The one core that it is pinned to.
    pub core: u16,
    /// `SCHED_FIFO` priority, 1 to 99, larger is more urgent. `None`: an ordinary thread.
    pub priority: Option<u8>,
    /// To be asked for first, on [`Plan::housekeeping_cores`]; the priority is for a kernel that refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
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
    pub input: Size,
    /// Batch sizes that devices must be ready to run, rising, the first being 1.
    pub batches: Vec<u8>,
    /// The solutions that its profile was measured with, so that what runs is what was measured;
    /// operators that are not named run by the direct one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub solutions: Vec<SolutionChoice>,
    /// Where it is: on the device of its tasks' partitions.
    pub device: DeviceKind,
}

/// A stream of requests, as the daemon sees it. The scheduler's view is
/// [`Config::tasks`] at the same position.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskPlan {
    /// As in the manifest; clients name it when they register.
    pub name: String,
    pub model: ModelId,
    pub partition: PartitionId,
    /// Real-time or best-effort.
    pub criticality: Criticality,
    /// Least time between two frames of the task, all its clients together. Best-effort tasks may have none.
    pub period: Option<Nanos>,
    /// Relative to capture, as the manifest says.
    pub deadline: Option<Nanos>,
    pub mandatory_exit: StageId,
    pub threshold: Confidence,
    /// The largest batch its requests may join.
    pub batch_max: u8,
    /// Most requests inside the scheduler at once.
    pub queue: u16,
    /// The client slots of this task: positions in [`Plan::client_slots`].
    pub client_slots: Vec<u16>,
    /// Who may feed it, and how fast.
    pub entry: EntryPlan,
    pub frame: FramePlan,
    pub channel: ChannelPlan,
    /// How its jitter bound came about.
    pub arrival: ArrivalBound,
}

/// Bound on the way of a frame from capture to prepared input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ArrivalBound {
    /// Capture to the scheduler's decision to prepare it, wake-ups included (from the manifest).
    pub channel: Nanos,
    /// Preparing it when nothing interferes: the profile's figure with its margin.
    pub prepare: Nanos,
    /// Preparing it while the other intake threads of its core prepare theirs.
    pub prepare_worst: Nanos,
}

impl ArrivalBound {
    /// The release jitter of policy `punctual`: J.
    #[must_use]
    pub fn jitter(&self) -> Nanos {
        self.channel + self.prepare_worst
    }
}

/// A place for one connected client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClientSlotPlan {
    /// The task that the client submits to.
    pub task: TaskId,
}

/// Sizes of one client's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChannelPlan {
    /// Frames that a client can hold or have submitted at once.
    pub slots: u16,
    /// Bytes of a slot: the frame, rounded up to pages.
    pub slot_bytes: u64,
    /// Entries of the submission ring, a power of two.
    pub submissions: u16,
    /// Entries of the result ring, a power of two.
    pub results: u16,
}

impl ChannelPlan {
    /// Bytes shared with one client: slots, both rings at 64 bytes an entry, a page each for the rings' indices.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        const PAGE: u64 = 4096;
        let ring = |entries: u16| (entries as u64 * 64).next_multiple_of(PAGE) + PAGE;
        self.slots as u64 * self.slot_bytes + ring(self.submissions) + ring(self.results)
    }
}

/// A path need not be UTF-8, JSON must be.
fn shown<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
