//! What is worked out before anything is asked of the device: programs, packed weights, sizes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use punctual_device::{DeviceSpec, InputBuffers, ModelSpec, PartitionSpec};

use super::{DevicePlan, StartError, in_turn};
use crate::confinement::Confinement;
use crate::driver::{Attribute, Gpu};
use crate::lower::{Packer, Pages, Program, Target};
use crate::partition::Division;
use crate::programs::Model;
use crate::spec::CudaSpec;
use crate::weights::{self, Content, Loader, Residents, Source};

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
    let pages = first.iter().map(|lowered| &lowered.program.pages);
    let sources = sources(spec.models, pages);
    let cache_pages = spec.cache.map_or(0, |cache| cache.pages);
    let (weights, residents, loader) = weights::make(sources, cuda.page_bytes, cache_pages)?;
    let needs = in_turn::needs(programs);
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
        order: in_turn::order(spec, &needs),
        rate: spec.start.rate().unwrap_or(in_turn::BESIDE_STAGES),
        needs,
        confinement: Arc::new(Confinement::new(cuda, spec.partitions)?),
        spec: cuda.clone(),
    };
    Ok((device_plan, residents, loader))
}

/// A page of one of the models before, and what it contains.
struct Known {
    packer: Arc<Packer<'static>>,
    page: usize,
    content: Arc<Content>,
}

/// The models' weights, which are packed when they are needed. Pages that are the same are one.
fn sources<'p>(models: &[ModelSpec<'_>], pages: impl Iterator<Item = &'p Pages>) -> Vec<Source> {
    let mut known: BTreeMap<u64, Vec<Known>> = BTreeMap::new();
    let mut content = |packer: &Arc<Packer<'static>>, page: usize| {
        let alike = known.entry(packer.fingerprint(page)).or_default();
        let same = |other: &&Known| packer.is_same(page, &other.packer, other.page);
        if let Some(same) = alike.iter().find(same) {
            return same.content.clone();
        }
        let packs = packer.clone();
        let content = Arc::new(Content::packed_by(move || packs.packed(page)));
        alike.push(Known {
            packer: packer.clone(),
            page,
            content: content.clone(),
        });
        content
    };
    let source = |(model, pages): (&ModelSpec<'_>, &Pages)| {
        let packer = Arc::new(Packer::new(model.network, pages).into_owned());
        Source {
            pages: (0..packer.pages())
                .map(|page| content(&packer, page))
                .collect(),
            paged: model.paged,
        }
    };
    models.iter().zip(pages).map(source).collect()
}

#[cfg(test)]
mod tests {
    use punctual_conformance::networks;
    use punctual_model::Network;

    use super::*;

    /// The contents of the pages of these networks.
    fn contents(networks: &[&Network]) -> Vec<Vec<Arc<Content>>> {
        let models = networks
            .iter()
            .map(|network| ModelSpec::resident(network, &[1]));
        let models: Vec<ModelSpec<'_>> = models.collect();
        let pages = networks
            .iter()
            .map(|network| Pages::plan(network, 16 << 10));
        let pages: Vec<Pages> = pages.map(|pages| pages.expect("it fits")).collect();
        let sources = sources(&models, pages.iter());
        sources.into_iter().map(|source| source.pages).collect()
    }

    #[test]
    fn pages_of_the_same_values_are_one_and_a_single_other_value_makes_another() {
        let network = networks::residual(4);
        let same = network.clone();
        let mut other = network.clone();
        let last = network.weights.len() - 1;
        other.weights.to_mut()[last] += 1.0;
        let [first, second, third] = &contents(&[&network, &same, &other])[..] else {
            panic!("a model each");
        };
        assert!(first.len() > 1, "{} pages", first.len());
        let equal = |a: &[Arc<Content>], b: &[Arc<Content>]| {
            let equal = a.iter().zip(b).filter(|(a, b)| Arc::ptr_eq(a, b));
            equal.count()
        };
        assert_eq!(equal(first, second), first.len());
        let differ = first.len() - equal(first, third);
        assert!((1..first.len()).contains(&differ), "{differ} differ");
        for (page, (a, b)) in first.iter().zip(third).enumerate() {
            let bytes = |content: &Content| content.bytes().expect("halves").to_vec();
            assert_eq!(Arc::ptr_eq(a, b), bytes(a) == bytes(b), "page {page}");
        }
    }
}
