//! Products of two tensors' matrices.

use punctual_cuda_kernels::Kernel;
use punctual_cuda_kernels::params::Product;
use punctual_model::{self as model, Operator};

use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{HALF, Launch, Span, Traffic};
use super::work::Work;

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

    fn work(&self, _kernel: &Kernel, plain: Work) -> Work {
        let depth = f64::from(self.first.channels);
        let plain = Work {
            rounds: (depth / 32.0).ceil(),
            rounds_a_look: 1.0,
            loaded_bytes: 96.0 * depth * 2.0,
            shared_bytes: depth * 128.0 * 32.0,
            ..plain
        };
        plain.summed(16.0 * depth, 1.6)
    }
}
