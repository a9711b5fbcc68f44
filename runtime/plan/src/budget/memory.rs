//! The memory budget: a commented sum.

use punctual_diagnostics::{Bytes, Place, Problems, Rule};
use punctual_model::PAGE_BYTES;
use punctual_types::{FrameLayout, PixelFormat, Size};
use serde::Serialize;
use thiserror::Error;

use super::arrival::ArrivalBound;
use super::footprint;
use super::paging::Paging;
use crate::inputs::DeviceKind;
use crate::inputs::PlanInputs;
use crate::manifest::{Manifest, Payloads, RecorderMode, RecorderPlan};
use crate::resolve::{FramePlan, Model, Placed, Placement, Resolved, Task, groups};

/// All memory that the daemon has when every client is there: the most that it ever has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryBudget {
    pub items: Vec<MemoryItem>,
    /// What may be taken.
    pub limit_bytes: u64,
}

impl MemoryBudget {
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let totals = self.items.iter().map(MemoryItem::total_bytes);
        totals.fold(0, u64::saturating_add)
    }

    /// The total, the limit and the largest item, if it is too much.
    pub(super) fn excess(&self) -> Option<(u64, u64, String)> {
        let (total, limit) = (self.total_bytes(), self.limit_bytes);
        let largest = self.items.iter().max_by_key(|item| item.total_bytes());
        let with_size = |item: &MemoryItem| format!("{item} with {}", Bytes(item.total_bytes()));
        let largest = largest.map(with_size).unwrap_or_default();
        (total > limit).then_some((total, limit, largest))
    }
}

/// What is wrong with what a plan takes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemoryRule {
    #[error("the plan takes {} of memory, more than {}", Bytes(*total), Bytes(*limit))]
    Exceeded {
        total: u64,
        limit: u64,
        /// The largest item, with its size.
        largest: String,
    },
    /// Not enough memory of the GPU's own.
    #[error("the plan takes {} of the GPU's memory, more than {}", Bytes(*total), Bytes(*limit))]
    GpuExceeded {
        total: u64,
        limit: u64,
        /// The largest item, with its size.
        largest: String,
    },
}

impl Rule for MemoryRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::Exceeded { .. } => "all memory is taken at start, and the board has it",
            Self::GpuExceeded { .. } => "all memory is taken at start, and the GPU has it",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Exceeded { largest, .. } => {
                format!("take less, most of all {largest}, or raise `daemon.memory_mb`")
            }
            Self::GpuExceeded { largest, .. } => format!("take less, most of all {largest}"),
        }
    }
}

/// `count` pieces of `bytes` each. What depends on a device's tensor layout is exact if the layout of
/// each model is known ([`PackageInput::layout`](crate::PackageInput::layout)), otherwise an upper bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryItem {
    pub purpose: Purpose,
    /// Of which model, partition or task.
    pub of: String,
    pub bytes: u64,
    pub count: u64,
}

impl MemoryItem {
    pub(super) fn new(purpose: Purpose, of: &str, bytes: u64, count: u64) -> Self {
        Self {
            purpose,
            of: of.to_owned(),
            bytes,
            count,
        }
    }

    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.count)
    }
}

impl std::fmt::Display for MemoryItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.purpose.in_words(), self.of)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// The program and its libraries, all of it, as locking memory brings it in.
    Program,
    /// What the heap holds besides what has a line of its own, and what it has ready for ordinary threads.
    Heap,
    /// What packing weights takes at start beyond all that is taken after it.
    Packing,
    /// A model's weights, packed for the device.
    Weights,
    /// Where the weights of paged models come and go.
    WeightCache,
    /// What weights are loaded from: for good on a GPU, and where a package does not have them packed
    /// for this machine, otherwise while it is read.
    WeightSource,
    /// What the solutions chosen for a model derive from its weights.
    SolutionWeights,
    /// What requests on the GPU carry between stages.
    GpuRequests,
    /// Prepared inputs that the GPU reads.
    GpuInputs,
    /// Pictures that the GPU makes of frames, and crops that it cannot read where they lie.
    GpuFrames,
    /// Intermediate tensors of the stage that runs on a partition of the GPU.
    GpuWorkspace,
    /// Where a partition of the GPU writes a batch's outputs, before they are copied to what clients read.
    GpuOutputs,
    /// Prepared inputs and the activations carried between stages.
    RequestBuffers,
    /// Intermediate tensors of the stage that runs.
    Workspace,
    /// What each core needs while it runs a chosen solution.
    SolutionScratch,
    /// Memory shared with clients: slots and rings.
    Channels,
    /// The intake threads' private copies of crops.
    CropCopies,
    /// Memory that clients read outputs from.
    OutputAreas,
    SchedulerTables,
    /// What is recorded, until it is written.
    Recorder,
    /// Stacks of the plan's threads.
    Stacks,
    /// What a library that runs stages takes for itself.
    LibraryHeap,
}

