//! Fully connected layers.

use punctual_kernels::{Image, KernelError, Linear, LinearSpec, Part};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

impl Lower for punctual_model::Linear {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = LinearSpec {
            input: of.blocked(),
            output: of.output,
            activation: self.activation,
        };
        Ok(Box::new(Linear::new(of.isa, &spec)?))
    }
}

impl Kernel for Linear {
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(packed, part, images);
    }

    fn packed_len(&self) -> usize {
        self.packed_len()
    }

    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        self.pack(weights.floats[0], weights.floats[1], packed)
    }

    fn packing(&self) -> Option<Vec<usize>> {
        let input = self.spec().input;
        Some(vec![input.channels(), input.height(), input.width()])
    }
}
