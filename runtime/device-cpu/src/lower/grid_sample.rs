//! Pixels at computed positions.

use punctual_kernels::{BlockedLayout, GridSample, GridSampleSpec, Image, KernelError, Part};

use super::{Layouts, Lower};
use crate::executable::Kernel;

impl Lower for punctual_model::GridSample {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = GridSampleSpec {
            input: of.blocked(),
            grid: of.others[0],
            output: of.output,
            groups: self.groups as usize,
            sampling: self.sampling,
        };
        Ok(Box::new(GridSample::new(of.isa, &spec)?))
    }
}

impl Kernel for GridSample {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, output: &BlockedLayout) -> bool {
        // What it reads serves several blocks.
        output.blocks() == 1
    }
}
