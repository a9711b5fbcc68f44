//! Softmaxes.

use punctual_kernels::{Kernel, KernelError, Softmax, SoftmaxSpec};

use super::{Layouts, Lower};

impl Lower for punctual_model::Softmax {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = SoftmaxSpec {
            input: of.blocked(),
            output: of.output,
            digit: self.digit,
            logarithm: self.logarithm,
        };
        Ok(Box::new(Softmax::new(of.isa, &spec)?))
    }
}
