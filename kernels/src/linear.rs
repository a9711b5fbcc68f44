//! A fully connected layer.

use crate::spec::{check_equal, check_finite};
use crate::{Activation, BlockedLayout, Image, Isa, KernelError, Part, reference};

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
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// Checks the shapes and packs the weights, which are `[output][channel][row][column]`.
    pub fn new(
        isa: Isa,
        spec: &LinearSpec,
        weights: &[f32],
        bias: &[f32],
    ) -> Result<Linear, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let LinearSpec {
            input,
            output,
            activation,
        } = spec;
        input.check_lanes("input", isa)?;
        output.check_vector("output", isa, output.channels())?;
        activation.check()?;
        let expected = output.channels() * input.shape().elements();
        check_equal("the number of weights", weights.len(), expected)?;
        check_equal("the number of biases", bias.len(), output.channels())?;
        check_finite("weights", weights)?;
        check_finite("bias", bias)?;
        Ok(Linear {
            spec: *spec,
            weights: weights.to_vec(),
            bias: bias.to_vec(),
        })
    }

    /// Its specification.
    pub fn spec(&self) -> &LinearSpec {
        &self.spec
    }

    /// Runs `part` of the operator for each image.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        let LinearSpec {
            input,
            output,
            activation,
        } = &self.spec;
        for image in images {
            let mut logical = vec![0.0; input.shape().elements()];
            input.unpack(image.input, &mut logical);
            let result = reference::linear(*activation, &self.weights, &self.bias, &logical);
            let mut blocked = vec![0.0; output.len()];
            output.pack(&result, &mut blocked);
            image.output.copy_from_slice(&blocked[output.part(part)]);
        }
    }
}
