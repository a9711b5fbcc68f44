//! Values kept in another way.

use punctual_cuda_kernels::params::{Convert, Rounding};
use punctual_model::{self as model, Operator, TensorId};
use punctual_types::{Activation, Quantisation};

use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Span, Traffic};

/// The value of a step of `from` in steps of `to`.
pub(super) fn ratio(from: Quantisation, to: Quantisation) -> f32 {
    (f64::from(from.scale) / f64::from(to.scale)) as f32
}

impl Pack for model::Convert {}

impl Lower for model::Convert {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let from = launches.quantisation(operator.input);
        let to = launches.quantisation(operator.output);
        let convert = Convert {
            input: launches.read(operator.input),
            output: launches.write(operator.output),
            images: u32::from(launches.batch),
            from: launches.kept(operator.input) as u32,
            to: launches.kept(operator.output) as u32,
            zero: from.map_or(0, |from| from.zero.into()),
            factor: match (from, to) {
                (Some(from), Some(to)) => ratio(from, to),
                (Some(one), None) | (None, Some(one)) => one.scale,
                (None, None) => 1.0,
            },
            gap: 0,
            rounding: to.map_or(Rounding::default(), |to| Rounding::of(to, Activation::None)),
        };
        launches.push(of, "convert", convert);
        Ok(())
    }
}

impl Launches<'_> {
    pub(super) fn quantisation(&self, tensor: TensorId) -> Option<Quantisation> {
        self.lowering.network.quantisation(tensor)
    }

    /// The quantisation of a tensor, which valid operators on bytes have.
    pub(super) fn bytes(&self, tensor: TensorId) -> Quantisation {
        let of = self.quantisation(tensor);
        of.expect("a valid operator on bytes reads and writes bytes")
    }
}

impl Launch for Convert {
    fn traffic(&self) -> Traffic {
        Traffic::new(
            [Span::kept(Read(0), &self.input, self.images, self.from)],
            [Span::kept(Made, &self.output, self.images, self.to)],
        )
    }
}
