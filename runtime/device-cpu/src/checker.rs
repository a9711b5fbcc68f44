//! Executes a network's executables symbolically and proves that they compute it: each read sees the last write of what the
//! network says, whole and with the layout that the kernel takes it to have; nothing reads what was not written; outputs are
//! copied when they are there and before their place is used again.
//!
//! It runs whenever an executable is made. It knows the network and the finished steps, and nothing of how places were
//! planned: it shares no code with `lower`. What kernels compute of what they read is not its matter.
//!
//! A memory is known by its blocks of channels, and a block by the channels of the network's tensors that are its lanes.
//! Operators that only pick channels make no values of their own: a channel of a concatenation is that of its source, so
//! that it is proved wherever it lies, moved or not.

use std::ops::Range;

use punctual_kernels::{BlockedLayout, ConvInput, Element};
use punctual_model::{Contents, Network, Operator, OperatorKind, Stage, TensorId};
use thiserror::Error;

use crate::executable::{Executable, Made, Step, Value};
use crate::shared::{Operand, Space, Span};
use punctual_device::InputLayout;

/// An executable that does not compute its network: an error of ours.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    #[error(
        "`{reader}` reads tensor {tensor} at {place}, where {found} is; please report this network"
    )]
    Read {
        /// A step, or what the exit gives.
        reader: String,
        tensor: u32,
        place: Place,
        found: Found,
    },
    #[error(
        "`{reader}` reads {found} operands and the operator has {expected}; please report this network"
    )]
    Operands {
        reader: String,
        found: usize,
        expected: usize,
    },
    #[error("`{step}` writes {what} at {place}; please report this network")]
    Write {
        step: String,
        what: Misplaced,
        place: Place,
    },
    #[error(
        "`{step}` makes tensor {tensor}, which another operator makes; please report this network"
    )]
    OtherOperator { step: String, tensor: u32 },
    #[error(
        "output {output} is copied at a step that does not make it; please report this network"
    )]
    Early { output: usize },
    #[error("output {output} is written where another one is; please report this network")]
    OutputsOverlap { output: usize },
}

/// Floats of a member's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub memory: &'static str,
    pub floats: Range<usize>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Range { start, end } = self.floats;
        write!(f, "{start}..{end} of the {}", self.memory)
    }
}

/// What is where something else should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Found {
    #[error("nothing that was written")]
    Nothing,
    #[error("a block of another shape, or with another border")]
    Shape,
    #[error("channel {channel} of tensor {tensor}")]
    Other { tensor: u32, channel: u32 },
    #[error("a lane of no tensor")]
    Surplus,
}

/// What is wrong with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misplaced {
    #[error("over what it reads")]
    OverInput,
    #[error("over what the stage got from those before, and could not be run again")]
    OverCarried,
    #[error("outside of the memory")]
    Outside,
    #[error("another length than its layout")]
    Length,
}

/// A channel of a tensor that an operator computes, or a client writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Channel {
    tensor: TensorId,
    channel: u32,
}

/// Consecutive floats that were written together.
#[derive(Clone, Debug, PartialEq)]
enum Written {
    /// The network's input, with its zeros.
    Planes,
    Block(Block),
}

#[derive(Clone, Debug, PartialEq)]
struct Block {
    /// One for each lane but the surplus ones.
    lanes: Vec<Channel>,
    shape: BlockShape,
}

/// All blocks of a tensor have it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BlockShape {
    height: usize,
    width: usize,
    halo: usize,
    element: Element,
}

impl BlockShape {
    fn of(layout: &BlockedLayout) -> Self {
        Self {
            height: layout.height(),
            width: layout.width(),
            halo: layout.halo(),
            element: layout.element(),
        }
    }
}

/// A network's executables, executed symbolically stage after stage.
pub(crate) struct Checker<'n> {
    network: &'n Network,
    operators: Vec<&'n Operator>,
    /// The channels of each tensor.
    channels: Vec<Vec<Channel>>,
    planes: Range<usize>,
    /// Floats of a request buffer.
    request_floats: usize,
    request: Contents<Written>,
    workspace: Contents<Written>,
}

/// A stage that is executed.
struct Running<'s> {
    executable: &'s Executable,
    /// What it has read so far that clients or stages before it left in the request buffer.
    taken: Vec<Range<usize>>,
    /// What it has written there itself.
    own: Contents<()>,
}

impl Running<'_> {
    fn take(&mut self, step: &Step) {
        let spans = step.operands.inputs().iter().map(|operand| operand.span);
        let request = spans.filter(|span| span.space == Space::Request);
        let ranges = request.map(|span| span.range());
        let foreign = ranges.filter(|range| self.own.in_range(range).next().is_none());
        self.taken.extend(foreign);
    }
}

