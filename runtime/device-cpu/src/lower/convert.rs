//! Values kept in another way.

use punctual_kernels::quantised::{Convert, ConvertSpec, PLANES_MAX};
use punctual_kernels::{BlockedLayout, Image, KernelError, Part};

use super::{Layouts, Lower};
use crate::executable::Kernel;

impl Lower for punctual_model::Convert {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = ConvertSpec {
            input: of.input,
            output: of.output,
        };
        Ok(Box::new(Convert::new(of.isa, &spec)?))
    }

    fn reads_planes(&self, channels: usize) -> bool {
        channels <= PLANES_MAX
    }
}

impl Kernel for Convert {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}
