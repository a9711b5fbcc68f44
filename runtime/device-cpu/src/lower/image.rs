//! The weight image: the packed weights of all steps in one piece, in order of execution, so that
//! what the first stage needs comes first. And what is known of it without packing anything.

use std::collections::BTreeMap;
use std::ops::Range;

use punctual_kernels::{Kernel, KernelError, Weights};
use punctual_model::{Network, Operator, WeightRange};

use super::error::{LowerError, error};
use crate::executable::{Executable, Step};
use punctual_device::regions::LINE;

/// Gives each step its place, aligned to the widest vector. Weights that several operators have are there once, if their
/// kernels pack them in the same way.
#[derive(Default)]
pub(super) struct Ranges {
    end: usize,
    known: BTreeMap<Packed, Range<usize>>,
}

/// What packed weights follow from.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Packed {
    /// What kind of kernel it is: each reads its weights in an order of its own.
    kernel: &'static str,
    weights: Vec<WeightRange>,
    len: usize,
    packing: Vec<usize>,
}

impl Ranges {
    pub(super) fn next(
        &mut self,
        kernel: &dyn Kernel,
        operator: Option<&Operator>,
    ) -> Range<usize> {
        let len = kernel.packed_len();
        let of = |operator: &Operator| {
            Some(Packed {
                kernel: kernel.name(),
                weights: operator.weights.clone(),
                len,
                packing: kernel.packing()?,
            })
        };
        let packed = operator.filter(|_| len > 0).and_then(of);
        if let Some(known) = packed.as_ref().and_then(|packed| self.known.get(packed)) {
            return known.clone();
        }
        let range = self.end..self.end + len;
        self.end = range.end.next_multiple_of(LINE);
        if let Some(packed) = packed {
            self.known.insert(packed, range.clone());
        }
        range
    }
}

/// Floats of the image of a network whose steps have their places.
pub(super) fn floats(stages: &[Executable]) -> usize {
    let steps = stages.iter().flat_map(|stage| &stage.steps);
    let end = steps.map(|step| step.weights.end).max().unwrap_or(0);
    end.next_multiple_of(LINE)
}

/// The image of a network whose steps have their places.
pub(super) fn packed(network: &Network, stages: &[Executable]) -> Result<Vec<f32>, LowerError> {
    let mut image = vec![0.0; floats(stages)];
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let operators: Vec<&Operator> = operators.collect();
    let mut end = 0;
    for step in stages.iter().flat_map(|stage| &stage.steps) {
        // Behind it are weights that no step before has.
        if step.weights.start < end || step.weights.is_empty() {
            continue;
        }
        end = step.weights.end;
        let room = &mut image[step.weights.clone()];
        let packed = match step.operator {
            Some(operator) => {
                let operator = operators[operator as usize];
                let floats: Vec<&[f32]> = network.float_weights(operator).collect();
                let integers: Vec<&[i8]> = network.integer_weights(operator).collect();
                let weights = Weights {
                    floats: &floats,
                    integers: &integers,
                };
                step.kernel.pack(&weights, room)
            }
            None => pack_copy(step, room),
        };
        packed.map_err(|source| error(network, &step.name, source))?;
    }
    Ok(image)
}

/// Each channel of the network's input to itself. Copies of other tensors have no weights.
fn pack_copy(step: &Step, room: &mut [f32]) -> Result<(), KernelError> {
    let channels = step.output.channels();
    let (ones, zeros) = (vec![1.0; channels], vec![0.0; channels]);
    step.kernel.pack(&Weights::floats(&[&ones, &zeros]), room)
}
