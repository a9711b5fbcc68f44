//! Pixels as a sequence of tokens.

use punctual_kernels::{Kernel, KernelError, Tokens};

use super::{Layouts, Lower};

impl Lower for punctual_model::Tokens {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let prefix = self.prefix as usize;
        Ok(Box::new(Tokens::new(
            of.isa,
            of.blocked(),
            of.output,
            prefix,
        )?))
    }
}
