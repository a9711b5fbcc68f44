//! The weight image: the packed weights of all steps in one piece, in order of execution, so that
//! what the first stage needs comes first.

use std::ops::Range;

use punctual_kernels::{AlignedBuffer, KernelError};
use punctual_model::{Network, OperatorKind, WeightRange};

use super::{LowerError, error};
use crate::cpu::executable::{Executable, Kernel, Step};
use crate::shared::LINE;

/// Gives each step its place, aligned to the widest vector.
#[derive(Default)]
pub(super) struct Ranges {
    end: usize,
}

impl Ranges {
    pub(super) fn next(&mut self, len: usize) -> Range<usize> {
        let start = self.end;
        self.end = (start + len).next_multiple_of(LINE);
        start..start + len
    }
}

/// The image of a network whose steps have their places.
pub(super) fn packed(
    network: &Network,
    stages: &[Executable],
) -> Result<AlignedBuffer, LowerError> {
    let ends = stages.iter().flat_map(|stage| &stage.steps);
    let len = ends.map(|step| step.weights.end).max().unwrap_or(0);
    let mut image = AlignedBuffer::zeroed(len.next_multiple_of(LINE));
    let operators: Vec<_> = network
        .stages
        .iter()
        .flat_map(|stage| &stage.operators)
        .collect();
    for executable in stages {
        for step in &executable.steps {
            let packed = match step.operator {
                Some(operator) => pack(
                    network,
                    step,
                    &operators[operator as usize].kind,
                    &mut image,
                ),
                None => pack_identity(step, &mut image),
            };
            packed.map_err(|source| error(network, &step.name, source))?;
        }
    }
    Ok(image)
}

fn pack(
    network: &Network,
    step: &Step,
    kind: &OperatorKind,
    image: &mut [f32],
) -> Result<(), KernelError> {
    let values =
        |range: &WeightRange| &network.weights[range.start as usize..][..range.len as usize];
    let packed = &mut image[step.weights.clone()];
    match (&step.kernel, kind) {
        (Kernel::Conv2d(kernel), OperatorKind::Conv2d { weights, bias, .. }) => {
            kernel.pack(values(weights), values(bias), packed)
        }
        (Kernel::Linear(kernel), OperatorKind::Linear { weights, bias, .. }) => {
            kernel.pack(values(weights), values(bias), packed)
        }
        _ => Ok(()),
    }
}

/// Each channel to itself.
fn pack_identity(step: &Step, image: &mut [f32]) -> Result<(), KernelError> {
    let Kernel::Conv2d(kernel) = &step.kernel else {
        unreachable!("the input is copied by a convolution")
    };
    let channels = kernel.spec().output.channels();
    kernel.pack(
        &vec![1.0; channels],
        &vec![0.0; channels],
        &mut image[step.weights.clone()],
    )
}
