//! From a network to executables: layouts, places, packed kernels.
//!
//! A tensor lies in the request buffer when it is the network's input or is carried from one stage
//! to a later one, otherwise in the workspace. Both are planned statically. There is one executable
//! a stage for all batch sizes: each member has its own share of the workspace, and kernels take
//! as many members as there are, so a batch that is not full costs no padding.

use punctual_kernels::{
    Activation, Add, AddSpec, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Extent,
    GlobalAveragePool, Isa, KernelError, Linear, LinearSpec, Padding, PlanarLayout, Pool, PoolKind,
    PoolSpec, Window,
};
use punctual_model::memory::{self, Lifetime};
use punctual_model::{Network, Operator, OperatorKind, Stage, TensorId, WeightRange};
use thiserror::Error;

use super::executable::{Executable, Kernel, LoadedModel, Step, StepTime};
use crate::request_buffers::InputLayout;
use crate::shared::{LINE, Operands, Space, Span};

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

/// Prepares a valid network for `isa`.
///
/// # Errors
/// The first operator that no kernel takes.
pub(super) fn lower(isa: Isa, network: &Network) -> Result<LoadedModel, LowerError> {
    Lowering::new(isa, network).and_then(|lowering| lowering.model())
}

/// What an operator reads or writes: a tensor of the network, or the blocked copy of its input
/// that stages make for operators which cannot read planes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    Tensor(TensorId),
    BlockedInput,
}

