//! Recurrent layers.

use punctual_kernels::{Image, KernelError, Part, Recurrent, RecurrentSpec};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

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

impl Kernel for Recurrent {
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(packed, part, images);
    }

    fn packed_len(&self) -> usize {
        self.packed_len()
    }

    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        self.pack(weights.floats[0], weights.floats[1], packed)
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(vec![self.spec().cell.gates() as usize])
    }
}
