//! Values moved to other places.

use punctual_kernels::{Copy, CopySpec, Kernel, KernelError};

use super::{Layouts, Lower};

impl Lower for punctual_model::Copy {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let others = of.others.iter().copied();
        let spec = CopySpec {
            inputs: [of.blocked()].into_iter().chain(others).collect(),
            table: of.weights.first().map_or(0, |&table| table as usize),
            output: of.output,
            pieces: self.pieces.clone(),
        };
        Ok(Box::new(Copy::new(of.isa, &spec)?))
    }
}
