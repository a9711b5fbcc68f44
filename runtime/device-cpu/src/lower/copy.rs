//! Values moved to other places.

use punctual_kernels::{BlockedLayout, Copy, CopySpec, Image, KernelError, Part};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

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

impl Kernel for Copy {
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(packed, part, images);
    }

    fn packed_len(&self) -> usize {
        self.packed_len()
    }

    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        match weights.floats.first() {
            Some(table) => self.pack(table, packed),
            None => Ok(()),
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(Vec::new())
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}