impl Purpose {
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Heap => "heap",
            Self::Packing => "packing",
            Self::Weights => "packed weights",
            Self::WeightCache => "weight cache",
            Self::WeightSource => "weight source",
            Self::SolutionWeights => "weights for solutions",
            Self::GpuRequests => "requests on the GPU",
            Self::GpuInputs => "inputs for the GPU",
            Self::GpuFrames => "frames for the GPU",
            Self::GpuWorkspace => "workspace on the GPU",
            Self::GpuOutputs => "outputs of the GPU",
            Self::RequestBuffers => "request buffers",
            Self::Workspace => "workspace",
            Self::SolutionScratch => "scratch for solutions",
            Self::Channels => "channels",
            Self::CropCopies => "crop copies",
            Self::OutputAreas => "output areas",
            Self::SchedulerTables => "tables",
            Self::Recorder => "recorder",
            Self::Stacks => "stacks",
            Self::LibraryHeap => "library heap",
        }
    }
}

/// Bytes of a real-time thread's stack. Locking memory brings in all of it.
pub const STACK_BYTES: u64 = 1 << 20;

/// Bytes of the stack of a thread that makes calls which others can make slow.
pub const ORDINARY_STACK_BYTES: u64 = 256 << 10;

/// How many of these are for strangers; each client slot has one as well.
pub const STRANGER_THREADS: u64 = 2;

/// The heap that the C library makes for a thread that allocates, as it is at first.
const THREAD_HEAP_BYTES: u64 = 132 * 1024;

/// Heap that ordinary threads find ready after the ready signal: handshakes, reports.
pub const HEAP_BYTES: u64 = 4 << 20;

/// What the heap holds besides: arguments, the plan, tables of metrics; measured (docs/results/memory.md).
const HEAP_BASE_BYTES: u64 = 1 << 20;

/// Upper bounds on the scheduler's tables: per request buffer and per task.
const SCHEDULER_BYTES_A_REQUEST: u64 = 1024;
const SCHEDULER_BYTES_A_TASK: u64 = 8 * 1024;

/// Two histograms of times, and counters.
const METRICS_BYTES_A_TASK: u64 = 40 * 1024;

/// For each place: a row of costs for each stage, and queues that could hold all requests.
const PLACE_BYTES_A_STAGE: u64 = 512;
const PLACE_BYTES_A_REQUEST: u64 = 512;

/// Models of the processor's, with their positions.
fn on_cpu<'m, 'i>(models: &'m [Model<'i>]) -> impl Iterator<Item = (usize, &'m Model<'i>)> {
    let all = models.iter().enumerate();
    all.filter(|(_, model)| model.device == DeviceKind::Cpu)
}

fn of_cores(placement: &Placement) -> impl Iterator<Item = &Placed> {
    let all = placement.partitions.iter();
    all.filter(|partition| partition.device == DeviceKind::Cpu)
}

/// What has to fit into memory.
pub(super) struct Inventory<'a> {
    pub(super) resolved: &'a Resolved<'a>,
    pub(super) paging: &'a Paging,
    /// By task.
    pub(super) arrivals: &'a [ArrivalBound],
    /// By model: the batch sizes that its device must be ready for.
    pub(super) batches: &'a [Vec<u8>],
    pub(super) request_buffers: u16,
    /// How many threads the plan has.
    pub(super) threads: u64,
}

