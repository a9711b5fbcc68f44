//! Functions of each value.

use punctual_types::UnaryFunction;
use serde::{Deserialize, Serialize};

use super::meaning::{Meaning, Operands};
use crate::reference::Operation;
use crate::reference::noise::{Form, Rounding, typical};
use crate::{ShapeError, Tensor};

/// A function of each value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unary {
    pub function: UnaryFunction,
}

impl Unary {
    /// Whether an engine may compute it in another way.
    const fn is_curve(self) -> bool {
        !matches!(
            self.function,
            UnaryFunction::Absolute
                | UnaryFunction::Sign
                | UnaryFunction::Floor
                | UnaryFunction::Ceiling
                | UnaryFunction::Round
                | UnaryFunction::Truncate
        )
    }
}

impl Meaning for Unary {
    fn label(&self, _input: Tensor) -> String {
        "function of each value".to_owned()
    }

    fn shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        of.no_others().map(|()| of.input)
    }

    fn run(&self, of: &Operation<'_>) -> Vec<f32> {
        let values = of.input().data.iter();
        values.map(|value| self.function.of(*value)).collect()
    }

    fn rounding(&self, _of: &Operation<'_>, result: &[f32]) -> Rounding {
        let own = typical(result);
        if self.is_curve() {
            Rounding::once(Form::Curve, own.max(1.0))
        } else {
            Rounding::once(Form::Plain, own)
        }
    }
}
