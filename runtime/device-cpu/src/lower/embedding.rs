//! Rows of a table.

use punctual_kernels::{Embedding, Kernel, KernelError};

use super::{Layouts, Lower};

impl Lower for punctual_model::Embedding {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let rows = of.weights[0] as usize / of.output.channels();
        let embedding = Embedding::new(of.isa, of.blocked(), of.output, rows)?;
        Ok(Box::new(embedding))
    }
}
