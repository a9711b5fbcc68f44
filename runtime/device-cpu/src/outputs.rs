//! Outputs of exits: from tensors as kernels lay them out to the bytes that a client reads.

use std::collections::BTreeSet;

use punctual_kernels::{BlockedLayout, Isa, KernelError, PlainCopy};
use punctual_model::{Output, PlacedOutput};

use crate::executable::{Executable, Made, Step, Value};
use crate::shared::{Space, Span};

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
        (value, span, layout): (Value, Span, BlockedLayout),
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
