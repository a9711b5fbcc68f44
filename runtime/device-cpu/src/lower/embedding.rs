//! Rows of a table.

use punctual_kernels::{Embedding, Image, KernelError, Part};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

impl Lower for punctual_model::Embedding {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let rows = of.weights[0] as usize / of.output.channels();
        let embedding = Embedding::new(of.isa, of.blocked(), of.output, rows)?;
        Ok(Box::new(embedding))
    }
}

impl Kernel for Embedding {
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(packed, part, images);
    }

    fn packed_len(&self) -> usize {
        self.packed_len()
    }

    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        self.pack(weights.floats[0], packed)
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(vec![self.rows()])
    }
}
