//! Factors that wait: those of heads for the product that they go to, those of integers for the scale that follows.

use punctual_types::BinaryFunction;

use super::arithmetic::Operand;
use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, Factor, View};
use crate::graph::{Attribute, Data, Floats, Node};
use crate::problem::Problem;
use crate::schema::data_type;

impl Lowering<'_> {
    /// A factor of a tensor's heads, which waits for the product that they go to.
    pub(super) fn scale_heads(&self, node: &Node) -> Option<Value> {
        let (view, factor) = match (self.operand(node, 0)?, self.operand(node, 1)?) {
            (Value::View(view), _) => (view, self.scalar(node, 1)?),
            (_, Value::View(view)) => (view, self.scalar(node, 0)?),
            _ => return None,
        };
        let shape = self.shape(view.tensor);
        let channels = |dim: &Vec<Factor>| dim.iter().any(|digit| digit.axis == Axis::Channel);
        let split = view.dims.iter().filter(|dim| channels(dim)).count() > 1;
        let is_shuffle = view.channel_runs(shape).is_some();
        (split && !is_shuffle).then(|| Value::Scaled(view.clone(), factor))
    }

    /// Multiplies what waits for its factor where something else than a product reads it.
    pub(super) fn compute_scaled(&mut self, node: &Node) -> Result<(), Problem> {
        if self.is_product(node) {
            return Ok(());
        }
        for id in node.inputs.iter().copied().flatten() {
            if let Value::Scaled(view, factor) = self.value(id) {
                let (view, factor) = (view.clone(), *factor);
                let scaled = self.scaled(node, &view, factor)?;
                self.values[id.0] = Value::View(scaled);
            }
        }
        Ok(())
    }

    /// Handles a cast, which a factor passes, and a product in which it meets another factor; returns whether it did.
    pub(super) fn on_factor(&mut self, node: &Node) -> Result<bool, Problem> {
        let operands = [0, 1].map(|at| self.operand(node, at).cloned());
        let result = match (node.operator.as_str(), operands) {
            ("Cast", [Some(waiting @ Value::Scaled(..)), None]) if is_of_floats(node) => {
                Some(waiting)
            }
            ("Mul", [Some(first), Some(second)]) => match self.met(node, &first, &second)? {
                None => self.met(node, &second, &first)?,
                met => met,
            },
            _ => None,
        };
        match result {
            None => Ok(false),
            Some(result) => self.set(node, result).map(|()| true),
        }
    }

    /// What waits for a factor, multiplied by one that is known or a number of the image: that takes the waiting one.
    fn met(
        &mut self,
        node: &Node,
        waiting: &Value,
        other: &Value,
    ) -> Result<Option<Value>, Problem> {
        let Value::Scaled(view, factor) = waiting else {
            return Ok(None);
        };
        let of_image = |view: &View| !view.has_one_batch();
        let (other, left) = match other {
            Value::Constant(constant) => {
                let Data::Floats(values) = &constant.data else {
                    return Ok(None);
                };
                let (taken, left) = if of_image(view) {
                    (1.0, Some(*factor))
                } else {
                    (*factor, None)
                };
                let data = values.iter().map(|value| value * taken).collect();
                let dims = constant.dims.clone();
                (Operand::Constant(Floats { dims, data }), left)
            }
            Value::View(number) if of_image(number) => {
                (Operand::Tensor(self.scaled(node, number, *factor)?), None)
            }
            Value::Scaled(number, own) if of_image(number) => {
                let number = self.scaled(node, number, factor * own)?;
                (Operand::Tensor(number), None)
            }
            _ => return Ok(None),
        };
        let operands = [Operand::Tensor(view.clone()), other];
        let product = self.combined(node, BinaryFunction::Multiply, operands)?;
        Ok(Some(match left {
            None => Value::View(product),
            Some(factor) => Value::Scaled(product, factor),
        }))
    }
}

fn is_of_floats(cast: &Node) -> bool {
    match cast.attributes.get("to") {
        Some(Attribute::Int(to)) => data_type::FLOATS.map(i64::from).contains(to),
        _ => false,
    }
}
