//! Pixels at computed positions.

use punctual_kernels::{GridSample, GridSampleSpec, Kernel, KernelError};

use super::{Layouts, Lower};

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
