//! Fully connected layers.

use punctual_kernels::{Kernel, KernelError, Linear, LinearSpec};

use super::{Layouts, Lower};

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
