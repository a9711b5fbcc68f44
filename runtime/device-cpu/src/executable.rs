//! A stage as the CPU device runs it: kernels with their tensors' places, in order, and its exit's outputs, from tensors
//! as kernels lay them out to the bytes that a client reads.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_core::Nanos;
use punctual_kernels::{BlockedLayout, Image, Isa, Kernel, KernelError, Part, PlainCopy};

use crate::shared::{Operands, Space, Span};
use crate::specialised::{Chosen, Derived, Specialised};
use punctual_model::{Output, PlacedOutput, ScoreForm, TensorId};

/// One stage.
pub(crate) struct Executable {
    pub(crate) steps: Vec<Step>,
    /// Its first operator's position among all of the network's.
    pub(crate) first_operator: u32,
    /// Floats from the start of the model's weight image to the last one that it or a stage before it reads.
    pub(crate) weights_end: usize,
    /// Whether the solutions that were chosen for its operators are there.
    pub(crate) prepared: Prepared,
    /// Whether its leader runs it alone.
    pub(crate) alone: Chosen<bool>,
    /// What it answers; nothing if it ends in no exit.
    pub(crate) exit: Option<ExitPlan>,
    /// Floats of a member's share of the workspace.
    pub(crate) workspace_floats: usize,
}

/// Becomes true once, while leaders run the stage.
#[derive(Default)]
pub(crate) struct Prepared(AtomicBool);

impl Prepared {
    pub(crate) fn set(&self) {
        // Release: pairs with the acquire in `is_set` (label PREPARED): a thread that sees it sees the derived weights.
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        // Acquire: pairs with the release in `set` (label PREPARED).
        self.0.load(Ordering::Acquire)
    }
}

/// Where the parts of an answer lie when a stage is over.
pub(crate) struct ExitPlan {
    /// The class scores, without the surplus lanes of their last block.
    pub(crate) scores: Option<(Span, ScoreForm)>,
    /// One float.
    pub(crate) confidence: Option<Span>,
    /// Of those that are wanted.
    pub(crate) outputs: Vec<OutputPlan>,
    /// Where the area counts values that are not finite, in bytes from its start.
    pub(crate) not_finite: usize,
}

/// What a step reads or writes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Tensor(TensorId),
    /// A copy of it, for operators that cannot read the tensor as it lies: the network's input in blocks instead of
    /// planes, or a tensor of plain values with zeros around it.
    Copy(TensorId),
}

/// What a step makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Whole(Value),
    /// Some channels of the tensor, whose others are made elsewhere.
    Part(TensorId),
}

/// One operator, or a part of one, or a copy of a tensor.
pub(crate) struct Step {
    pub(crate) name: String,
    /// The position among all of the network's operators, in order of execution; none for copies of tensors.
    /// An operator has one step, but for gathers, which may have none or several.
    pub(crate) operator: Option<u32>,
    pub(crate) made: Made,
    pub(crate) kernel: Box<dyn Kernel>,
    /// Where its packed weights lie in the model's weight image; empty if it has none.
    pub(crate) weights: Range<usize>,
    pub(crate) specialised: Specialised,
    pub(crate) operands: Operands,
    pub(crate) output: BlockedLayout,
    /// There if outputs are written from its rows.
    pub(crate) by_rows: Option<ByRows>,
    /// Multiply-accumulates for one image.
    pub(crate) macs: u64,
    pub(crate) time: StepTime,
}

impl Step {
    /// A step without weights, whose multiplications do not count.
    pub(crate) fn new(
        name: String,
        made: Made,
        kernel: Box<dyn Kernel>,
        operands: Operands,
        output: BlockedLayout,
    ) -> Self {
        Self {
            name,
            operator: None,
            made,
            kernel,
            weights: 0..0,
            specialised: Specialised::default(),
            operands,
            output,
            by_rows: None,
            macs: 0,
            time: StepTime::default(),
        }
    }

