//! A stage as the CPU device runs it: kernels with their tensors' places, in order.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::Nanos;
use punctual_kernels::{
    AlignedBuffer, Attention, BestScore, Binary, BlockedLayout, Conv2d, Copy, Detections,
    Embedding, Gather, GlobalAveragePool, GridSample, Image, LayerNorm, Linear, Part, Pool,
    Product, Recurrent, Resize, Softmax, Take, Token, Tokens, TopK, Unary, quantised,
};

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
    pub(crate) kernel: Kernel,
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
        kernel: Kernel,
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

    /// Runs one of so many cores' part, or a piece of it, for all members. `packed` are the step's weights,
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
        match &self.kernel {
            Kernel::Conv2d(kernel) => kernel.run(packed, part, images),
            Kernel::Pool(kernel) => kernel.run(part, images),
            Kernel::GlobalAveragePool(kernel) => kernel.run(part, images),
            Kernel::Linear(kernel) => kernel.run(packed, part, images),
            Kernel::Binary(kernel) => kernel.run(packed, part, images),
            Kernel::Unary(kernel) => kernel.run(part, images),
            Kernel::Softmax(kernel) => kernel.run(part, images),
            Kernel::Gather(kernel) => kernel.run(part, images),
            Kernel::QuantisedConv2d(kernel) => kernel.run(packed, part, images),
            Kernel::QuantisedPool(kernel) => kernel.run(part, images),
            Kernel::QuantisedAdd(kernel) => kernel.run(part, images),
            Kernel::Convert(kernel) => kernel.run(part, images),
            Kernel::LayerNorm(kernel) => kernel.run(packed, part, images),
            Kernel::Attention(kernel) => kernel.run(packed, part, images),
            Kernel::Product(kernel) => kernel.run(part, images),
            Kernel::Embedding(kernel) => kernel.run(packed, part, images),
            Kernel::Tokens(kernel) => kernel.run(packed, part, images),
            Kernel::Token(kernel) => kernel.run(part, images),
            Kernel::Copy(kernel) => kernel.run(packed, part, images),
            Kernel::Resize(kernel) => kernel.run(part, images),
            Kernel::GridSample(kernel) => kernel.run(part, images),
            Kernel::TopK(kernel) => kernel.run(part, images),
            Kernel::Take(kernel) => kernel.run(part, images),
            Kernel::Recurrent(kernel) => kernel.run(packed, part, images),
            Kernel::BestScore(kernel) => kernel.run(part, images),
            Kernel::Detections(kernel) => kernel.run(part, images),
            #[cfg(test)]
            Kernel::Test(kernel) => kernel(part, images),
        }
    }
}

/// The kernels.
// Nearly all are convolutions: a box would only add a step to each.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Kernel {
    Conv2d(Conv2d),
    Pool(Pool),
    GlobalAveragePool(GlobalAveragePool),
    Linear(Linear),
    Binary(Binary),
    Unary(Unary),
    Softmax(Softmax),
    Gather(Gather),
    QuantisedConv2d(quantised::Conv2d),
    QuantisedPool(quantised::Pool),
    QuantisedAdd(quantised::Add),
    Convert(quantised::Convert),
    LayerNorm(LayerNorm),
    Attention(Attention),
    Product(Product),
    Embedding(Embedding),
    Tokens(Tokens),
    Token(Token),
    Copy(Copy),
    /// Of floats or of bytes.
    Resize(Resize),
    GridSample(GridSample),
    TopK(TopK),
    Take(Take),
    Recurrent(Recurrent),
    BestScore(BestScore),
    Detections(Detections),
    /// What a test wants to happen.
    #[cfg(test)]
    Test(fn(Part, &mut [Image<'_>])),
}

impl Kernel {
    /// Floats of its packed weights.
    pub(crate) fn packed_len(&self) -> usize {
        match self {
            Kernel::Conv2d(kernel) => kernel.packed_len(),
            Kernel::Linear(kernel) => kernel.packed_len(),
            Kernel::QuantisedConv2d(kernel) => kernel.packed_len(),
            Kernel::LayerNorm(kernel) => kernel.packed_len(),
            Kernel::Attention(kernel) => kernel.packed_len(),
            Kernel::Embedding(kernel) => kernel.packed_len(),
            Kernel::Tokens(kernel) => kernel.packed_len(),
            Kernel::Copy(kernel) => kernel.packed_len(),
            Kernel::Binary(kernel) => kernel.packed_len(),
            Kernel::Recurrent(kernel) => kernel.packed_len(),
            _ => 0,
        }
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