struct Lowering<'n> {
    isa: Isa,
    network: &'n Network,
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
    fn new(isa: Isa, network: &'n Network) -> Result<Self, LowerError> {
        let halos = halos(network);
        let input_id = network.input_tensor();
        let layout = |index: usize, halo: usize| {
            let tensor = network.tensors[index];
            let [channels, height, width] =
                [tensor.channels, tensor.height, tensor.width].map(|size| size as usize);
            BlockedLayout::new(isa, channels, height, width, halo)
                .map_err(|source| error(network, &format!("tensor {index}"), source))
        };
        let layouts = (0..network.tensors.len())
            .map(|index| layout(index, halos[index]))
            .collect::<Result<Vec<_>, _>>()?;
        let at = input_id.0 as usize;
        let blocked_input = layout(at, 0)?;
        let input = PlanarLayout::new(
            blocked_input.channels(),
            blocked_input.height(),
            blocked_input.width(),
            halos[at],
        )
        .map_err(|source| error(network, "input", source))?;
        let (carried, request_floats) = carried(network, input.len(), &layouts);
        Ok(Self {
            isa,
            network,
            input,
            blocked_input,
            layouts,
            carried,
            request_floats,
        })
    }

    fn model(self) -> Result<LoadedModel, LowerError> {
        let stages = self
            .network
            .stages
            .iter()
            .map(|stage| self.stage(stage))
            .collect::<Result<_, _>>()?;
        Ok(LoadedModel {
            stages,
            input: InputLayout {
                channels: self.input.channels(),
                height: self.input.height(),
                width: self.input.width(),
                row_stride: self.input.row_stride(),
                plane_stride: self.input.plane_stride(),
                offset: self.input.origin(),
            },
            request_floats: self.request_floats,
        })
    }

    fn stage(&self, stage: &Stage) -> Result<Executable, LowerError> {
        let input = self.network.input_tensor();
        let needs_copy = stage.operators.iter().any(|operator| {
            operator.reads().any(|read| read == input) && !self.reads_planes_only(operator)
        });
        let places = Places::plan(self, stage, needs_copy);
        let mut steps = Vec::with_capacity(stage.operators.len() + 1);
        if needs_copy {
            steps.push(self.copy_step(&places)?);
        }
        for operator in &stage.operators {
            let step = self
                .step(operator, &places)
                .map_err(|source| error(self.network, &operator.name, source))?;
            steps.push(step);
        }
        Ok(Executable {
            steps,
            logits: Span {
                // Without the surplus lanes of its last block.
                len: self.network.tensors[stage.logits.0 as usize].channels as usize,
                ..places.of(Value::Tensor(stage.logits))
            },
            workspace_floats: places.total,
        })
    }

    /// Whether all that `operator` reads of the network's input are planes for a convolution.
    fn reads_planes_only(&self, operator: &Operator) -> bool {
        let input = self.network.input_tensor();
        match operator.kind {
            OperatorKind::Conv2d { residual, .. } => residual != Some(input),
            _ => false,
        }
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
            window: Window {
                kernel: Extent::square(1),
                stride: Extent::square(1),
                padding: Padding::default(),
            },
            groups: 1,
            activation: Activation::None,
        };
        let mut identity = vec![0.0; channels * channels];
        for channel in 0..channels {
            identity[channel * channels + channel] = 1.0;
        }
        let kernel = Conv2d::new(self.isa, &spec, &identity, &vec![0.0; channels])
            .map_err(|source| error(self.network, name, source))?;
        Ok(Step {
            name: name.to_owned(),
            kernel: Kernel::Conv2d(kernel),
            operands: Operands::new(places.planes(), None, places.of(Value::BlockedInput)),
            output: self.blocked_input,
            macs: 0,
            time: StepTime::default(),
        })
    }

    fn step(&self, operator: &Operator, places: &Places) -> Result<Step, KernelError> {
        let output = self.layouts[operator.output.0 as usize];
        let input = self.value(operator.input);
        let mut input_span = None;
        let mut addend = None;
        let kernel =
            match &operator.kind {
                OperatorKind::Conv2d { residual, .. } => {
                    addend = residual.map(|residual| self.value(residual));
                    // A convolution reads the network's input as the planes that it is.
                    let planar = input == Value::BlockedInput;
                    input_span = planar.then(|| places.planes());
                    let read = if planar {
                        ConvInput::Planar(self.input)
                    } else {
                        ConvInput::Blocked(self.layout(input))
                    };
                    Kernel::Conv2d(self.conv2d(&operator.kind, read, output, addend)?)
                }
                OperatorKind::Pool {
                    kind,
                    kernel,
                    stride,
                    padding,
                } => Kernel::Pool(Pool::new(
                    self.isa,
                    &PoolSpec {
                        input: self.layout(input),
                        output,
                        window: window(*kernel, *stride, *padding),
                        kind: match kind {
                            punctual_model::PoolKind::Max => PoolKind::Max,
                            punctual_model::PoolKind::Average => PoolKind::Average,
                        },
                    },
                )?),
                OperatorKind::GlobalAveragePool => Kernel::GlobalAveragePool(
                    GlobalAveragePool::new(self.isa, self.layout(input), output)?,
                ),
                OperatorKind::Linear {
                    weights,
                    bias,
                    activation,
                } => Kernel::Linear(Linear::new(
                    self.isa,
                    &LinearSpec {
                        input: self.layout(input),
                        output,
                        activation: activation_of(*activation),
                    },
                    self.weights(*weights),
                    self.weights(*bias),
                )?),
                OperatorKind::Add { other, activation } => {
                    let other = self.value(*other);
                    addend = Some(other);
                    Kernel::Add(Add::new(
                        self.isa,
                        &AddSpec {
                            input: self.layout(input),
                            addend: self.layout(other),
                            output,
                            activation: activation_of(*activation),
                        },
                    )?)
                }
            };
        Ok(Step {
            name: operator.name.clone(),
            kernel,
            operands: Operands::new(
                input_span.unwrap_or_else(|| places.of(input)),
                addend.map(|value| places.of(value)),
                places.of(Value::Tensor(operator.output)),
            ),
            output,
            macs: macs(operator, output),
            time: StepTime::default(),
        })
    }

    fn conv2d(
        &self,
        kind: &OperatorKind,
        input: ConvInput,
        output: BlockedLayout,
        residual: Option<Value>,
    ) -> Result<Conv2d, KernelError> {
        let OperatorKind::Conv2d {
            weights,
            bias,
            kernel,
            stride,
            padding,
            groups,
            activation,
            ..
        } = kind
        else {
            unreachable!("called for convolutions")
        };
        let spec = Conv2dSpec {
            input,
            output,
            residual: residual.map(|value| self.layout(value)),
            window: window(*kernel, *stride, *padding),
            groups: *groups as usize,
            activation: activation_of(*activation),
        };
        Conv2d::new(self.isa, &spec, self.weights(*weights), self.weights(*bias))
    }

    fn weights(&self, range: WeightRange) -> &[f32] {
        &self.network.weights[range.start as usize..][..range.len as usize]
    }
}

/// Where the values of one stage lie.
struct Places<'l> {
    lowering: &'l Lowering<'l>,
    local: Vec<Option<Span>>,
    blocked_input: Option<Span>,
    total: usize,
}

