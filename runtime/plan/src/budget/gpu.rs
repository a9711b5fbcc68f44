//! What models on the GPU take: of its memory, and in addition of the processor's.

use std::collections::BTreeSet;

use punctual_diagnostics::{Place, Problems};
use punctual_model::{Footprint, Network, PlacedExit};
use serde::Serialize;

use super::memory::{Inventory, MemoryBudget, MemoryItem, MemoryRule, Purpose};
use super::ort;
use super::prepare::{PrepareRule, PreparedBy};
use crate::inputs::DeviceKind;
use crate::inputs::{BATCH_SIZES, GpuHost};
use crate::manifest::LeaderWait;
use crate::resolve::{Model, Placed, Placement, QUEUES, Task, queues_of_stream};

/// The GPU that a plan was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GpuPlan {
    /// As in the profiles' keys.
    pub machine: String,
    pub leader_wait: LeaderWait,
    /// TPCs that partitions were made of.
    pub tpcs: u16,
    pub granularity: u16,
    /// Whether nothing can leave its TPCs.
    pub enforced: bool,
    /// Whether it shares the processor's memory.
    pub integrated: bool,
    /// Bytes of a page of weights.
    pub page_bytes: u64,
    /// What is taken of its own memory; none if it has none, and all lines are in
    /// [`Plan::memory`](crate::Plan::memory).
    pub memory: Option<MemoryBudget>,
}

/// The GPU's part of the plan. What it takes of the processor's memory, all of it if they share
/// one, is added to `items`.
pub(super) fn plan(
    host: &GpuHost,
    inventory: &Inventory<'_>,
    items: &mut Vec<MemoryItem>,
    problems: &mut Problems<'_>,
) -> GpuPlan {
    check_queues(inventory, host, problems);
    items.extend(host_items(inventory, host));
    let on_gpu = gpu_items(inventory, host);
    let wait = inventory.resolved.manifest.daemon.leaders.wait;
    let memory = if host.integrated {
        items.extend(on_gpu);
        None
    } else {
        Some(budget(host, on_gpu, problems))
    };
    GpuPlan {
        machine: host.machine(wait).to_owned(),
        leader_wait: wait,
        tpcs: host.tpcs,
        granularity: host.granularity,
        enforced: host.enforced,
        integrated: host.integrated,
        page_bytes: host.page_bytes,
        memory,
    }
}

/// The GPU's memory, if it has its own.
fn budget(gpu: &GpuHost, items: Vec<MemoryItem>, problems: &mut Problems<'_>) -> MemoryBudget {
    let budget = MemoryBudget {
        items,
        limit_bytes: gpu.memory_bytes,
    };
    if let Some((total, limit, largest)) = budget.excess() {
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
fn gpu_items(inventory: &Inventory<'_>, gpu: &GpuHost) -> Vec<MemoryItem> {
    let Inventory {
        resolved, paging, ..
    } = inventory;
    let mut items = Vec::new();
    let mut add = |purpose, of: &str, bytes, count| {
        items.push(MemoryItem::new(purpose, of, bytes, count));
    };
    let on_gpu = || on_gpu(&resolved.models);
    for (position, model, footprint) in on_gpu() {
        if !paging.is_paged(position) {
            let pages = footprint.weights.div_ceil(gpu.page_bytes.max(1));
            add(Purpose::Weights, &model.name, gpu.page_bytes, pages);
        }
    }
    if paging.pages > 0 && on_gpu().any(|(position, ..)| paging.is_paged(position)) {
        let pages = u64::from(paging.pages);
        add(Purpose::WeightCache, "paged models", gpu.page_bytes, pages);
    }
    // Any buffer can hold a request of any model.
    let request = on_gpu().map(|(.., footprint)| footprint.request).max();
    let buffers = u64::from(inventory.request_buffers);
    add(
        Purpose::GpuRequests,
        "all models",
        request.unwrap_or(0),
        buffers,
    );
    // Any partition can run the largest batch of any model.
    let workspace = on_gpu()
        .map(|(position, _, footprint)| {
            footprint.workspace_for(largest(inventory.batches.get(position)))
        })
        .max();
    for partition in streams(&resolved.placement, gpu) {
        let bytes = workspace.unwrap_or(0);
        add(Purpose::GpuWorkspace, &partition.name, bytes, 1);
    }
    for task in prepared_here(inventory) {
        let input = resolved.models[task.model].package.network().input;
        let pixels = u64::from(input.width) * u64::from(input.height);
        let (bytes, clients) = (pixels * PIXEL_BYTES, task.clients.into());
        add(Purpose::GpuFrames, &task.name, bytes, clients);
    }
    items.extend(ort::on_gpu(inventory));
    items
}

/// What is taken of the processor's memory in addition to that: inputs, which the GPU reads where intake
/// writes them, and what weights are copied from, also after a restart of the device.
fn host_items(inventory: &Inventory<'_>, gpu: &GpuHost) -> Vec<MemoryItem> {
    let models = &inventory.resolved.models;
    let mut items = Vec::new();
    for (_, model, footprint) in on_gpu(models) {
        let (page, pages) = (
            gpu.page_bytes,
            footprint.weights.div_ceil(gpu.page_bytes.max(1)),
        );
        items.push(MemoryItem::new(
            Purpose::WeightSource,
            &model.name,
            page,
            pages,
        ));
    }
    let inputs = on_gpu(models).map(|(_, model, _)| input_bytes(model.package.network()));
    if let Some(bytes) = inputs.max() {
        let buffers = u64::from(inventory.request_buffers);
        items.push(MemoryItem::new(
            Purpose::GpuInputs,
            "models on the GPU",
            bytes,
            buffers,
        ));
    }
    items.extend(prepared_here(inventory).map(|task| {
        let (crop, clients) = (task.frame.crop_bytes(), task.clients.into());
        MemoryItem::new(Purpose::GpuFrames, &task.name, crop, clients)
    }));
    items.extend(outputs(inventory, gpu));
    items.extend(ort::beside_gpu(inventory));
    items
}

/// Of a picture as the GPU makes it of a frame: eight halves, of which three are used.
const PIXEL_BYTES: u64 = 16;

/// Refuses streams of frames for which no hardware queue is left.
fn check_queues(inventory: &Inventory<'_>, gpu: &GpuHost, problems: &mut Problems<'_>) {
    let Some(first) = prepared_here(inventory).next() else {
        return;
    };
    let partitions: BTreeSet<usize> = prepared_here(inventory)
        .map(|task| task.partition)
        .collect();
    let streams = streams(&inventory.resolved.placement, gpu).count();
    let (frames, stages) = (partitions.len(), streams * queues_of_stream(gpu.integrated));
    if stages + frames > QUEUES {
        let cause = PrepareRule::TooManyStreams {
            frames,
            stages,
            queues: QUEUES,
        };
        problems.add(&first.prepare.place, cause);
    }
}

/// The tasks whose frames the GPU prepares.
fn prepared_here<'a>(inventory: &Inventory<'a>) -> impl Iterator<Item = &'a Task> {
    let tasks = inventory.resolved.tasks.iter().zip(inventory.arrivals);
    let here = tasks.filter(|(_, arrival)| arrival.prepared_by == PreparedBy::Gpu);
    here.map(|(task, _)| task)
}

