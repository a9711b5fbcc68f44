//! The weight image: the packed weights of all steps in one piece, in order of execution, so that
//! what the first stage needs comes first. And what is known of it without packing anything.

use std::ops::Range;

use punctual_kernels::{Isa, KernelError};
use punctual_model::{ImageLayout, Network, OperatorKind, SecondOperand, StageLayout, WeightRange};

use super::{LowerError, Lowering, error, lower};
use crate::executable::{Executable, Kernel, Step};
use crate::shared::team;
use punctual_device::regions::LINE;

/// How the CPU device lays `network` out with kernels for `isa`: what a package carries.
///
/// # Errors
/// [`LowerError`], when an operator has no kernel or the processor lacks `isa`.
pub fn image_layout(isa: Isa, network: &Network) -> Result<ImageLayout, LowerError> {
    let lowering = Lowering::new(isa, network)?;
    let mut first = 0;
    let mut stages = Vec::with_capacity(network.stages.len());
    for (executable, stage) in lowering.stages()?.iter().zip(&network.stages) {
        let mut layout = StageLayout {
            before: 0,
            operators: vec![0; stage.operators.len()],
            workspace_floats: team::member_stride(executable) as u64,
        };
        for step in &executable.steps {
            let floats = step.weights.len().next_multiple_of(LINE) as u32;
            match step.operator {
                Some(operator) => layout.operators[operator as usize - first] += floats,
                None => layout.before += floats,
            }
        }
        first += stage.operators.len();
        stages.push(layout);
    }
    Ok(ImageLayout {
        lanes: isa.lanes() as u8,
        request_floats: lowering.request_floats as u64,
        stages,
    })
}

/// The weight image of `network` for `isa`, as [`image_layout`] says.
///
/// # Errors
/// As [`image_layout`].
pub fn pack_image(isa: Isa, network: &Network) -> Result<Vec<f32>, LowerError> {
    lower(isa, network, None).and_then(|model| packed(network, &model.stages))
}

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

/// Floats of the image of a network whose steps have their places.
pub(super) fn floats(stages: &[Executable]) -> usize {
    let steps = stages.iter().flat_map(|stage| &stage.steps);
    let end = steps.map(|step| step.weights.end).max().unwrap_or(0);
    end.next_multiple_of(LINE)
}

/// The image of a network whose steps have their places.
pub(super) fn packed(network: &Network, stages: &[Executable]) -> Result<Vec<f32>, LowerError> {
    let mut image = vec![0.0; floats(stages)];
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
                None => pack_copy(step, &mut image),
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
        (
            Kernel::QuantisedConv2d(kernel),
            OperatorKind::QuantisedConv2d {
                weights,
                scales,
                bias,
                ..
            },
        ) => {
            let integers = &network.quantised.weights[weights.start as usize..];
            let integers = &integers[..weights.len as usize];
            kernel.pack(integers, values(scales), values(bias), packed)
        }
        (Kernel::LayerNorm(kernel), OperatorKind::LayerNorm { scale, bias, .. }) => {
            kernel.pack(values(scale), values(bias), packed)
        }
        (
            Kernel::Attention(kernel),
            OperatorKind::Attention {
                bias: Some(bias), ..
            },
        ) => kernel.pack(values(&bias.values), packed),
        (Kernel::Recurrent(kernel), OperatorKind::Recurrent { weights, bias, .. }) => {
            kernel.pack(values(weights), values(bias), packed)
        }
        (Kernel::Embedding(kernel), OperatorKind::Embedding { table }) => {
            kernel.pack(values(table), packed)
        }
        (Kernel::Tokens(kernel), OperatorKind::Tokens { table, .. }) => {
            kernel.pack(values(table), packed)
        }
        (
            Kernel::Copy(kernel),
            OperatorKind::Copy {
                table: Some(table), ..
            },
        ) => kernel.pack(values(table), packed),
        (
            Kernel::Binary(kernel),
            OperatorKind::Binary {
                second:
                    SecondOperand::Constant {
                        values: constant, ..
                    },
                ..
            },
        ) => kernel.pack(values(constant), packed),
        _ => Ok(()),
    }
}

/// Each channel of the network's input to itself. Copies of other tensors have no weights.
fn pack_copy(step: &Step, image: &mut [f32]) -> Result<(), KernelError> {
    let Kernel::Conv2d(kernel) = &step.kernel else {
        return Ok(());
    };
    let channels = kernel.spec().output.channels();
    kernel.pack(
        &vec![1.0; channels],
        &vec![0.0; channels],
        &mut image[step.weights.clone()],
    )
}
