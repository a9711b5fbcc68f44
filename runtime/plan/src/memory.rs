//! The memory budget: a commented sum.

use serde::Serialize;

use crate::footprint;
use crate::models::Model;
use crate::placement::Placement;
use crate::tasks::Task;

/// All memory that the daemon takes at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryBudget {
    /// One line a purpose.
    pub items: Vec<MemoryItem>,
    /// What may be taken.
    pub limit_bytes: u64,
}

impl MemoryBudget {
    /// The sum of all items.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let totals = self.items.iter().map(MemoryItem::total_bytes);
        totals.fold(0, u64::saturating_add)
    }
}

/// `count` pieces of `bytes` each. Sizes that depend on a device's tensor layout are upper bounds;
/// the device states its real ones when it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryItem {
    /// What for.
    pub purpose: Purpose,
    /// Of which model, partition or task.
    pub of: String,
    /// Size of one piece.
    pub bytes: u64,
    /// How many pieces.
    pub count: u64,
}

impl MemoryItem {
    /// All pieces together.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.count)
    }

    pub(crate) fn with_size(&self) -> String {
        format!("{self} with {}", Bytes(self.total_bytes()))
    }
}

impl std::fmt::Display for MemoryItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.purpose.in_words(), self.of)
    }
}

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A model's weights as its package has them.
    Package,
    /// A model's weights, packed for the device.
    Weights,
    /// Prepared inputs and the activations carried between stages.
    RequestBuffers,
    /// Intermediate tensors of the stage that runs.
    Workspace,
    /// Memory shared with clients: slots and rings.
    Channels,
    /// The intake threads' private copies of crops.
    CropCopies,
    /// The scheduler's tables.
    SchedulerTables,
    /// Stacks of the plan's threads.
    Stacks,
}

impl Purpose {
    /// For people.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Weights => "packed weights",
            Self::RequestBuffers => "request buffers",
            Self::Workspace => "workspace",
            Self::Channels => "channels",
            Self::CropCopies => "crop copies",
            Self::SchedulerTables => "tables",
            Self::Stacks => "stacks",
        }
    }
}

/// Bytes of a thread's stack that are taken and touched at start.
pub const STACK_BYTES: u64 = 512 * 1024;

/// Upper bounds on the scheduler's tables: per request buffer and per task.
const SCHEDULER_BYTES_A_REQUEST: u64 = 1024;
const SCHEDULER_BYTES_A_TASK: u64 = 8 * 1024;

/// Adds up what the plan takes.
pub(crate) fn items(
    models: &[Model<'_>],
    batches: &[Vec<u8>],
    placement: &Placement,
    tasks: &[Task],
    request_buffers: u16,
    threads: usize,
) -> Vec<MemoryItem> {
    let mut items = Vec::new();
    let mut add = |purpose, of: &str, bytes, count| {
        items.push(MemoryItem {
            purpose,
            of: of.to_owned(),
            bytes,
            count,
        });
    };
    for model in models {
        let network = model.package.network();
        // As read from the package; kept until the device has packed them.
        let raw = network.weights.len() as u64 * 4;
        add(Purpose::Package, &model.name, raw, 1);
        add(
            Purpose::Weights,
            &model.name,
            footprint::weights(network),
            1,
        );
    }
    // Any buffer can hold a request of any model.
    let networks = models.iter().map(|model| model.package.network());
    let request = networks.map(footprint::request).max().unwrap_or(0);
    let buffers = u64::from(request_buffers);
    add(Purpose::RequestBuffers, "all models", request, buffers);
    for (position, partition) in placement.partitions.iter().enumerate() {
        let used = tasks.iter().filter(|task| task.partition == position);
        let workspace = used.map(|task| workspace(&models[task.model], &batches[task.model]));
        let bytes = workspace.max().unwrap_or(0);
        add(Purpose::Workspace, &partition.name, bytes, 1);
    }
    for task in tasks {
        let clients = u64::from(task.clients);
        add(
            Purpose::Channels,
            &task.name,
            task.channel().bytes(),
            clients,
        );
        add(
            Purpose::CropCopies,
            &task.name,
            task.frame.crop_bytes(),
            clients,
        );
    }
    let tables = buffers * SCHEDULER_BYTES_A_REQUEST + tasks.len() as u64 * SCHEDULER_BYTES_A_TASK;
    add(Purpose::SchedulerTables, "scheduler", tables, 1);
    add(Purpose::Stacks, "threads", STACK_BYTES, threads as u64);
    items
}

/// The largest batch of the hungriest stage.
fn workspace(model: &Model<'_>, batches: &[u8]) -> u64 {
    let network = model.package.network();
    let image = network
        .stages
        .iter()
        .map(|stage| footprint::workspace(network, stage))
        .max();
    image.unwrap_or(0) * u64::from(batches.last().copied().unwrap_or(1))
}

/// Bytes for people.
pub(crate) struct Bytes(pub(crate) u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0 as f64;
        if self.0 < 1 << 20 {
            write!(f, "{:.1} KiB", bytes / f64::from(1 << 10))
        } else {
            write!(f, "{:.1} MiB", bytes / f64::from(1 << 20))
        }
    }
}