    /// Runs the part of one of `cores` cores, or a piece of it, for all members. `packed` are the step's weights,
    /// `derived` those of all of the model's specialised solutions, if this stage's are there, `scratch` the core's own
    /// memory for these.
    pub(crate) fn run(
        &self,
        packed: &[f32],
        derived: Option<&[Derived]>,
        part: Part,
        cores: usize,
        images: &mut [Image<'_>],
        scratch: &mut [f32],
    ) {
        if let Some(derived) = derived
            && (self.specialised).run(derived, part, cores, images, scratch)
        {
            return;
        }
        self.kernel.run(packed, part, images);
    }
}

/// An output of an exit, and where it goes.
pub(crate) struct OutputPlan {
    pub(crate) value: Value,
    pub(crate) span: Span,
    pub(crate) layout: BlockedLayout,
    pub(crate) copy: PlainCopy,
    /// Bytes from the start of the area.
    pub(crate) offset: usize,
    /// The step that makes the tensor, if the output is written as soon as rows of it are there: they are in the
    /// nearest cache then. Otherwise it is written when the stage is over.
    pub(crate) step: Option<usize>,
}

/// How a step runs whose rows are written to outputs as soon as they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByRows {
    /// The most rows at once.
    rows: usize,
    /// Whether anything else reads what the step writes. If not, all rows of a core take the same memory.
    pub(crate) is_kept: bool,
}

/// Floats of rows at once: what stays in a core's own cache in addition to what the operator reads.
const AT_ONCE: usize = 32 << 10;

impl OutputPlan {
    /// # Errors
    /// If the output is of bytes and the tensor is not, or the other way round.
    pub(crate) fn new(
        isa: Isa,
        output: &Output,
        placed: &PlacedOutput,
        value: Value,
        span: Span,
        layout: BlockedLayout,
    ) -> Result<Self, KernelError> {
        Ok(Self {
            value,
            span,
            layout,
            copy: PlainCopy::new(isa, layout, &output.view, output.element)?,
            offset: placed.offset as usize,
            step: None,
        })
    }

    /// Bytes from the start of the area to the output's last one.
    pub(crate) fn end(&self) -> usize {
        self.offset + self.copy.bytes()
    }
}

impl ByRows {
    pub(crate) fn new(step: &Step, is_kept: bool) -> Self {
        let output = &step.output;
        let rows = if step.kernel.runs_in_rows() {
            (AT_ONCE / output.row_stride()).max(1)
        } else {
            output.blocks() * output.height()
        };
        Self { rows, is_kept }
    }

    /// In how many pieces each of `cores` parts runs.
    pub(crate) fn pieces(&self, output: &BlockedLayout, cores: usize) -> usize {
        let rows = output.blocks() * output.height();
        rows.div_ceil(self.rows * cores)
    }
}

impl Executable {
    /// How many of a partition's cores run it.
    pub(crate) fn cores(&self, batch: usize, partition: usize) -> usize {
        if self.alone.at(batch, partition) {
            1
        } else {
            partition
        }
    }

    /// The outputs that are written from a step's rows.
    pub(crate) fn outputs_of(&self, step: usize) -> impl Iterator<Item = &OutputPlan> {
        let outputs = self.exit.iter().flat_map(|exit| &exit.outputs);
        outputs.filter(move |output| output.step == Some(step))
    }

    /// Finds the outputs that can be written as their rows come. `memory` names the memory that a value lies in, alone or
    /// with others; `read` are those that operators and the answer read.
    pub(crate) fn write_early(
        &mut self,
        memory: impl Fn(Value) -> Value,
        mut read: BTreeSet<Value>,
    ) {
        let Some(exit) = &mut self.exit else {
            return;
        };
        for output in &mut exit.outputs {
            let makes = |step: &Step| step.made == Made::Whole(output.value);
            if output.copy.goes_by_rows() {
                output.step = self.steps.iter().position(makes);
            }
            if output.step.is_none() {
                read.insert(memory(output.value));
            }
        }
        for output in &exit.outputs {
            if let Some(at) = output.step {
                let step = &mut self.steps[at];
                let is_kept =
                    output.span.space == Space::Request || read.contains(&memory(output.value));
                step.by_rows = Some(ByRows::new(step, is_kept));
            }
        }
    }
}

/// What a test wants to happen.
#[cfg(test)]
pub(crate) struct Planted(pub(crate) fn(Part, &mut [Image<'_>]));

#[cfg(test)]
impl Kernel for Planted {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.0(part, images);
    }
}

/// How long a step took, as its leader saw it. Statistics only: partitions that run the same model
/// at once write to it without order.
#[derive(Default)]
pub(crate) struct StepTime {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl StepTime {
    // Relaxed throughout: single words, nothing hangs on their order.
    pub(crate) fn record(&self, took: Nanos) {
        self.last_ns.store(took.as_nanos(), Ordering::Relaxed);
        self.longest_ns
            .fetch_max(took.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn last(&self) -> Nanos {
        Nanos::new(self.last_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn longest(&self) -> Nanos {
        Nanos::new(self.longest_ns.load(Ordering::Relaxed))
    }
}
