//! Functions of each value.

use punctual_cuda_kernels::params::Operand;
use punctual_model::{Operator, Unary};
use punctual_types::Activation;

use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};

impl Pack for Unary {}

impl Lower for Unary {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let nothing = Operand::default();
        launches.elementwise(of, operator, self.function, nothing, Activation::None);
        Ok(())
    }
}