impl<'n> Checker<'n> {
    /// Of a network whose inputs lie like that in request buffers of `request_floats` floats, for kernels with vectors of
    /// `lanes` lanes.
    pub(crate) fn new(
        network: &'n Network,
        input: &InputLayout,
        request_floats: usize,
        lanes: usize,
    ) -> Self {
        let operators = network.stages.iter().flat_map(|stage| &stage.operators);
        let mut checker = Self {
            network,
            operators: operators.collect(),
            channels: channels(network),
            planes: planes(input),
            request_floats,
            request: Contents::default(),
            workspace: Contents::default(),
        };
        let planes = checker.planes.clone();
        checker.request.write(planes, Written::Planes);
        for (tensor, place) in network.input_tensors().skip(1).zip(&input.vectors) {
            let shape = BlockShape {
                height: 1,
                width: 1,
                halo: 0,
                element: Element::F32,
            };
            let blocks = checker.channels[tensor.index()].chunks(lanes);
            for (at, values) in blocks.enumerate() {
                let start = place.offset + at * lanes;
                let lanes_written = values.to_vec();
                let block = Block {
                    lanes: lanes_written,
                    shape,
                };
                // The lanes behind the last value stay zeros.
                let range = start..start + lanes;
                checker.request.write(range, Written::Block(block));
            }
        }
        checker
    }

    /// Executes the next stage.
    pub(crate) fn stage(
        &mut self,
        stage: &Stage,
        executable: &Executable,
    ) -> Result<(), Violation> {
        self.workspace = Contents::default();
        let mut running = Running {
            executable,
            taken: Vec::new(),
            own: Contents::default(),
        };
        for (at, step) in executable.steps.iter().enumerate() {
            self.step(&mut running, at, step)?;
        }
        self.exit(stage, executable)
    }

    fn step(&mut self, running: &mut Running<'_>, at: usize, step: &Step) -> Result<(), Violation> {
        let written = self.read(step)?;
        running.take(step);
        let output = step.operands.output();
        self.check_place(running, step, output)?;
        check_early(running.executable, at, step)?;
        let kept = step.by_rows.is_none_or(|by_rows| by_rows.is_kept);
        let shape = BlockShape::of(&step.output);
        for (at, lanes) in written.into_iter().enumerate() {
            let range = block_at(output, &step.output, at).range();
            let memory = match output.space {
                Space::Workspace => &mut self.workspace,
                Space::Request => &mut self.request,
            };
            if kept {
                memory.write(range, Written::Block(Block { lanes, shape }));
            } else {
                // All rows of a core took the same memory.
                memory.erase(range);
            }
        }
        if output.space == Space::Request {
            running.own.write(output.range(), ());
        }
        Ok(())
    }

    /// Checks what a step reads; the channels that it writes, by blocks.
    fn read(&self, step: &Step) -> Result<Vec<Vec<Channel>>, Violation> {
        let lanes = step.output.lanes();
        let blocks = |channels: &[Channel]| channels.chunks(lanes).map(<[_]>::to_vec).collect();
        match step.made {
            Made::Part(tensor) => self.gathered(step, tensor),
            Made::Whole(Value::Copy(tensor)) => {
                self.operands(step, &[tensor])?;
                Ok(blocks(&self.channels[tensor.index()]))
            }
            Made::Whole(Value::Tensor(tensor)) => {
                let operator = step.operator.map(|at| self.operators[at as usize]);
                let operator = operator.filter(|operator| operator.output == tensor);
                let operator = operator.ok_or_else(|| Violation::OtherOperator {
                    step: step.name.clone(),
                    tensor: tensor.0,
                })?;
                let reads: Vec<TensorId> = operator.reads().collect();
                self.operands(step, &reads)?;
                Ok(blocks(&self.channels[tensor.index()]))
            }
        }
    }

    /// The channels that a part of a gather moves, whatever lies there.
    fn gathered(&self, step: &Step, made: TensorId) -> Result<Vec<Vec<Channel>>, Violation> {
        let kernel = step.kernel.gather();
        let kernel = kernel.expect("parts of tensors are made by gathers");
        let inputs = step.operands.inputs();
        let mut channels = Vec::with_capacity(step.output.channels());
        for run in &kernel.spec().runs {
            let source = &inputs[run.source];
            for channel in run.first..run.first + run.count {
                let found = self.lane(source, channel);
                channels.push(found.map_err(|found| read(&step.name, made, &source.span, found))?);
            }
        }
        let lanes = step.output.lanes();
        Ok(channels.chunks(lanes).map(<[_]>::to_vec).collect())
    }

