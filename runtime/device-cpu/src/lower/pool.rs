//! The largest or the mean of windows.

use punctual_kernels::{
    Element, GlobalAveragePool, Kernel, KernelError, Pool, PoolSpec, quantised,
};
use punctual_types::Extent;

use super::{Layouts, Lower};

impl Lower for punctual_model::Pool {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let (isa, input, output) = (of.isa, of.blocked(), of.output);
        let spec = PoolSpec {
            input,
            output,
            window: self.window(),
            kind: self.kind,
        };
        let image = Extent {
            height: input.height() as u32,
            width: input.width() as u32,
        };
        if input.element() != Element::F32 {
            return Ok(Box::new(quantised::Pool::new(isa, &spec)?));
        }
        if self.is_mean_of_all(image) {
            return Ok(Box::new(GlobalAveragePool::new(isa, input, output)?));
        }
        Ok(Box::new(Pool::new(isa, &spec)?))
    }
}
