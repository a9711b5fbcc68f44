//! Softmaxes.

use punctual_kernels::{BlockedLayout, Image, KernelError, Part, Softmax, SoftmaxSpec};

use super::{Layouts, Lower};
use crate::executable::Kernel;

impl Lower for punctual_model::Softmax {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = SoftmaxSpec {
            input: of.blocked(),
            output: of.output,
            digit: self.digit,
            logarithm: self.logarithm,
        };
        Ok(Box::new(Softmax::new(of.isa, &spec)?))
    }
}

impl Kernel for Softmax {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, output: &BlockedLayout) -> bool {
        // What it reads serves several blocks.
        output.blocks() == 1
    }
}