    /// The channel of the network that is channel `at` of what an operand's kernel takes it for.
    fn lane(&self, operand: &Operand, at: usize) -> Result<Channel, Found> {
        let ConvInput::Blocked(layout) = &operand.layout else {
            unreachable!("gathers read blocks")
        };
        let lanes = layout.lanes();
        let block = self.block(&block_at(operand.span, layout, at / lanes), layout)?;
        block.lanes.get(at % lanes).copied().ok_or(Found::Surplus)
    }

    fn operands(&self, step: &Step, tensors: &[TensorId]) -> Result<(), Violation> {
        let inputs = step.operands.inputs();
        if inputs.len() != tensors.len() {
            return Err(Violation::Operands {
                reader: step.name.clone(),
                found: inputs.len(),
                expected: tensors.len(),
            });
        }
        for (operand, &tensor) in inputs.iter().zip(tensors) {
            match &operand.layout {
                ConvInput::Blocked(layout) => {
                    self.tensor(&step.name, tensor, operand.span, layout)?;
                }
                ConvInput::Planar(layout) => {
                    let is_there = self.planes_of(tensor) == Some(operand.span.range())
                        && layout.len() == operand.span.len
                        && operand.span.space == Space::Request
                        && self.request.whole(&self.planes) == Some(&Written::Planes);
                    if !is_there {
                        return Err(read(&step.name, tensor, &operand.span, Found::Nothing));
                    }
                }
            }
        }
        Ok(())
    }

    /// Where the planes lie that the tensor is: consecutive channels of the network's input.
    fn planes_of(&self, tensor: TensorId) -> Option<Range<usize>> {
        let input = self.network.input_tensor();
        let plane = self.planes.len() / self.channels[input.index()].len();
        let channels = &self.channels[tensor.index()];
        let first = channels.first()?.channel;
        let is_plane = |(at, channel): (u32, &Channel)| {
            (channel.tensor, channel.channel) == (input, first + at)
        };
        let start = self.planes.start + first as usize * plane;
        let are_planes = (0..).zip(channels).all(is_plane);
        are_planes.then(|| start..start + channels.len() * plane)
    }

    /// Checks that a tensor lies there, with such a layout.
    fn tensor(
        &self,
        reader: &str,
        tensor: TensorId,
        span: Span,
        layout: &BlockedLayout,
    ) -> Result<(), Violation> {
        let expected = &self.channels[tensor.index()];
        if (span.len, expected.len()) != (layout.len(), layout.channels()) {
            return Err(read(reader, tensor, &span, Found::Shape));
        }
        for (at, expected) in expected.chunks(layout.lanes()).enumerate() {
            let place = block_at(span, layout, at);
            let block = self.block(&place, layout);
            let block = block.map_err(|found| read(reader, tensor, &place, found))?;
            for (lane, expected) in expected.iter().enumerate() {
                let found = match block.lanes.get(lane) {
                    Some(found) if found == expected => continue,
                    Some(found) => Found::Other {
                        tensor: found.tensor.0,
                        channel: found.channel,
                    },
                    None => Found::Surplus,
                };
                return Err(read(reader, tensor, &place, found));
            }
        }
        Ok(())
    }

    fn block(&self, place: &Span, layout: &BlockedLayout) -> Result<&Block, Found> {
        let memory = match place.space {
            Space::Workspace => &self.workspace,
            Space::Request => &self.request,
        };
        match memory.whole(&place.range()) {
            Some(Written::Block(block)) if block.shape == BlockShape::of(layout) => Ok(block),
            Some(_) => Err(Found::Shape),
            None => Err(Found::Nothing),
        }
    }

    /// Whether a step may write there.
    fn check_place(
        &self,
        running: &Running<'_>,
        step: &Step,
        output: Span,
    ) -> Result<(), Violation> {
        let floats = match output.space {
            Space::Workspace => running.executable.workspace_floats,
            Space::Request => self.request_floats,
        };
        let touches = |other: &Range<usize>| {
            output.start < other.end && other.start < output.start + output.len
        };
        let mut inputs = step.operands.inputs().iter().map(|operand| operand.span);
        let what = if output.len != step.output.len() {
            Misplaced::Length
        } else if output.range().end > floats {
            Misplaced::Outside
        } else if inputs.any(|input| input.space == output.space && touches(&input.range())) {
            Misplaced::OverInput
        } else if output.space == Space::Request
            && (touches(&self.planes) || running.taken.iter().any(touches))
        {
            Misplaced::OverCarried
        } else {
            return Ok(());
        };
        let (step, place) = (step.name.clone(), Place::from(output));
        Err(Violation::Write { step, what, place })
    }