/// The budget of the processor's memory: as much as the manifest, the board and the machine allow.
pub(super) fn budget(
    items: Vec<MemoryItem>,
    manifest: &Manifest,
    inputs: &PlanInputs,
    problems: &mut Problems<'_>,
) -> MemoryBudget {
    let asked = manifest.daemon.memory_bytes.as_ref();
    let board = inputs.board.memory_bytes.as_ref().map(|fact| fact.value);
    let there = inputs.host.memory_bytes;
    let there = board.map_or(there, |bytes| bytes.min(there));
    let budget = MemoryBudget {
        items,
        limit_bytes: asked.map_or(there, |at| at.value.min(there)),
    };
    if let Some((total, limit, largest)) = budget.excess() {
        let place = asked.map(|at| at.place.clone());
        let place = place.unwrap_or_else(|| Place::of_key("daemon.memory_mb"));
        let cause = MemoryRule::Exceeded {
            total,
            limit,
            largest,
        };
        problems.add(&place, cause);
    }
    budget
}

/// Adds up what the plan takes of the processor's memory; what models on the GPU take is not in it.
pub(super) fn items(inventory: &Inventory<'_>, program_bytes: u64) -> Vec<MemoryItem> {
    let resolved = inventory.resolved;
    let heap = HEAP_BASE_BYTES + HEAP_BYTES;
    let mut items = vec![
        MemoryItem::new(Purpose::Program, "all threads", program_bytes, 1),
        MemoryItem::new(Purpose::Heap, "ordinary threads", heap, 1),
    ];
    items.extend(weights(inventory));
    items.extend(requests(inventory));
    items.extend(groups(&resolved.tasks).flat_map(|group| channels(&group[0])));
    let buffers = u64::from(inventory.request_buffers) * SCHEDULER_BYTES_A_REQUEST;
    let tasks = resolved.tasks.len() as u64 * (SCHEDULER_BYTES_A_TASK + METRICS_BYTES_A_TASK);
    let tables = buffers + tasks;
    let purpose = Purpose::SchedulerTables;
    items.push(MemoryItem::new(purpose, "scheduler", tables, 1));
    items.extend(tables_of_places(inventory));
    items.extend(recorder(resolved.manifest.recorder.mode));
    items.extend(pictures(&resolved.manifest.recorder, &resolved.tasks));
    items.extend(stacks(inventory));
    items.extend(solutions(&resolved.models, &resolved.placement));
    items.extend(packing(&resolved.models, &items));
    items
}

/// Cells of the ring between the scheduler and the recorder. A step takes one for its event and one for each action; the
/// demonstration at sixteen times its load takes 40,000 a second, and the recorder looks every 100 ms.
pub const RECORDER_CELLS: u64 = 16 << 10;

/// At most this many bytes each.
pub const RECORDER_CELL_BYTES: u64 = 384;

/// The newest seconds of a black box: if more happens in them, there are fewer.
pub const BLACK_BOX_BYTES: u64 = 16 << 20;

/// What the recorder needs to write a file, and its own scheduler, which takes each step again.
const RECORDING_BYTES: u64 = 8 << 20;

/// The threads that collect and write.
const RECORDER_THREADS: u64 = 2;

fn recorder(mode: RecorderMode) -> Option<MemoryItem> {
    let stacks = RECORDER_THREADS * (STACK_BYTES + THREAD_HEAP_BYTES);
    let bytes = RECORDER_CELLS * RECORDER_CELL_BYTES + BLACK_BOX_BYTES + RECORDING_BYTES + stacks;
    (mode != RecorderMode::Off).then(|| MemoryItem::new(Purpose::Recorder, "steps", bytes, 1))
}

/// Pictures of a client that wait for the recorder, which looks every 20 ms.
pub const PICTURE_BUFFERS: u64 = 4;

/// Seconds of everything that wait for the disk at most.
pub const WAITING_SECONDS: u64 = 4;

/// What the pictures of a second take where everything is written.
const PICTURE_BYTES_OF_ALL: u64 = 1 << 20;

impl RecorderPlan {
    /// What encoded pictures take of a recording, a second: never more than half of a black box, so that they do not push its
    /// steps out.
    #[must_use]
    pub const fn picture_bytes_a_second(&self) -> u64 {
        match self.mode {
            RecorderMode::BlackBox => {
                // A second's share may be saved up and spent in addition.
                let seconds = self.length.as_nanos() / 1_000_000_000 + 1;
                BLACK_BOX_BYTES / 2 / seconds
            }
            RecorderMode::All => PICTURE_BYTES_OF_ALL,
            RecorderMode::Off => 0,
        }
    }

