//! What models take that ONNX Runtime runs: its own copy of the weights for each partition, as
//! each has its own sessions. How much the library takes for itself it does not tell.

use punctual_model::Footprint;

use super::memory::{Inventory, MemoryItem, Purpose};
use crate::inputs::DeviceKind;
use crate::resolve::Placed;

/// What the library takes in addition to weights and tensors: an arena for each session, code of its own. An
/// estimate: with onnxruntime 1.31.1 on x86-64 (2026-11-23), a daemon that served the demonstration network on
/// one core peaked 54 MB above the plan without this line.
const LIBRARY_BYTES: u64 = 64 << 20;

/// What an engine takes of the memory that the GPU computes in, in addition to weights and tensors: code of the vendor's
/// libraries, workspaces of their algorithms. An estimate that was not measured yet.
const ENGINE_BYTES: u64 = 512 << 20;

/// What a device of the library takes.
struct Taken<'r> {
    partitions: Vec<&'r Placed>,
    /// Each with its largest batch.
    models: Vec<(&'r str, u8, &'r Footprint)>,
    request_buffers: u64,
}

/// What the lines are called.
struct Lines {
    of: &'static str,
    requests: Purpose,
    workspaces: Purpose,
    library_bytes: u64,
}

impl<'r> Taken<'r> {
    fn by(device: DeviceKind, inventory: &Inventory<'r>) -> Self {
        let resolved = inventory.resolved;
        let models = resolved.models.iter().zip(inventory.batches);
        let models = models.filter(|(model, _)| model.device == device);
        let partitions = resolved.placement.partitions.iter();
        Self {
            partitions: partitions.filter(|p| p.device == device).collect(),
            models: models
                .filter_map(|(model, batches)| {
                    let largest = batches.last().copied().unwrap_or(1);
                    Some((&*model.name, largest, model.footprint?))
                })
                .collect(),
            request_buffers: inventory.request_buffers.into(),
        }
    }

    /// Any partition runs the largest batch of any model.
    fn workspaces(&self, purpose: Purpose) -> impl Iterator<Item = MemoryItem> {
        let models = self.models.iter();
        let workspace = models.map(|(_, batch, footprint)| footprint.workspace_for(*batch));
        let workspace = workspace.max().unwrap_or(0);
        let partitions = self.partitions.iter();
        partitions.map(move |partition| MemoryItem::new(purpose, &partition.name, workspace, 1))
    }

    fn items(&self, lines: &Lines) -> Vec<MemoryItem> {
        let copies = self.partitions.len() as u64;
        let weights = self.models.iter().map(|(model, _, footprint)| {
            MemoryItem::new(Purpose::Weights, model, footprint.weights, copies)
        });
        // Any buffer can hold a request of any model.
        let requests = self.models.iter().map(|(.., footprint)| footprint.request);
        let request = requests.max();
        let requests = request.map(|request| {
            MemoryItem::new(lines.requests, lines.of, request, self.request_buffers)
        });
        let library = request
            .map(|_| MemoryItem::new(Purpose::LibraryHeap, "ONNX Runtime", lines.library_bytes, 1));
        let items = weights
            .chain(requests)
            .chain(self.workspaces(lines.workspaces));
        items.chain(library).collect()
    }
}

/// The lines of the memory budget.
pub(super) fn items(inventory: &Inventory<'_>) -> Vec<MemoryItem> {
    Taken::by(DeviceKind::Ort, inventory).items(&Lines {
        of: "models of ONNX Runtime",
        requests: Purpose::RequestBuffers,
        workspaces: Purpose::Workspace,
        library_bytes: LIBRARY_BYTES,
    })
}

/// What engines take of the memory that the GPU computes in.
pub(super) fn on_gpu(inventory: &Inventory<'_>) -> Vec<MemoryItem> {
    let lines = Lines {
        of: "models of engines",
        requests: Purpose::GpuRequests,
        workspaces: Purpose::GpuWorkspace,
        library_bytes: ENGINE_BYTES,
    };
    let engines = DeviceKind::ENGINES.into_iter();
    let items = engines.flat_map(|engine| Taken::by(engine, inventory).items(&lines));
    items.collect()
}

/// What engines take of the processor's memory in addition: request buffers, and what inputs and results go through,
/// which is no more than a workspace.
pub(super) fn beside_gpu(inventory: &Inventory<'_>) -> Vec<MemoryItem> {
    let engines = DeviceKind::ENGINES.into_iter();
    let items = engines.flat_map(|engine| {
        let taken = Taken::by(engine, inventory);
        taken.items(&Lines {
            of: "models of engines",
            requests: Purpose::RequestBuffers,
            workspaces: Purpose::GpuInputs,
            library_bytes: LIBRARY_BYTES,
        })
    });
    items
        .filter(|item| item.purpose != Purpose::Weights)
        .collect()
}