    /// What the exit reads when all steps are over, and where its outputs go.
    fn exit(&self, stage: &Stage, executable: &Executable) -> Result<(), Violation> {
        let (Some(exit), Some(plan)) = (&stage.exit, &executable.exit) else {
            return Ok(());
        };
        let mut areas: Contents<()> = Contents::default();
        for (at, output) in plan.outputs.iter().enumerate() {
            let tensor = match output.value {
                Value::Tensor(tensor) | Value::Copy(tensor) => tensor,
            };
            let area = output.offset..output.end();
            if areas.in_range(&area).next().is_some() {
                return Err(Violation::OutputsOverlap { output: at });
            }
            areas.write(area, ());
            if !exit
                .outputs
                .iter()
                .any(|declared| declared.tensor == tensor)
            {
                return Err(Violation::Early { output: at });
            }
            if output.step.is_none() {
                let reader = format!("output {at}");
                self.tensor(&reader, tensor, output.span, &output.layout)?;
            }
        }
        let scores = plan.scores.map(|(span, _)| span);
        let scores = exit.scores.map(|scores| scores.tensor).zip(scores);
        let confidence = exit.confidence.zip(plan.confidence);
        for (tensor, span) in scores.into_iter().chain(confidence) {
            self.plain(tensor, span)?;
        }
        Ok(())
    }

    /// Checks that the values of a vector lie there one behind the other.
    fn plain(&self, tensor: TensorId, span: Span) -> Result<(), Violation> {
        let memory = match span.space {
            Space::Workspace => &self.workspace,
            Space::Request => &self.request,
        };
        let mut found: Vec<Channel> = Vec::new();
        let mut next = span.start;
        for (range, written) in memory.in_range(&span.range()) {
            let Written::Block(block) = written else {
                return Err(read("the answer", tensor, &span, Found::Shape));
            };
            let shape = block.shape;
            let is_plain = (shape.height, shape.width, shape.halo) == (1, 1, 0);
            if !is_plain || shape.element != Element::F32 || range.start != next {
                return Err(read("the answer", tensor, &span, Found::Shape));
            }
            next = range.end;
            found.extend(&block.lanes);
        }
        if found != self.channels[tensor.index()] || span.len != found.len() {
            return Err(read("the answer", tensor, &span, Found::Nothing));
        }
        Ok(())
    }
}

/// The outputs that are copied from a step's rows are of the tensor that it makes.
fn check_early(executable: &Executable, at: usize, step: &Step) -> Result<(), Violation> {
    let outputs = executable.exit.iter().flat_map(|exit| &exit.outputs);
    for (output, plan) in outputs.enumerate() {
        let is_of_step = plan.step == Some(at);
        let layouts = BlockShape::of(&plan.layout) == BlockShape::of(&step.output);
        if is_of_step && !(step.made == Made::Whole(plan.value) && layouts) {
            return Err(Violation::Early { output });
        }
    }
    Ok(())
}

fn read(reader: &str, tensor: TensorId, span: &Span, found: Found) -> Violation {
    Violation::Read {
        reader: reader.to_owned(),
        tensor: tensor.0,
        place: Place::from(*span),
        found,
    }
}

impl From<Span> for Place {
    fn from(span: Span) -> Self {
        let memory = match span.space {
            Space::Workspace => "workspace",
            Space::Request => "request buffer",
        };
        let floats = span.range();
        Self { memory, floats }
    }
}

fn block_at(span: Span, layout: &BlockedLayout, block: usize) -> Span {
    Span {
        start: span.start + block * layout.block_stride(),
        len: layout.block_stride(),
        ..span
    }
}

/// Where the planes of the input lie, with the zeros around them that intake leaves alone.
fn planes(input: &InputLayout) -> Range<usize> {
    let halo = (input.row_stride - input.width) / 2;
    let first = input.offset - halo * input.row_stride - halo;
    first..first + input.channels * input.plane_stride
}

/// The channels of each tensor: its own, or those that a gather picks.
fn channels(network: &Network) -> Vec<Vec<Channel>> {
    let own = |(tensor, shape): (usize, &punctual_model::Tensor)| {
        let tensor = TensorId(tensor as u32);
        let channel = |channel| Channel { tensor, channel };
        (0..shape.channels).map(channel).collect()
    };
    let mut channels: Vec<Vec<Channel>> = network.tensors.iter().enumerate().map(own).collect();
    for operator in network.stages.iter().flat_map(|stage| &stage.operators) {
        if let OperatorKind::Gather(gather) = &operator.kind {
            let picked = gather.runs.iter().flat_map(|run| {
                let source = &channels[run.tensor(operator.reads()).index()];
                source[run.first as usize..][..run.count as usize].to_vec()
            });
            channels[operator.output.index()] = picked.collect();
        }
    }
    channels
}

#[cfg(test)]
mod tests;
