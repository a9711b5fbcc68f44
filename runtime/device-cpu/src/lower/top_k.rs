//! Positions of the values that come first.

use punctual_kernels::{BlockedLayout, Image, KernelError, Part, TopK, TopKSpec};

use super::{Layouts, Lower};
use crate::executable::Kernel;

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

impl Kernel for TopK {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}
