//! Attention.

use punctual_kernels::{Attention, AttentionBias, AttentionSpec, Kernel, KernelError};

use super::{Layouts, Lower};

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
