//! Outputs of exits: from tensors as kernels lay them out to the bytes that a client reads.

use punctual_kernels::{BlockedLayout, Isa, KernelError, PlainCopy};
use punctual_model::{Output, PlacedOutput};

use crate::executable::{Executable, Kernel, Step};
use crate::shared::{Space, Span};

/// An output of an exit, and where it goes.
pub(crate) struct OutputPlan {
    pub(crate) span: Span,
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

/// Floats of rows at once: what stays in a core's own cache beside what the operator reads.
const AT_ONCE: usize = 32 << 10;

impl OutputPlan {
    /// # Errors
    /// If the output is of bytes and the tensor is not, or the other way round.
    pub(crate) fn new(
        isa: Isa,
        layout: BlockedLayout,
        output: &Output,
        placed: &PlacedOutput,
        span: Span,
    ) -> Result<Self, KernelError> {
        Ok(Self {
            span,
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
    /// In how many pieces each of `cores` parts runs.
    pub(crate) fn pieces(&self, output: &BlockedLayout, cores: usize) -> usize {
        let rows = output.blocks() * output.height();
        rows.div_ceil(self.rows * cores)
    }
}

impl Executable {
    /// The outputs that are written from a step's rows.
    pub(crate) fn outputs_of(&self, step: usize) -> impl Iterator<Item = &OutputPlan> {
        let outputs = self.exit.iter().flat_map(|exit| &exit.outputs);
        outputs.filter(move |output| output.step == Some(step))
    }

    /// Finds the outputs that can be written as their rows come.
    pub(crate) fn write_early(&mut self) {
        let Some(exit) = &mut self.exit else {
            return;
        };
        for output in &mut exit.outputs {
            let makes = |step: &Step| step.operands.output() == output.span;
            if output.copy.goes_by_rows() {
                output.step = self.steps.iter().rposition(makes);
            }
        }
        for at in 0..self.steps.len() {
            if self.outputs_of(at).next().is_some() {
                let by_rows = self.by_rows(at);
                self.steps[at].by_rows = Some(by_rows);
            }
        }
    }

    fn by_rows(&self, at: usize) -> ByRows {
        let step = &self.steps[at];
        let output = &step.output;
        let rows = match step.kernel.runs_in_rows(output) {
            true => (AT_ONCE / output.row_stride()).max(1),
            false => output.blocks() * output.height(),
        };
        let span = step.operands.output();
        let later = self.steps[at + 1..].iter();
        let mut read = later.flat_map(|step| step.operands.inputs());
        let exit = self.exit.iter().flat_map(|exit| {
            let scores = exit.scores.map(|(scores, _)| scores);
            let outputs = exit.outputs.iter();
            let other = outputs.filter(|output| output.step != Some(at));
            let other = other.map(|output| output.span);
            scores.into_iter().chain(exit.confidence).chain(other)
        });
        let is_kept = span.space == Space::Request
            || read.any(|read| read.overlaps(&span))
            || exit.into_iter().any(|read| read.overlaps(&span));
        ByRows { rows, is_kept }
    }
}

impl Kernel {
    /// Whether it does no more work for some rows after the other than for all at once.
    fn runs_in_rows(&self, output: &BlockedLayout) -> bool {
        match self {
            Kernel::Binary(_)
            | Kernel::Unary(_)
            | Kernel::Copy(_)
            | Kernel::Gather(_)
            | Kernel::Resize(_)
            | Kernel::TopK(_)
            | Kernel::Take(_)
            | Kernel::BestScore(_)
            | Kernel::Pool(_)
            | Kernel::Convert(_)
            | Kernel::QuantisedAdd(_)
            | Kernel::QuantisedPool(_) => true,
            // What they read serves several blocks.
            Kernel::Conv2d(_)
            | Kernel::QuantisedConv2d(_)
            | Kernel::Softmax(_)
            | Kernel::GridSample(_) => output.blocks() == 1,
            _ => false,
        }
    }
}
