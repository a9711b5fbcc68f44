//! Values kept in another way.

use punctual_kernels::quantised::{Convert, ConvertSpec, PLANES_MAX};
use punctual_kernels::{Kernel, KernelError};

use super::{Layouts, Lower};

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
