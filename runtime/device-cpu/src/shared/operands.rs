//! Where an operator's tensors lie.

use std::ops::Range;

use heapless::Vec;
use punctual_kernels::{ConvInput, INPUTS_MAX};

/// Which of a member's memories a tensor lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// The member's share of the partition's workspace: gone when the stage ends.
    Workspace,
    /// The member's request buffer: stays between stages.
    Request,
}

/// Where a tensor of a member lies. It says nothing of which tensor that is, as dead ones leave their place to others:
/// spans have no equality on purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) space: Space,
    /// Floats from the start of the member's share or buffer.
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Span {
    /// No tensor at all.
    pub(crate) const NOTHING: Self = Self {
        space: Space::Workspace,
        start: 0,
        len: 0,
    };

    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.space == other.space
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }
}

/// A tensor that a kernel reads, and how the kernel takes it to lie there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) span: Span,
    pub(crate) layout: ConvInput,
}

/// The tensors of one operator; its output shares nothing with what it reads.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    inputs: Vec<Operand, INPUTS_MAX>,
    output: Span,
}

impl Operands {
    /// # Panics
    /// If the output overlaps an input, or there are more of these than a kernel takes: the memory
    /// plan or the network is wrong.
    pub(crate) fn new(inputs: impl IntoIterator<Item = Operand>, output: Span) -> Self {
        let inputs: Vec<Operand, INPUTS_MAX> = inputs.into_iter().collect();
        for read in inputs.iter().map(|input| input.span) {
            assert!(
                !output.overlaps(&read),
                "the output at {output:?} overlaps the input at {read:?}"
            );
        }
        Self { inputs, output }
    }

    pub(crate) fn inputs(&self) -> &[Operand] {
        &self.inputs
    }

    pub(crate) fn output(&self) -> Span {
        self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_kernels::PlanarLayout;

    fn span(space: Space, start: usize, len: usize) -> Span {
        Span { space, start, len }
    }

    fn read(span: Span) -> Operand {
        let layout = PlanarLayout::new(1, 1, span.len, 0).expect("a row");
        let layout = ConvInput::Planar(layout);
        Operand { span, layout }
    }

    #[test]
    fn an_output_may_touch_its_input_and_lie_in_another_memory() {
        let output = span(Space::Workspace, 16, 16);
        let inputs = [span(Space::Workspace, 0, 16), span(Space::Request, 20, 4)];
        let _ = Operands::new(inputs.map(read), output);
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn an_output_on_an_input_is_a_programmers_error() {
        let output = span(Space::Request, 16, 16);
        let inputs = [span(Space::Workspace, 0, 64), span(Space::Request, 31, 4)];
        let _ = Operands::new(inputs.map(read), output);
    }
}
