//! What one image of a batch lends to a kernel.

use core::ops::Deref;

use crate::{BlockedLayout, Part};

/// Most tensors that one operator reads.
pub const INPUTS_MAX: usize = 8;

/// The tensors that an operator reads of one image, each whole: first its input, then a residual,
/// a second operand, or the further sources of a gather.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    slices: [&'a [f32]; INPUTS_MAX],
    count: usize,
}

impl<'a> Inputs<'a> {
    /// The tensors in the operator's order.
    ///
    /// # Panics
    /// If there are more than [`INPUTS_MAX`].
    pub fn new(tensors: impl IntoIterator<Item = &'a [f32]>) -> Inputs<'a> {
        let mut inputs = Inputs {
            slices: [&[]; INPUTS_MAX],
            count: 0,
        };
        for tensor in tensors {
            inputs.slices[inputs.count] = tensor;
            inputs.count += 1;
        }
        inputs
    }

    pub fn one(tensor: &'a [f32]) -> Inputs<'a> {
        Inputs::new([tensor])
    }
}

impl<'a> Deref for Inputs<'a> {
    type Target = [&'a [f32]];

    fn deref(&self) -> &Self::Target {
        &self.slices[..self.count]
    }
}

/// One image's tensors. The images of a batch may lie anywhere: nothing relates their addresses.
///
/// `output` is the part's slice of the output tensor,
/// [`BlockedLayout::part`](crate::BlockedLayout::part) elements long. Best aligned to 64 bytes.
/// All lengths are asserted on each call: a wrong one is the caller's error and panics.
#[derive(Debug)]
pub struct Image<'a> {
    pub inputs: Inputs<'a>,
    /// What it writes: every element of it.
    pub output: &'a mut [f32],
}

impl<'a> Image<'a> {
    /// Checks the lengths that an operator with these tensors relies on, and clears the halo of what it writes.
    pub(crate) fn prepare(
        &mut self,
        inputs: impl IntoIterator<Item = usize>,
        output: &BlockedLayout,
        part: Part,
    ) {
        let found = self.inputs.iter().map(|input| input.len());
        assert!(found.eq(inputs), "the inputs are whole tensors");
        let slice = output.part(part).len();
        assert_eq!(self.output.len(), slice, "the output is the part's slice");
        output.clear_halo(part, self.output);
    }

    /// What the operator reads first.
    pub(crate) fn input(&self) -> &'a [f32] {
        self.inputs[0]
    }

    /// What it reads second: a convolution's residual, an addition's second operand.
    pub(crate) fn second(&self) -> Option<&'a [f32]> {
        self.inputs.get(1).copied()
    }
}
