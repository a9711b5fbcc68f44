//! A fully connected layer: a convolution whose kernel covers the whole image.

use punctual_types::{Activation, Extent, Window};

use crate::{
    BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Image, Isa, Kernel, KernelError, Part, Weights,
};

/// `activation(weights * input + bias)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearSpec {
    /// What it reads: a vector, or an image whose values it takes in the order channel, row, column.
    pub input: BlockedLayout,
    /// What it writes: a vector.
    pub output: BlockedLayout,
    /// Applied last.
    pub activation: Activation,
}

/// A fully connected layer for one instruction set.
#[derive(Clone, Debug)]
pub struct Linear {
    spec: LinearSpec,
    conv: Conv2d,
}

impl Linear {
    /// Checks the shapes and chooses the code.
    pub fn new(isa: Isa, spec: &LinearSpec) -> Result<Linear, KernelError> {
        let LinearSpec {
            input,
            output,
            activation,
        } = *spec;
        output.check_vector("output", isa, output.channels())?;
        let window = Window::whole(Extent {
            height: input.height() as u32,
            width: input.width() as u32,
        });
        let conv = Conv2dSpec {
            input: ConvInput::Blocked(input),
            output,
            residual: None,
            window,
            groups: 1,
            activation,
        };
        Ok(Linear {
            spec: *spec,
            conv: Conv2d::new(isa, &conv)?,
        })
    }

    pub fn spec(&self) -> &LinearSpec {
        &self.spec
    }
}

impl Kernel for Linear {
    fn packed_len(&self) -> usize {
        self.conv.packed_len()
    }

    /// The weights are `[output][channel][row][column]`; then come the biases.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        self.conv.pack(weights, packed)
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.conv.run(packed, part, images);
    }

    fn packing(&self) -> Option<Vec<usize>> {
        let input = self.spec.input;
        Some(vec![input.channels(), input.height(), input.width()])
    }
}
