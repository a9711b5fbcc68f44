//! Products of two tensors' matrices.

use punctual_kernels::{Kernel, KernelError, Product, ProductSpec};

use super::{Layouts, Lower};

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
