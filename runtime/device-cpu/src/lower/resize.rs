//! Images of other rows and columns.

use punctual_kernels::{Kernel, KernelError, Resize, ResizeSpec};

use super::{Layouts, Lower};

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
