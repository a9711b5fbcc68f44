//! The largest or the mean of windows.

use punctual_kernels::{
    BlockedLayout, Element, GlobalAveragePool, Image, KernelError, Part, Pool, PoolSpec, quantised,
};
use punctual_types::Extent;

use super::{Layouts, Lower};
use crate::executable::Kernel;

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

impl Kernel for Pool {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}

impl Kernel for GlobalAveragePool {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }
}

impl Kernel for quantised::Pool {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}
