//! Pixels brought to mean 0 and variance 1.

use punctual_kernels::{Kernel, KernelError, LayerNorm, LayerNormSpec};

use super::{Layouts, Lower};

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
