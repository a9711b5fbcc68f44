//! Positions of the values that come first.

use punctual_kernels::{Kernel, KernelError, TopK, TopKSpec};

use super::{Layouts, Lower};

impl Lower for punctual_model::TopK {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = TopKSpec {
            input: of.blocked(),
            output: of.output,
            axis: self.axis,
            ranking: self.ranking,
        };
        Ok(Box::new(TopK::new(of.isa, &spec)?))
    }
}
