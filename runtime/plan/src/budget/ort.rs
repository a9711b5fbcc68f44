//! What models take that ONNX Runtime runs: its own copy of the weights for each partition, as
//! each has its own sessions. How much the library takes for itself it does not tell.

use punctual_model::Footprint;

use super::memory::{Inventory, MemoryItem, Purpose};
use crate::inputs::DeviceKind;

/// What the library takes in addition to weights and tensors: an arena for each session, code of its own. An
/// estimate: with onnxruntime 1.31.1 on x86-64 (2026-11-23), a daemon that served the demonstration network on
/// one core peaked 54 MB above the plan without this line.
const LIBRARY_BYTES: u64 = 64 << 20;

/// The lines of the memory budget.
pub(super) fn items(inventory: &Inventory<'_>) -> Vec<MemoryItem> {
    let resolved = inventory.resolved;
    let models = resolved.models.iter().zip(inventory.batches);
    let models = models.filter(|(model, _)| model.device == DeviceKind::Ort);
    let models: Vec<(&str, u8, &Footprint)> = models
        .filter_map(|(model, batches)| {
            let largest = batches.last().copied().unwrap_or(1);
            Some((&*model.name, largest, model.footprint?))
        })
        .collect();
    let partitions = resolved.placement.partitions.iter();
    let partitions = partitions.filter(|partition| partition.device == DeviceKind::Ort);
    let copies = partitions.clone().count() as u64;
    let weights = models.iter().map(|(model, _, footprint)| {
        MemoryItem::new(Purpose::Weights, model, footprint.weights, copies)
    });
    // Any buffer can hold a request of any model, any partition run the largest batch of any.
    let request = models.iter().map(|(.., footprint)| footprint.request).max();
    let requests = request.map(|request| {
        let (purpose, buffers) = (Purpose::RequestBuffers, inventory.request_buffers);
        MemoryItem::new(purpose, "models of ONNX Runtime", request, buffers.into())
    });
    let workspace = models.iter();
    let workspace = workspace.map(|(_, batch, footprint)| footprint.workspace_for(*batch));
    let workspace = workspace.max().unwrap_or(0);
    let workspaces = partitions
        .map(|partition| MemoryItem::new(Purpose::Workspace, &partition.name, workspace, 1));
    let library = request.map(|_| {
        let (purpose, of) = (Purpose::LibraryHeap, "ONNX Runtime");
        MemoryItem::new(purpose, of, LIBRARY_BYTES, 1)
    });
    let items = weights.chain(requests).chain(workspaces);
    items.chain(library).collect()
}
