//! From a network to executables: layouts, places, packed kernels.
//!
//! A tensor lies in the request buffer when it is the network's input or is carried from one stage
//! to a later one, otherwise in the workspace. Both are planned statically. There is one executable
//! a stage for all batch sizes: each member has its own share of the workspace, and kernels take
//! as many members as there are, so a batch that is not full costs no padding.

mod gather;
mod homes;
mod image;
mod kernel;
mod places;
mod quantised;

use punctual_kernels::quantised::PLANES_MAX;
use punctual_kernels::{
    AlignedBuffer, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Isa, KernelError, PlanarLayout,
};
use punctual_model::{
    Exit, Network, Operator, OperatorKind, OutputLayout, PlacedExit, PlacedOutput, TensorId,
    VECTORS_MAX,
};
use punctual_types::{Activation, Extent, Padding, Window};
use thiserror::Error;

use super::executable::{Executable, ExitPlan, Kernel, LoadedModel, Step};
use crate::outputs::OutputPlan;
use crate::shared::{Operands, Span};
use homes::Homes;
pub use image::{image_layout, pack_image};
use places::{Places, Value};
use punctual_device::{InputLayout, VectorPlace};

/// A network that the CPU device cannot run.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("operator `{operator}` of model `{model}` cannot be prepared: {source}")]
pub struct LowerError {
    /// The network's name.
    pub model: String,
    /// The operator's name.
    pub operator: String,
    /// What the kernel says.
    pub source: KernelError,
}

/// Prepares a valid network for `isa`, and the outputs that are wanted of it.
///
/// # Errors
/// The first operator that no kernel takes.
pub(super) fn lower(
    isa: Isa,
    network: &Network,
    outputs: Option<&OutputLayout>,
) -> Result<LoadedModel, LowerError> {
    let lowering = Lowering {
        outputs,
        ..Lowering::new(isa, network)?
    };
    let stages = lowering.stages()?;
    Ok(lowering.model(stages))
}

/// The weight image of a network that was lowered.
///
/// # Errors
/// When its weights do not fit a kernel.
pub(super) fn pack(network: &Network, stages: &[Executable]) -> Result<Vec<f32>, LowerError> {
    image::packed(network, stages)
}

/// A network on its way, its tensors laid out.
pub(super) struct Lowering<'n> {
    isa: Isa,
    network: &'n Network,
    /// None: no outputs are wanted.
    outputs: Option<&'n OutputLayout>,
    homes: Homes,
    input: PlanarLayout,
    /// The input as a blocked tensor.
    blocked_input: BlockedLayout,
    /// One for each tensor but the input, whose entry is not used.
    layouts: Vec<BlockedLayout>,
    /// Place of each tensor that lies in the request buffer.
    carried: Vec<Option<Span>>,
    request_floats: usize,
}

impl<'n> Lowering<'n> {
    pub(super) fn new(isa: Isa, network: &'n Network) -> Result<Self, LowerError> {
        let homes = Homes::find(network, isa.lanes());
        let halo = |index: usize| homes.halo(TensorId(index as u32));
        let input_id = network.input_tensor();
        let layout = |index: usize, halo: usize| {
            let tensor = network.tensors[index];
            let [channels, height, width] =
                [tensor.channels, tensor.height, tensor.width].map(|size| size as usize);
            BlockedLayout::new(isa, channels, height, width, halo)
                .and_then(|layout| quantised::layout(network, index, layout))
                .map_err(|source| error(network, &format!("tensor {index}"), source))
        };
        let layouts = (0..network.tensors.len())
            .map(|index| layout(index, halo(index)))
            .collect::<Result<Vec<_>, _>>()?;
        let at = input_id.0 as usize;
        let blocked_input = layout(at, 0)?;
        let input = PlanarLayout::new(
            blocked_input.channels(),
            blocked_input.height(),
            blocked_input.width(),
            halo(at),
        )
        .map_err(|source| error(network, "input", source))?;
        let (carried, request_floats) = places::carried(network, input.len(), &layouts);
        Ok(Self {
            isa,
            network,
            outputs: None,
            homes,
            input,
            blocked_input,
            layouts,
            carried,
            request_floats,
        })
    }

