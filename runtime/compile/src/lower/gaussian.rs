//! GELU as exporters write it: `x * (1 + erf(x / sqrt 2)) / 2`, its factors in any order.

use punctual_types::{Activation, UnaryFunction};

use super::view_algebra::View;
use super::{Lowering, Value};
use crate::draft::DraftKind;
use crate::graph::{Attributes, Node};
use crate::problem::Problem;

/// `factor * erf(x / sqrt 2)`, to which one may have been added before, and `x` multiplied since.
#[derive(Clone, Debug)]
pub(crate) struct Gaussian {
    x: View,
    factor: f32,
    plus_one: bool,
    times_x: bool,
}

impl Lowering<'_> {
    pub(super) fn erf(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        let view = self.view(node, 0)?.clone();
        let mut operators = self.draft.operators.iter().rev();
        let writer = operators.find(|operator| operator.output == view.tensor);
        let root = |scale: &f32| (scale * std::f32::consts::SQRT_2 - 1.0).abs() < 1e-6;
        let x = writer.and_then(|writer| match &writer.kind {
            DraftKind::Affine { scale, shift }
                if scale.iter().all(root) && shift.iter().all(|shift| *shift == 0.0) =>
            {
                Some(writer.input)
            }
            _ => None,
        });
        let Some(x) = x else {
            return self.unary(node, UnaryFunction::ErrorFunction);
        };
        let gaussian = Gaussian {
            x: view.of(x),
            factor: 1.0,
            plus_one: false,
            times_x: false,
        };
        self.set(node, Value::Gaussian(gaussian))
    }

    /// A step towards a GELU, if the node is one.
    pub(super) fn towards_gelu(&mut self, node: &Node) -> Result<bool, Problem> {
        let gaussian = |at| match self.operand(node, at) {
            Some(Value::Gaussian(gaussian)) => Some(gaussian.clone()),
            _ => None,
        };
        let (other, Some(mut gaussian)) = (match gaussian(0) {
            Some(gaussian) => (1, Some(gaussian)),
            None => (0, gaussian(1)),
        }) else {
            return Ok(false);
        };
        let is_x =
            matches!(self.operand(node, other), Some(Value::View(view)) if *view == gaussian.x);
        match (node.operator.as_str(), self.scalar(node, other)) {
            ("Add", Some(1.0)) if gaussian.factor == 1.0 && !gaussian.times_x => {
                gaussian.plus_one = true;
            }
            ("Mul", Some(factor)) if gaussian.plus_one => gaussian.factor *= factor,
            ("Mul", None) if is_x && gaussian.plus_one && !gaussian.times_x => {
                gaussian.times_x = true;
            }
            _ => return Ok(false),
        }
        if gaussian.times_x && gaussian.factor == 0.5 {
            let x = gaussian.x;
            self.activate_view(node, &x, Activation::Gelu)?;
        } else {
            self.set(node, Value::Gaussian(gaussian))?;
        }
        Ok(true)
    }
}
