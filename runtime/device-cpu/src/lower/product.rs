//! Products of two tensors' matrices.

use punctual_kernels::{Image, KernelError, Part, Product, ProductSpec};

use super::{Layouts, Lower};
use crate::executable::Kernel;

impl Lower for punctual_model::Product {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = ProductSpec {
            first: of.blocked(),
            second: of.others[0],
            output: of.output,
        };
        Ok(Box::new(Product::new(of.isa, &spec)?))
    }
}

impl Kernel for Product {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }
}
