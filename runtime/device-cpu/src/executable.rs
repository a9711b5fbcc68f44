//! A stage as the CPU device runs it: kernels with their tensors' places, in order.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::Nanos;
use punctual_kernels::{AlignedBuffer, BlockedLayout, Image, Kernel, Part};

use crate::outputs::{ByRows, OutputPlan};
use crate::shared::{Operands, Span};
use crate::specialised::Specialised;
use punctual_device::InputLayout;
use punctual_model::{ScoreForm, TensorId};

/// A network, lowered. Shared by all partitions.
pub(crate) struct LoadedModel {
    pub(crate) stages: Vec<Executable>,
    /// Floats of its weight image: the packed weights of all steps, in order of execution.
    pub(crate) weight_floats: usize,
    /// Weights that specialised solutions have derived from the image.
    pub(crate) specialised: AlignedBuffer,
    pub(crate) input: InputLayout,
    /// Floats of a request buffer that this network uses.
    pub(crate) request_floats: usize,
}

/// One stage.
pub(crate) struct Executable {
    pub(crate) steps: Vec<Step>,
    /// What it answers; nothing if it ends in no exit.
    pub(crate) exit: Option<ExitPlan>,
    /// Floats of a member's share of the workspace.
    pub(crate) workspace_floats: usize,
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
    /// `specialised` those of all of the model's specialised solutions, `scratch` the core's own memory for these.
    pub(crate) fn run(
        &self,
        packed: &[f32],
        specialised: &[f32],
        (part, cores): (Part, usize),
        images: &mut [Image<'_>],
        scratch: &mut [f32],
    ) {
        if self
            .specialised
            .run(specialised, (part, cores), images, scratch)
        {
            return;
        }
        self.kernel.run(packed, part, images);
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
