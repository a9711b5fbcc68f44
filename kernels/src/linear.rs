//! A fully connected layer: a convolution whose kernel covers the whole image.

use crate::{
    Activation, BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Extent, Image, Isa, KernelError,
    Padding, Part, Window,
};

/// `activation(weights * input + bias)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearSpec {
    /// What it reads: a vector, or an image whose values it takes in the order channel, row,
    /// column.
    pub input: BlockedLayout,
    /// What it writes: a vector.
    pub output: BlockedLayout,
    /// Applied last.
    pub activation: Activation,
}

/// A fully connected layer for one instruction set, its weights packed.
#[derive(Clone, Debug)]
pub struct Linear {
    spec: LinearSpec,
    conv: Conv2d,
}

impl Linear {
    /// Checks the shapes and packs the weights, which are `[output][channel][row][column]`.
    pub fn new(
        isa: Isa,
        spec: &LinearSpec,
        weights: &[f32],
        bias: &[f32],
    ) -> Result<Linear, KernelError> {
        let LinearSpec {
            input,
            output,
            activation,
        } = *spec;
        output.check_vector("output", isa, output.channels())?;
        let window = Window {
            kernel: Extent {
                height: input.height(),
                width: input.width(),
            },
            stride: Extent::square(1),
            padding: Padding::default(),
        };
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
            conv: Conv2d::new(isa, &conv, weights, bias)?,
        })
    }

    /// Its specification.
    pub fn spec(&self) -> &LinearSpec {
        &self.spec
    }

    /// Runs `part` of the operator for each image.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        self.conv.run(part, images);
    }
}
