//! Attention.

use punctual_kernels::{Attention, AttentionBias, AttentionSpec, Image, KernelError, Part};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

impl Lower for punctual_model::Attention {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = AttentionSpec {
            query: of.blocked(),
            key: of.others[0],
            value: of.others[1],
            mask: of.others.get(2).copied(),
            output: of.output,
            heads: self.heads as usize,
            scale: self.scale,
            by_row: self.by_row,
            bias: self.bias.map(|bias| AttentionBias {
                by_row: bias.by_row,
                by_head: bias.by_head,
            }),
        };
        Ok(Box::new(Attention::new(of.isa, &spec)?))
    }
}

impl Kernel for Attention {
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(packed, part, images);
    }

    fn packed_len(&self) -> usize {
        self.packed_len()
    }

    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        match weights.floats.first() {
            Some(bias) => self.pack(bias, packed),
            None => Ok(()),
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(self.spec().sizes().to_vec())
    }
}
