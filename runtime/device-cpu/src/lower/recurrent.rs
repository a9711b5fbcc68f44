//! Recurrent layers.

use punctual_kernels::{Kernel, KernelError, Recurrent, RecurrentSpec};

use super::{Layouts, Lower};

impl Lower for punctual_model::Recurrent {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = RecurrentSpec {
            cell: self.cell,
            gates: of.blocked(),
            initial: of.others.first().copied(),
            output: of.output,
            backwards: self.backwards,
        };
        Ok(Box::new(Recurrent::new(of.isa, &spec)?))
    }
}