/// Where partitions write outputs: any can run the largest batch of any model.
fn outputs(inventory: &Inventory<'_>, gpu: &GpuHost) -> Vec<MemoryItem> {
    let resolved = inventory.resolved;
    let needed = on_gpu(&resolved.models).map(|(position, _, footprint)| {
        let layout = resolved.outputs.get(position);
        let exits = layout.into_iter().flat_map(|layout| &layout.stages);
        let pitch = exits.map(PlacedExit::pitch).max().unwrap_or(0);
        let members = u64::from(largest(inventory.batches.get(position)));
        (members * pitch, u64::from(footprint.output_batches))
    });
    let Some((bytes, batches)) = needed.max().filter(|(bytes, _)| *bytes > 0) else {
        return Vec::new();
    };
    streams(&resolved.placement, gpu)
        .map(|partition| MemoryItem::new(Purpose::GpuOutputs, &partition.name, bytes, batches))
        .collect()
}

/// The first partition of each stream, which has the workspaces: where TPCs can be changed, partitions of one leader
/// that begin at one TPC share a stream.
fn streams<'p>(placement: &'p Placement, gpu: &GpuHost) -> impl Iterator<Item = &'p Placed> {
    let redivides = gpu.redivides;
    let stream = |partition: &Placed| {
        (
            partition.cores.first().copied(),
            partition.tpcs.first().copied(),
        )
    };
    let partitions = placement.partitions.iter().enumerate();
    let on_gpu = partitions.filter(|(_, partition)| partition.device == DeviceKind::Cuda);
    let first = on_gpu.filter(move |(position, partition)| {
        let mut before = placement.partitions[..*position].iter();
        !redivides || !before.any(|other| stream(other) == stream(partition))
    });
    first.map(|(_, partition)| partition)
}

fn on_gpu<'m>(
    models: &'m [Model<'_>],
) -> impl Iterator<Item = (usize, &'m Model<'m>, &'m Footprint)> {
    let known = models.iter().enumerate();
    known
        .filter(|(_, model)| model.device == DeviceKind::Cuda)
        .filter_map(|(position, model)| Some((position, model, model.footprint?)))
}

fn largest(batches: Option<&Vec<u8>>) -> u8 {
    let last = batches.and_then(|sizes| sizes.last());
    last.copied().unwrap_or(BATCH_SIZES[0])
}

/// Planar `f32` and the vectors behind it, as intake writes them.
fn input_bytes(network: &Network) -> u64 {
    let tensors = network.input_tensors();
    let elements = tensors.map(|tensor| network.tensors[tensor.index()].elements());
    elements.sum::<u64>() * size_of::<f32>() as u64
}
