//! Functions of each value.

use punctual_kernels::{Kernel, KernelError, Unary};

use super::{Layouts, Lower};

impl Lower for punctual_model::Unary {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let unary = Unary::new(of.isa, self.function, of.blocked(), of.output)?;
        Ok(Box::new(unary))
    }
}
