//! Images of other rows and columns.

use punctual_kernels::{BlockedLayout, Image, KernelError, Part, Resize, ResizeSpec};

use super::{Layouts, Lower};
use crate::executable::Kernel;

impl Lower for punctual_model::Resize {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = ResizeSpec {
            input: of.blocked(),
            output: of.output,
            resampling: self.resampling,
        };
        Ok(Box::new(Resize::new(of.isa, &spec)?))
    }
}

impl Kernel for Resize {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}
