//! Pixels brought to mean 0 and variance 1.

use punctual_kernels::{Image, KernelError, LayerNorm, LayerNormSpec, Part};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

impl Lower for punctual_model::LayerNorm {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = LayerNormSpec {
            input: of.blocked(),
            output: of.output,
            epsilon: self.epsilon,
        };
        Ok(Box::new(LayerNorm::new(of.isa, &spec)?))
    }
}

impl Kernel for LayerNorm {
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
        Some(Vec::new())
    }
}
