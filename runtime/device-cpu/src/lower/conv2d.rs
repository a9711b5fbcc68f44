//! Convolution of floats.

use punctual_kernels::{Conv2d, Conv2dSpec, Kernel, KernelError};

use super::{Layouts, Lower};

impl Lower for punctual_model::Conv2d {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = Conv2dSpec {
            input: of.input,
            output: of.output,
            residual: of.others.first().copied(),
            window: self.window,
            groups: self.groups as usize,
            activation: self.activation,
        };
        Ok(Box::new(Conv2d::new(of.isa, &spec)?))
    }

    fn reads_planes(&self, _channels: usize) -> bool {
        true
    }
}