    /// What is recorded of a frame; none of a tensor, which is no picture.
    #[must_use]
    pub fn picture_of(&self, frame: &FramePlan) -> Option<Size> {
        match (self.payloads, self.mode) {
            (Payloads::None, _) | (_, RecorderMode::Off) => None,
            _ if frame.format == PixelFormat::Tensor => None,
            (Payloads::Crops, _) => Some(frame.crop),
            (Payloads::Frames, _) => Some(frame.size),
        }
    }
}

/// Copies of pictures, and the thread that encodes one at a time.
fn pictures(recorder: &RecorderPlan, tasks: &[Task]) -> Vec<MemoryItem> {
    let recorded = |task: &Task| {
        let size = recorder.picture_of(&task.frame)?;
        let copy = FrameLayout::packed(task.frame.format, size.width, size.height);
        let pixels = u64::from(size.width) * u64::from(size.height);
        let copies = u64::from(task.clients) * PICTURE_BUFFERS;
        let of = task.clients_of();
        let item = MemoryItem::new(Purpose::Recorder, &of, copy.bytes(), copies);
        Some((item, pixels))
    };
    let groups = groups(tasks).map(|group| &group[0]);
    let (mut items, pixels): (Vec<_>, Vec<_>) = groups.filter_map(recorded).unzip();
    if let Some(pixels) = pixels.into_iter().max() {
        // Red, green and blue, and no more than that encoded.
        let picture = 2 * 3 * pixels;
        let waiting = match recorder.mode {
            RecorderMode::All => WAITING_SECONDS * PICTURE_BYTES_OF_ALL,
            _ => 0,
        };
        let bytes = picture + waiting + STACK_BYTES + THREAD_HEAP_BYTES;
        items.push(MemoryItem::new(Purpose::Recorder, "pictures", bytes, 1));
    }
    items
}

/// The scheduler's tables and queues of each place.
fn tables_of_places(inventory: &Inventory<'_>) -> Option<MemoryItem> {
    let places = inventory.resolved.placement.partitions.iter();
    let places = places.filter(|partition| partition.is_place()).count() as u64;
    let bytes = bytes_of_partition(inventory);
    (places > 0).then(|| MemoryItem::new(Purpose::SchedulerTables, "places", bytes, places))
}

fn bytes_of_partition(inventory: &Inventory<'_>) -> u64 {
    let models = inventory.resolved.models.iter();
    let stages = models.map(|model| u64::from(model.stages()));
    stages.sum::<u64>() * PLACE_BYTES_A_STAGE
        + u64::from(inventory.request_buffers) * PLACE_BYTES_A_REQUEST
}

/// Resident ones, the cache for the others, and what they are loaded from.
fn weights(inventory: &Inventory<'_>) -> Vec<MemoryItem> {
    let (models, paging) = (&inventory.resolved.models, inventory.paging);
    let page = PAGE_BYTES as u64;
    let mut items = Vec::new();
    for (position, model) in on_cpu(models) {
        let bytes = footprint::weights(model);
        if !paging.is_paged(position) {
            let pages = bytes.div_ceil(page);
            items.push(MemoryItem::new(Purpose::Weights, &model.name, page, pages));
        } else if model.image().is_none() {
            items.push(MemoryItem::new(
                Purpose::WeightSource,
                &model.name,
                bytes,
                1,
            ));
        }
    }
    let paged = |&(position, _): &(usize, _)| paging.is_paged(position);
    if on_cpu(models).any(|model| paged(&model)) {
        let packed = on_cpu(models).filter(paged);
        let packed = packed.filter_map(|(_, model)| model.image());
        if let Some(largest) = packed.map(|image| image.pages() as u64).max() {
            let purpose = Purpose::WeightSource;
            items.push(MemoryItem::new(purpose, "largest package", page, largest));
        }
        let cached = u64::from(paging.pages);
        let purpose = Purpose::WeightCache;
        items.push(MemoryItem::new(purpose, "paged models", page, cached));
    }
    items
}

/// Request buffers, and the workspaces of partitions.
fn requests(inventory: &Inventory<'_>) -> Vec<MemoryItem> {
    let Inventory {
        resolved, batches, ..
    } = inventory;
    let models = &resolved.models;
    let mut items = Vec::new();
    // Any buffer can hold a request of any model.
    let request = on_cpu(models).map(|(_, model)| footprint::request(model));
    if let Some(request) = request.max() {
        let buffers = u64::from(inventory.request_buffers);
        let purpose = Purpose::RequestBuffers;
        items.push(MemoryItem::new(purpose, "all models", request, buffers));
    }
    // Any partition can run the largest batch of any model.
    let batch = on_cpu(models).filter_map(|(position, _)| batches[position].last());
    let batch = u64::from(batch.max().copied().unwrap_or(1));
    let image = on_cpu(models).map(|(_, model)| footprint::workspace(model));
    let image = image.max().unwrap_or(0);
    let workspaces = of_cores(&resolved.placement);
    items.extend(workspaces.map(|p| MemoryItem::new(Purpose::Workspace, &p.name, image, batch)));
    items
}

