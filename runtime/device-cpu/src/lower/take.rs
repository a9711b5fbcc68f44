//! Values at computed positions.

use punctual_kernels::{BlockedLayout, Image, KernelError, Part, Take, TakeSpec};

use super::{Layouts, Lower};
use crate::executable::Kernel;

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

impl Kernel for Take {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}