    /// Stage after stage, their steps' weights one after the other.
    pub(super) fn each_stage(&self) -> impl Iterator<Item = Result<Executable, LowerError>> {
        let mut weights = image::Ranges::default();
        let mut operators = 0;
        self.network
            .stages
            .iter()
            .enumerate()
            .map(move |(index, stage)| {
                let before = operators;
                operators += stage.operators.len() as u32;
                let mut stage = self.stage(index, before)?;
                for step in &mut stage.steps {
                    step.weights = weights.next(step.kernel.packed_len());
                }
                Ok(stage)
            })
    }

    /// All stages.
    pub(super) fn stages(&self) -> Result<Vec<Executable>, LowerError> {
        self.each_stage().collect()
    }

    /// A model of some of the stages.
    pub(super) fn model(&self, stages: Vec<Executable>) -> LoadedModel {
        LoadedModel {
            weight_floats: image::floats(&stages),
            stages,
            specialised: AlignedBuffer::zeroed(0),
            input: self.input(),
            request_floats: self.request_floats,
        }
    }

    /// Where the network's input lies.
    pub(super) fn input(&self) -> InputLayout {
        InputLayout {
            channels: self.input.channels(),
            height: self.input.height(),
            width: self.input.width(),
            row_stride: self.input.row_stride(),
            plane_stride: self.input.plane_stride(),
            offset: self.input.origin(),
            vectors: self.vectors(),
        }
    }

    /// Where the vectors lie that come with the input.
    fn vectors(&self) -> [VectorPlace; VECTORS_MAX] {
        let mut places = [VectorPlace::default(); VECTORS_MAX];
        let tensors = self.network.input_tensors().skip(1);
        for ((place, tensor), spec) in places.iter_mut().zip(tensors).zip(&self.network.vectors) {
            let span = self.carried[tensor.index()].expect("vectors have places of their own");
            let length = spec.length as usize;
            *place = VectorPlace {
                offset: span.start,
                length,
            };
        }
        places
    }

    /// Floats of a request buffer that the network uses.
    pub(super) fn request_floats(&self) -> usize {
        self.request_floats
    }

    /// A stage that has so many operators before it.
    fn stage(&self, index: usize, before: u32) -> Result<Executable, LowerError> {
        let stage = &self.network.stages[index];
        let placed = self.outputs.and_then(|outputs| outputs.stage(index));
        let input = self.network.input_tensor();
        let needs_copy = stage.operators.iter().any(|operator| {
            operator.reads().any(|read| read == input) && !self.reads_planes_only(operator)
        });
        let places = Places::plan(self, stage, needs_copy);
        let mut steps = Vec::with_capacity(stage.operators.len() + 1);
        if needs_copy {
            steps.push(self.copy_step(&places)?);
        }
        for (position, operator) in (before..).zip(&stage.operators) {
            let made = match &operator.kind {
                OperatorKind::Gather { runs, .. } => self.gather_steps(operator, runs, &places),
                _ => self.step(operator, &places).map(|step| vec![step]),
            };
            let made = made.map_err(|source| error(self.network, &operator.name, source))?;
            steps.extend(made.into_iter().map(|step| Step {
                operator: Some(position),
                ..step
            }));
        }
        let exit = stage.exit.as_ref();
        let exit = exit.map(|exit| self.exit(exit, placed, &places));
        let mut executable = Executable {
            steps,
            exit: exit.transpose()?,
            workspace_floats: places.total,
        };
        executable.write_early();
        Ok(executable)
    }

    /// Where an exit's answer and the outputs that are wanted of it lie.
    fn exit(
        &self,
        exit: &Exit,
        placed: Option<&PlacedExit>,
        places: &Places<'_>,
    ) -> Result<ExitPlan, LowerError> {
        let vector = |tensor: TensorId| Span {
            len: self.network.tensors[tensor.index()].channels as usize,
            ..places.of(Value::Tensor(tensor))
        };
        let output = |placed: &PlacedOutput| {
            let output = &exit.outputs[placed.output];
            let layout = self.layouts[output.tensor.index()];
            let span = places.of(Value::Tensor(output.tensor));
            OutputPlan::new(self.isa, layout, output, placed, span)
                .map_err(|source| error(self.network, &output.name, source))
        };
        let outputs = placed.into_iter().flat_map(|placed| &placed.outputs);
        Ok(ExitPlan {
            scores: exit
                .scores
                .map(|scores| (vector(scores.tensor), scores.form)),
            confidence: exit.confidence.map(vector),
            outputs: outputs.map(output).collect::<Result<_, _>>()?,
            not_finite: placed.map_or(0, PlacedExit::not_finite),
        })
    }

