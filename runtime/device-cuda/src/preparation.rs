//! What is worked out before anything is asked of the device: programs, packed weights, sizes.

use std::collections::BTreeSet;

use punctual_device::{DeviceSpec, InputBuffers, ModelSpec};
use punctual_kernels::cuda::Module as Unit;

use crate::device_plan::DevicePlan;
use crate::driver::{Attribute, Gpu};
use crate::lower::{PackError, Packer, Pages, Program, Target};
use crate::programs::Model;
use crate::spec::{CudaSpec, Division};
use crate::start_error::StartError;
use crate::weights::{self, Loader, Residents, Source};

/// All models, for each partition.
pub(crate) fn programs(
    gpu: Gpu,
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
) -> Result<Vec<Vec<Model>>, StartError> {
    let compute_capability = gpu.compute_capability()?;
    let of_partition = |multiprocessors| {
        let target = Target {
            multiprocessors,
            compute_capability,
            page_bytes: cuda.page_bytes,
        };
        let models = spec.models.iter().map(|model| {
            let network = (model.network, model.outputs);
            let program = Program::with_outputs(network, model.batches, &target, model.solutions)?;
            Ok(Model::new(program))
        });
        models.collect()
    };
    let sizes = multiprocessors(gpu, spec.partitions.len(), cuda)?;
    sizes.into_iter().map(of_partition).collect()
}

fn multiprocessors(gpu: Gpu, partitions: usize, cuda: &CudaSpec) -> Result<Vec<u32>, StartError> {
    match &cuda.division {
        Division::Whole => {
            let all = gpu.attribute(Attribute::Multiprocessors)?;
            Ok(vec![all; partitions])
        }
        Division::Tpcs { ranges, .. } if ranges.len() != partitions => Err(StartError::Ranges {
            ranges: ranges.len(),
            partitions,
        }),
        Division::Tpcs {
            partitioner,
            ranges,
        } => {
            let granted = ranges.iter().map(|range| partitioner.grant(range.clone()));
            let counts = granted.map(|granted| Ok(granted?.sms.count()));
            counts.collect()
        }
    }
}

/// How everything on the device will be made, and which weights are resident.
pub(crate) fn device_plan(
    gpu: Gpu,
    spec: &DeviceSpec<'_>,
    cuda: &CudaSpec,
    programs: &[Vec<Model>],
) -> Result<(DevicePlan, Residents, Loader), StartError> {
    let models = || programs.iter().flatten().map(|model| &model.program);
    let first = programs.first().map_or(&[][..], Vec::as_slice);
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
