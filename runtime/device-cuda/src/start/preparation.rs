//! What is worked out before anything is asked of the device: programs, packed weights, sizes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use punctual_cuda_kernels::Module as Unit;
use punctual_device::{DeviceSpec, InputBuffers, ModelSpec, PartitionSpec};

use super::{DevicePlan, StartError};
use crate::confinement::Confinement;
use crate::driver::{Attribute, Gpu};
use crate::lower::{PackError, Packer, Pages, Program, Target};
use crate::partition::Division;
use crate::programs::Model;
use crate::spec::CudaSpec;
use crate::weights::{self, Loader, Residents, Source};

/// All models, for each partition. Partitions of the same size that take the same batches share them.
pub(crate) fn programs(
    gpu: Gpu,
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
) -> Result<Vec<Arc<[Model]>>, StartError> {
    let compute_capability = gpu.compute_capability()?;
    let sizes = multiprocessors(gpu, spec.partitions, cuda)?;
    let mut lowered: BTreeMap<(u32, Option<u8>), Arc<[Model]>> = BTreeMap::new();
    let mut programs = Vec::with_capacity(sizes.len());
    for (partition, multiprocessors) in spec.partitions.iter().zip(sizes) {
        let target = Target {
            multiprocessors,
            compute_capability,
            page_bytes: cuda.page_bytes,
        };
        let models = match lowered.entry((multiprocessors, partition.batch_max)) {
            Entry::Occupied(same) => same.get().clone(),
            Entry::Vacant(new) => new.insert(lower(spec, partition, &target)?).clone(),
        };
        programs.push(models);
    }
    Ok(programs)
}

/// All models, for the batches that the partition takes.
fn lower(
    spec: &DeviceSpec<'_>,
    partition: &PartitionSpec,
    target: &Target,
) -> Result<Arc<[Model]>, StartError> {
    let models = spec.models.iter().map(|model| {
        let batches = model.batches.iter().copied();
        let batches: Vec<u8> = batches.filter(|&b| partition.takes_batch(b)).collect();
        let (network, outputs) = (model.network, model.outputs);
        let program = Program::with_outputs(network, outputs, &batches, target, model.solutions)?;
        Ok(Model::new(program))
    });
    models.collect()
}

/// How many multiprocessors each partition has.
fn multiprocessors(
    gpu: Gpu,
    partitions: &[PartitionSpec],
    cuda: &CudaSpec,
) -> Result<Vec<u32>, StartError> {
    let (partitioner, ranges) = match &cuda.division {
        Division::Whole => {
            let all = gpu.attribute(Attribute::Multiprocessors)?;
            return Ok(vec![all; partitions.len()]);
        }
        Division::Tpcs {
            partitioner,
            ranges,
        } => (partitioner, ranges),
    };
    if ranges.len() != partitions.len() {
        return Err(StartError::Ranges {
            ranges: ranges.len(),
            partitions: partitions.len(),
        });
    }
    let count = |(range, partition): (&Range<u16>, &PartitionSpec)| {
        // Who shares a leader is checked by the partitions' own ranges.
        if !partition.tpcs.is_empty() && partition.tpcs != *range {
            return Err(StartError::OtherTpcs {
                partition: partition.name.clone(),
                tpcs: partition.tpcs.clone(),
                range: range.clone(),
            });
        }
        Ok(partitioner.grant(range.clone())?.sms.count())
    };
    ranges.iter().zip(partitions).map(count).collect()
}

/// How everything on the device will be made, and which weights are resident.
pub(crate) fn device_plan(
    gpu: Gpu,
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
    programs: &[Arc<[Model]>],
) -> Result<(DevicePlan, Residents, Loader), StartError> {
    let models = || programs.iter().flat_map(|models| models.iter());
    let models = || models().map(|model| &model.program);
    // Pages, slots of requests and inputs are the same whatever a partition's size and batches.
    let first = programs.first().map_or(&[][..], |models| &models[..]);
    let layouts: Box<[_]> = first.iter().map(|model| model.program.input).collect();
    let floats = models().map(Program::input_floats).max().unwrap_or(0);
    let sources = spec.models.iter().zip(first);
    let sources = sources.map(|(model, lowered)| source(model, &lowered.program.pages));
    let sources = sources.collect::<Result<Vec<_>, PackError>>()?;
    let cache_pages = spec.cache.map_or(0, |cache| cache.pages);
    let (weights, residents, loader) = weights::make(sources, cuda.page_bytes, cache_pages)?;
    let modules: BTreeSet<Unit> = models()
        .flat_map(|program| &program.stages)
        .flat_map(|stage| &stage.lists)
        .flat_map(|list| &list.steps)
        .map(|step| step.kernel.module)
        .chain([Unit::General])
        .collect();
    let device_plan = DevicePlan {
        gpu,
        inputs: InputBuffers::new(spec.request_buffers, floats, layouts),
        request_buffers: usize::from(spec.request_buffers),
        slot_bytes: models()
            .map(|program| program.request_bytes)
            .max()
            .unwrap_or(0),
        workspaces: programs
            .iter()
            .map(|models| {
                let bytes = models.iter().map(|model| model.program.workspace_bytes());
                let outputs = models.iter().map(|model| model.program.output_bytes());
                (
                    bytes.max().unwrap_or(0) as usize,
                    outputs.max().unwrap_or(0),
                )
            })
            .collect(),
        weights,
        modules,
        confinement: Arc::new(Confinement::new(cuda, spec.partitions)?),
        spec: cuda.clone(),
    };
    Ok((device_plan, residents, loader))
}

/// A model's weights, packed.
fn source(model: &ModelSpec<'_>, pages: &Pages) -> Result<Source, PackError> {
    let packer = Packer::new(model.network, pages);
    let packed = (0..pages.count()).map(|page| {
        let mut bytes = vec![0; pages.page_bytes() as usize];
        packer.pack(page, &mut bytes)?;
        bytes.truncate(pages.used_of(page).unwrap_or(0) as usize);
        Ok(bytes.into_boxed_slice())
    });
    Ok(Source {
        pages: packed.collect::<Result<_, PackError>>()?,
        paged: model.paged,
    })
}
