//! Products of two tensors' matrices.

use punctual_cuda_kernels::params::Product;
use punctual_model::{self as model, Operator};

use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{HALF, Launch, Span, Traffic};

impl Pack for model::Product {}

impl Lower for model::Product {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        launches.check_rows(operator, launches.shape(operator.input).height)?;
        let product = Product {
            first: launches.read(operator.input),
            second: launches.read(operator.others[0]),
            output: launches.write(operator.output).address,
            images: u32::from(launches.batch),
            gap: 0,
        };
        launches.push(of, "product_of_rows", product);
        Ok(())
    }
}

impl Launch for Product {
    fn traffic(&self) -> Traffic {
        let (first, second) = (&self.first, &self.second);
        let pixels = u64::from(self.images * first.height * first.width);
        let output = pixels * u64::from(second.pitch) * HALF;
        Traffic::new(
            [
                Span::tensor(Read(0), first, self.images),
                Span::tensor(Read(1), second, self.images),
            ],
            [Span::at(Made, self.output, output)],
        )
    }
}
