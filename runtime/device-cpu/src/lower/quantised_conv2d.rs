//! Convolution of bytes.

use punctual_kernels::quantised::{Conv2d, Conv2dSpec};
use punctual_kernels::{Kernel, KernelError};

use super::{Layouts, Lower};

impl Lower for punctual_model::QuantisedConv2d {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = Conv2dSpec {
            input: of.blocked(),
            output: of.output,
            window: self.window,
            groups: self.groups as usize,
            activation: self.activation,
        };
        Ok(Box::new(Conv2d::new(of.isa, &spec)?))
    }
}
