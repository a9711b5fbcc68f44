//! Where a request's tensors lie in its request buffer: planar, as ONNX has them.

use std::ops::Range;

use punctual_device::{InputLayout, VectorPlace};
use punctual_model::memory::{self, Lifetime};
use punctual_model::{Network, TensorId, VECTORS_MAX};

/// Floats that every tensor starts at a multiple of.
const ALIGNMENT: usize = 16;

/// The places of one network's input and of what its stages carry over.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// One entry a tensor; none for those that live inside a stage.
    ranges: Vec<Option<Range<usize>>>,
    pub(crate) floats: usize,
    /// The input, for those who prepare it.
    pub(crate) input: InputLayout,
}

impl Places {
    pub(crate) fn new(network: &Network) -> Self {
        let elements = |id: TensorId| network.tensors[id.index()].elements() as usize;
        let input = network.input_tensor();
        let mut tensors: Vec<TensorId> = network.input_tensors().collect();
        // Inputs stay for the code that prepares the next ones: nothing takes their place.
        let stays = |&tensor: &TensorId| Lifetime {
            first: 0,
            last: network.stages.len() as u32,
            size: elements(tensor),
        };
        let mut lifetimes: Vec<Lifetime> = tensors.iter().map(stays).collect();
        for (first, stage) in network.stages.iter().enumerate() {
            for &tensor in &stage.outputs {
                let reads = |stage: &punctual_model::Stage| stage.inputs.contains(&tensor);
                let last = network.stages.iter().rposition(reads).unwrap_or(first);
                tensors.push(tensor);
                lifetimes.push(Lifetime {
                    first: first as u32,
                    last: last as u32,
                    size: elements(tensor),
                });
            }
        }
        let plan = memory::plan(&lifetimes, ALIGNMENT);
        let mut ranges = vec![None; network.tensors.len()];
        for ((tensor, lifetime), &start) in tensors.iter().zip(&lifetimes).zip(&plan.offsets) {
            ranges[tensor.index()] = Some(start..start + lifetime.size);
        }
        let mut vectors = [VectorPlace::default(); VECTORS_MAX];
        for ((place, lifetime), &offset) in vectors
            .iter_mut()
            .zip(&lifetimes[1..=network.vectors.len()])
            .zip(&plan.offsets[1..])
        {
            let length = lifetime.size;
            *place = VectorPlace { offset, length };
        }
        let shape = network.tensors[input.index()];
        let [channels, height, width] =
            [shape.channels, shape.height, shape.width].map(|side| side as usize);
        Self {
            floats: plan.total,
            input: InputLayout {
                channels,
                height,
                width,
                row_stride: width,
                plane_stride: height * width,
                offset: plan.offsets[0],
                vectors,
            },
            ranges,
        }
    }

    /// Where a carried tensor or the input lies.
    ///
    /// # Panics
    /// If it lives inside a stage only.
    pub(crate) fn of(&self, tensor: TensorId) -> Range<usize> {
        self.ranges[tensor.index()]
            .clone()
            .expect("stages of a valid network take only what is carried")
    }
}