/// What is shared with a task's clients, and what is copied out of it.
fn channels(task: &Task) -> Vec<MemoryItem> {
    let (clients, channel) = (u64::from(task.clients), task.channel());
    let (bytes, crop) = (channel.bytes(), task.frame.crop_bytes());
    let of = &task.clients_of();
    let mut items = vec![
        MemoryItem::new(Purpose::Channels, of, bytes, clients),
        MemoryItem::new(Purpose::CropCopies, of, crop, clients),
    ];
    if channel.area_bytes > 0 {
        let (area, count) = (channel.area_stride(), clients * u64::from(channel.areas));
        let purpose = Purpose::OutputAreas;
        items.push(MemoryItem::new(purpose, of, area, count));
    }
    items
}

/// Threads that serve one client, and what their stacks take: its port and its intake, and one for its coming and leaving.
pub(crate) const THREADS_A_CLIENT: u64 = 3;
pub(crate) const STACKS_A_CLIENT: u64 =
    2 * (STACK_BYTES + THREAD_HEAP_BYTES) + ORDINARY_STACK_BYTES + THREAD_HEAP_BYTES;

fn stacks(inventory: &Inventory<'_>) -> [MemoryItem; 2] {
    // With a cache there is a thread that fills it.
    let loader = u64::from(inventory.paging.pages > 0);
    let threads = inventory.threads + loader;
    let stack = STACK_BYTES + THREAD_HEAP_BYTES;
    let ordinary = ORDINARY_STACK_BYTES + THREAD_HEAP_BYTES;
    let groups = groups(&inventory.resolved.tasks);
    let clients: u64 = groups.map(|group| u64::from(group[0].clients)).sum();
    [
        MemoryItem::new(Purpose::Stacks, "threads", stack, threads),
        MemoryItem::new(
            Purpose::Stacks,
            "ordinary threads",
            ordinary,
            STRANGER_THREADS + clients,
        ),
    ]
}

/// What the solutions take that the profiles name.
fn solutions(models: &[Model<'_>], placement: &Placement) -> Vec<MemoryItem> {
    let memory = |model: &Model<'_>| model.profile.solution_memory;
    let weights = on_cpu(models).map(|(_, model)| {
        let bytes = memory(model).weight_bytes;
        MemoryItem::new(Purpose::SolutionWeights, &model.name, bytes, 1)
    });
    // Any core can run any model.
    let most = on_cpu(models).map(|(_, model)| memory(model).scratch_bytes);
    let most = most.max();
    let scratch = of_cores(placement).map(|partition| {
        let cores = partition.cores.len() as u64;
        let bytes = most.unwrap_or(0);
        MemoryItem::new(Purpose::SolutionScratch, &partition.name, bytes, cores)
    });
    let taken = weights.chain(scratch).filter(|item| item.bytes > 0);
    taken.collect()
}

/// Weights are packed first: what that takes for a while is taken again by what comes after it.
/// Only what is left over adds to the most that the daemon ever has.
fn packing(models: &[Model<'_>], items: &[MemoryItem]) -> Option<MemoryItem> {
    // An image in the package is copied page by page, and what was read is given back.
    let unpacked = on_cpu(models)
        .filter(|(_, model)| model.image().is_none())
        .map(|(_, model)| {
            let logical = size_of_val::<[f32]>(&model.package.network().weights) as u64;
            logical + footprint::weights(model)
        });
    let before = [
        Purpose::Program,
        Purpose::Weights,
        Purpose::WeightCache,
        Purpose::WeightSource,
    ];
    let after = items.iter().filter(|item| !before.contains(&item.purpose));
    let after: u64 = after.map(MemoryItem::total_bytes).sum();
    let bytes = unpacked.sum::<u64>().saturating_sub(after);
    (bytes > 0).then(|| MemoryItem::new(Purpose::Packing, "all models", bytes, 1))
}
