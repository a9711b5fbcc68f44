//! A request's slot in device memory: what is carried from stage to stage.

use punctual_model::memory::{self, Lifetime};
use punctual_model::{Network, Stage, TensorId};

use super::layout::{image_bytes, kept, view_of};
use super::list::ALIGNMENT;

/// Where each tensor lies in the slot, in bytes, and the slot's size. What a stage writes lies apart
/// from what it reads, so that it can be run again from its start. It depends on
/// [`Network::carried`] alone: models that share stages agree on it.
pub(super) fn slots(network: &Network) -> (Vec<Option<u64>>, u64) {
    let last_reader = |tensor: &TensorId| {
        let reads = |stage: &Stage| stage.inputs.contains(tensor);
        network.stages.iter().rposition(reads)
    };
    let mut tensors = Vec::new();
    let mut lifetimes = Vec::new();
    for (first, stage) in network.stages.iter().enumerate() {
        for tensor in &stage.outputs {
            tensors.push(tensor.index());
            let kept = kept(network, *tensor);
            lifetimes.push(Lifetime {
                first: first as u32,
                last: last_reader(tensor).unwrap_or(first) as u32,
                size: image_bytes(&view_of(network, *tensor, kept), kept) as usize,
            });
        }
    }
    let plan = memory::plan(&lifetimes, ALIGNMENT);
    let mut slots = vec![None; network.tensors.len()];
    for (tensor, &offset) in tensors.into_iter().zip(&plan.offsets) {
        slots[tensor] = Some(offset as u64);
    }
    (slots, plan.total as u64)
}
