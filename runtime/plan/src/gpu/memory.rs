//! What models on the GPU take: of its memory, and of the processor's beside it.

use punctual_model::InputSpec;

use crate::inputs::{CudaFootprint, GpuHost};
use crate::memory::{MemoryBudget, MemoryItem, MemoryRule, Purpose};
use crate::models::Model;
use crate::paging::Paging;
use crate::partition::DeviceKind;
use crate::placement::Placement;
use crate::plan::BATCH_SIZES;
use punctual_diagnostics::{Place, Problems};

/// The GPU's memory, if it has its own.
pub(crate) fn budget(
    gpu: &GpuHost,
    items: Vec<MemoryItem>,
    problems: &mut Problems<'_>,
) -> MemoryBudget {
    let limit = gpu.memory_bytes;
    let budget = MemoryBudget {
        items,
        limit_bytes: limit,
    };
    let total = budget.total_bytes();
    if total > limit {
        let largest = budget.items.iter().max_by_key(|item| item.total_bytes());
        let largest = largest.map(MemoryItem::with_size).unwrap_or_default();
        let cause = MemoryRule::GpuExceeded {
            total,
            limit,
            largest,
        };
        problems.add(&Place::of_key("partition"), cause);
    }
    budget
}

/// What is taken of the memory that the GPU computes in. Models whose footprint is missing were
/// noted and take nothing.
pub(crate) fn items(
    (models, paging): (&[Model<'_>], &Paging),
    batches: &[Vec<u8>],
    placement: &Placement,
    request_buffers: u16,
    gpu: &GpuHost,
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
    let on_gpu = || on_gpu(models);
    for (position, model, footprint) in on_gpu() {
        if !paging.is_paged(position) {
            let pages = u64::from(footprint.weight_pages);
            add(Purpose::Weights, &model.name, gpu.page_bytes, pages);
        }
    }
    if paging.pages > 0 && on_gpu().any(|(position, ..)| paging.is_paged(position)) {
        let pages = u64::from(paging.pages);
        add(Purpose::WeightCache, "paged models", gpu.page_bytes, pages);
    }
    // Any buffer can hold a request of any model.
    let request = on_gpu()
        .map(|(.., footprint)| footprint.request_bytes)
        .max();
    let buffers = u64::from(request_buffers);
    add(
        Purpose::GpuRequests,
        "all models",
        request.unwrap_or(0),
        buffers,
    );
    // Any partition can run the largest batch of any model.
    let workspace = on_gpu()
        .map(|(position, _, footprint)| footprint.workspace(largest(batches.get(position))))
        .max();
    for partition in &placement.partitions {
        if partition.device() == DeviceKind::Cuda {
            let bytes = workspace.unwrap_or(0);
            add(Purpose::GpuWorkspace, &partition.name, bytes, 1);
        }
    }
    items
}

/// What is taken of the processor's memory beside that: inputs, which the GPU reads where intake
/// writes them, and what weights are copied from, also after a restart of the device.
pub(crate) fn host_items(
    models: &[Model<'_>],
    request_buffers: u16,
    gpu: &GpuHost,
) -> Vec<MemoryItem> {
    let item = |purpose, of: &str, bytes, count| MemoryItem {
        purpose,
        of: of.to_owned(),
        bytes,
        count,
    };
    let mut items = Vec::new();
    for (_, model, footprint) in on_gpu(models) {
        let (page, pages) = (gpu.page_bytes, u64::from(footprint.weight_pages));
        items.push(item(Purpose::WeightSource, &model.name, page, pages));
    }
    let inputs = on_gpu(models).map(|(_, model, _)| input_bytes(model.package.network().input));
    if let Some(bytes) = inputs.max() {
        let buffers = u64::from(request_buffers);
        items.push(item(
            Purpose::GpuInputs,
            "models on the GPU",
            bytes,
            buffers,
        ));
    }
    items
}

fn on_gpu<'m>(
    models: &'m [Model<'_>],
) -> impl Iterator<Item = (usize, &'m Model<'m>, &'m CudaFootprint)> {
    let known = models.iter().enumerate();
    known
        .filter(|(_, model)| model.device == DeviceKind::Cuda)
        .filter_map(|(position, model)| Some((position, model, model.cuda?)))
}

fn largest(batches: Option<&Vec<u8>>) -> u8 {
    let last = batches.and_then(|sizes| sizes.last());
    last.copied().unwrap_or(BATCH_SIZES[0])
}

/// Planar `f32`, as intake writes it.
fn input_bytes(input: InputSpec) -> u64 {
    3 * u64::from(input.height) * u64::from(input.width) * size_of::<f32>() as u64
}
