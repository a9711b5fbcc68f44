//! Pixels as a sequence of tokens.

use punctual_kernels::{Image, KernelError, Part, Tokens};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

impl Lower for punctual_model::Tokens {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let prefix = self.prefix as usize;
        Ok(Box::new(Tokens::new(
            of.isa,
            of.blocked(),
            of.output,
            prefix,
        )?))
    }
}

impl Kernel for Tokens {
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(packed, part, images);
    }

    fn packed_len(&self) -> usize {
        self.packed_len()
    }

    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        self.pack(weights.floats[0], packed)
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(vec![self.count()])
    }
}