    /// Whether `operator` reads the network's input as the planes that it is.
    fn reads_planes(&self, operator: &Operator) -> bool {
        match operator.kind {
            OperatorKind::Conv2d { .. } => true,
            OperatorKind::Convert => self.input.channels() <= PLANES_MAX,
            _ => false,
        }
    }

    /// Whether it reads it in no other way.
    fn reads_planes_only(&self, operator: &Operator) -> bool {
        let other = operator
            .kind
            .others()
            .contains(&self.network.input_tensor());
        self.reads_planes(operator) && !other
    }

    /// A tensor as `operator` reads it.
    fn value(&self, tensor: TensorId) -> Value {
        if tensor == self.network.input_tensor() {
            Value::BlockedInput
        } else {
            Value::Tensor(tensor)
        }
    }

    fn layout(&self, value: Value) -> BlockedLayout {
        match value {
            Value::Tensor(tensor) => self.layouts[tensor.0 as usize],
            Value::BlockedInput => self.blocked_input,
        }
    }

    /// Planes to blocks: a convolution with the identity.
    fn copy_step(&self, places: &Places) -> Result<Step, LowerError> {
        let name = "input to blocks";
        let channels = self.input.channels();
        let spec = Conv2dSpec {
            input: ConvInput::Planar(self.input),
            output: self.blocked_input,
            residual: None,
            window: Window::new(Extent::square(1), Extent::square(1), Padding::default()),
            groups: channels,
            activation: Activation::None,
        };
        let kernel =
            Conv2d::new(self.isa, &spec).map_err(|source| error(self.network, name, source))?;
        Ok(Step::new(
            name.to_owned(),
            Kernel::Conv2d(kernel),
            Operands::new([places.planes()], places.of(Value::BlockedInput)),
            self.blocked_input,
        ))
    }

    fn step(&self, operator: &Operator, places: &Places) -> Result<Step, KernelError> {
        let output = self.layouts[operator.output.0 as usize];
        let input = self.value(operator.input);
        let is_convolution = matches!(operator.kind, OperatorKind::Conv2d { .. });
        let planar = input == Value::BlockedInput && self.reads_planes(operator);
        let read = if planar {
            ConvInput::Planar(self.input)
        } else {
            ConvInput::Blocked(self.layout(input))
        };
        let others: Vec<Value> = operator
            .kind
            .others()
            .iter()
            .map(|id| self.value(*id))
            .collect();
        let kernel = if is_convolution {
            Kernel::Conv2d(self.conv2d(&operator.kind, read, output, others.first().copied())?)
        } else if let Some(kernel) = self.quantised(&operator.kind, read, output)? {
            kernel
        } else {
            self.kernel(&operator.kind, self.layout(input), output)?
        };
        let input = if planar {
            places.planes()
        } else {
            places.of(input)
        };
        let inputs = std::iter::once(input).chain(others.into_iter().map(|value| places.of(value)));
        let step = Step::new(
            operator.name.clone(),
            kernel,
            Operands::new(inputs, places.of(Value::Tensor(operator.output))),
            output,
        );
        Ok(Step {
            macs: macs(operator, output),
            ..step
        })
    }
}

fn macs(operator: &Operator, output: BlockedLayout) -> u64 {
    let pixels = (output.height() * output.width()) as u64;
    match &operator.kind {
        OperatorKind::Conv2d { weights, .. } | OperatorKind::QuantisedConv2d { weights, .. } => {
            u64::from(weights.len) * pixels
        }
        OperatorKind::Linear { weights, .. } => u64::from(weights.len),
        _ => 0,
    }
}

fn error(network: &Network, operator: &str, source: KernelError) -> LowerError {
    LowerError {
        model: network.name.clone(),
        operator: operator.to_owned(),
        source,
    }
}