impl<'l> Places<'l> {
    fn plan(lowering: &'l Lowering<'l>, stage: &Stage, needs_copy: bool) -> Self {
        // The copy of the input is the first step, if there is one, and shifts all others.
        let shift = u32::from(needs_copy);
        let lifetimes = stage.lifetimes();
        let size = |layout: BlockedLayout| layout.len();
        let mut buffers: Vec<Lifetime> = lifetimes
            .iter()
            .map(|lifetime| Lifetime {
                first: lifetime.first + shift,
                last: lifetime.last + shift,
                size: size(lowering.layouts[lifetime.tensor.0 as usize]),
            })
            .collect();
        if needs_copy {
            buffers.push(Lifetime {
                first: 0,
                last: stage.operators.len() as u32,
                size: size(lowering.blocked_input),
            });
        }
        // The planner counts in any unit; here it is floats, aligned to cache lines.
        let plan = memory::plan(&buffers, LINE);
        let mut local = vec![None; lowering.layouts.len()];
        let spans = buffers
            .iter()
            .zip(&plan.offsets)
            .map(|(buffer, &start)| Span {
                space: Space::Workspace,
                start,
                len: buffer.size,
            });
        let mut spans: Vec<Span> = spans.collect();
        let blocked_input = needs_copy.then(|| spans.pop()).flatten();
        for (lifetime, span) in lifetimes.iter().zip(spans) {
            local[lifetime.tensor.0 as usize] = Some(span);
        }
        Self {
            lowering,
            local,
            blocked_input,
            total: plan.total,
        }
    }

    fn of(&self, value: Value) -> Span {
        match value {
            Value::BlockedInput => self.blocked_input,
            Value::Tensor(TensorId(index)) => {
                let index = index as usize;
                self.local[index].or(self.lowering.carried[index])
            }
        }
        .expect("a valid stage reads what it has written or what is carried to it")
    }

    fn planes(&self) -> Span {
        Span {
            space: Space::Request,
            start: 0,
            len: self.lowering.input.len(),
        }
    }
}

/// For each tensor the widest padding with which a convolution reads it.
fn halos(network: &Network) -> Vec<usize> {
    let mut halos = vec![0; network.tensors.len()];
    for operator in network.stages.iter().flat_map(|stage| &stage.operators) {
        if let OperatorKind::Conv2d { padding, .. } = operator.kind {
            let halo = &mut halos[operator.input.0 as usize];
            *halo = (*halo).max(padding_of(padding).largest());
        }
    }
    halos
}

/// Places in the request buffer, and its size: the input first, whose zeros nothing may overwrite,
/// then what is carried, planned over stages as a stage's tensors are over operators.
fn carried(
    network: &Network,
    input_floats: usize,
    layouts: &[BlockedLayout],
) -> (Vec<Option<Span>>, usize) {
    let last_reader = |tensor: &TensorId| {
        let reads = |stage: &Stage| stage.inputs.contains(tensor);
        network.stages.iter().rposition(reads)
    };
    let mut tensors = Vec::new();
    let mut lifetimes = Vec::new();
    for (first, stage) in network.stages.iter().enumerate() {
        for tensor in &stage.outputs {
            tensors.push(tensor.0 as usize);
            lifetimes.push(Lifetime {
                first: first as u32,
                last: last_reader(tensor).unwrap_or(first) as u32,
                size: layouts[tensor.0 as usize].len(),
            });
        }
    }
    let plan = memory::plan(&lifetimes, LINE);
    let base = input_floats.next_multiple_of(LINE);
    let mut places = vec![None; layouts.len()];
    for ((tensor, lifetime), offset) in tensors.into_iter().zip(&lifetimes).zip(&plan.offsets) {
        places[tensor] = Some(Span {
            space: Space::Request,
            start: base + offset,
            len: lifetime.size,
        });
    }
    (places, base + plan.total)
}

fn macs(operator: &Operator, output: BlockedLayout) -> u64 {
    let pixels = (output.height() * output.width()) as u64;
    match &operator.kind {
        OperatorKind::Conv2d { weights, .. } => u64::from(weights.len) * pixels,
        OperatorKind::Linear { weights, .. } => u64::from(weights.len),
        OperatorKind::Pool { .. } | OperatorKind::GlobalAveragePool | OperatorKind::Add { .. } => 0,
    }
}

fn activation_of(activation: punctual_model::Activation) -> Activation {
    match activation {
        punctual_model::Activation::None => Activation::None,
        punctual_model::Activation::Relu => Activation::Relu,
        punctual_model::Activation::Clip { low, high } => Activation::Clip { low, high },
    }
}

fn window(
    kernel: punctual_model::Extent,
    stride: punctual_model::Extent,
    padding: punctual_model::Padding,
) -> Window {
    let extent = |extent: punctual_model::Extent| Extent {
        height: extent.height as usize,
        width: extent.width as usize,
    };
    Window {
        kernel: extent(kernel),
        stride: extent(stride),
        padding: padding_of(padding),
    }
}

fn padding_of(padding: punctual_model::Padding) -> Padding {
    Padding {
        top: padding.top as usize,
        left: padding.left as usize,
        bottom: padding.bottom as usize,
        right: padding.right as usize,
    }
}

fn error(network: &Network, operator: &str, source: KernelError) -> LowerError {
    LowerError {
        model: network.name.clone(),
        operator: operator.to_owned(),
        source,
    }
}
