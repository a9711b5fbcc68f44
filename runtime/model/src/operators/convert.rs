//! Values kept in another way.

use punctual_types::Activation;
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands, Site};
use crate::reference::Operation;
use crate::reference::noise::{Form, Rounding};
use crate::reference::quantised::{ratio, round};
use crate::{OperatorError, ShapeError, Tensor};

/// The same values, kept as the output is: floats as bytes, bytes as floats, or bytes as bytes of another quantisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convert;

impl Meaning for Convert {
    fn label(&self, _input: Tensor) -> String {
        "convert".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others().map(|()| of.input)
    }

    fn check(&self, site: Site<'_>) -> Result<(), OperatorError> {
        match site.has_floats() {
            Ok(()) => Err(OperatorError::Elements),
            Err(_) => Ok(()),
        }
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let from = of.quantisation(of.operator.input);
        let to = of.quantisation(of.operator.output);
        let convert = |&value: &f32| {
            let steps = from.map_or(value, |from| value - f32::from(from.zero));
            match (from, to) {
                (None, None) => value,
                (None, Some(to)) => round(value / to.scale, to, Activation::None),
                (Some(from), None) => steps * from.scale,
                (Some(from), Some(to)) => {
                    round(steps * ratio(from.scale, to), to, Activation::None)
                }
            }
        };
        of.input().data.iter().map(convert).collect()
    }

    fn rounding(&self, _of: &Operation<'_>, _result: &[f32]) -> Rounding {
        Rounding::once(Form::Plain, 0.0)
    }
}
