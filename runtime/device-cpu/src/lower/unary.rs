//! Functions of each value.

use punctual_kernels::{BlockedLayout, Image, KernelError, Part, Unary};

use super::{Layouts, Lower};
use crate::executable::Kernel;

impl Lower for punctual_model::Unary {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let unary = Unary::new(of.isa, self.function, of.blocked(), of.output)?;
        Ok(Box::new(unary))
    }
}

impl Kernel for Unary {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}
