//! Values at computed positions.

use punctual_kernels::{Kernel, KernelError, Take, TakeSpec};

use super::{Layouts, Lower};

impl Lower for punctual_model::Take {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = TakeSpec {
            input: of.blocked(),
            indices: of.others[0],
            output: of.output,
            axis: self.axis,
        };
        Ok(Box::new(Take::new(of.isa, &spec)?))
    }
}
