//! Arithmetic on a few constant floats: exporters compute the factor of an attention from a shape.

use std::rc::Rc;

use super::{Lowering, Value};
use crate::fold::{Dim, ELEMENTS_MAX};
use crate::graph::{Attribute, Constant, Data, Node};

/// The ONNX element type of floats.
const FLOAT: i64 = 1;

impl Lowering<'_> {
    /// The result of a node that computes with constant floats only.
    pub(super) fn numbers(&self, node: &Node) -> Option<Value> {
        let operand = |at| self.number(node, at);
        let result = match node.operator.as_str() {
            "Cast" if node.attributes.get("to") == Some(&Attribute::Int(FLOAT)) => operand(0)?,
            "Sqrt" => operand(0)?.map(f32::sqrt),
            "Mul" => operand(0)?.with(&operand(1)?, |a, b| a * b)?,
            "Div" => operand(0)?.with(&operand(1)?, |a, b| a / b)?,
            _ => return None,
        };
        Some(Value::Constant(Rc::new(Constant {
            dims: result.dims,
            data: Data::Floats(result.values),
        })))
    }

    /// A few constant floats, or a shape known when compiling as floats where it is cast to them.
    fn number(&self, node: &Node, at: usize) -> Option<Numbers> {
        let (dims, values) = match self.operand(node, at)? {
            Value::Constant(constant) => match &constant.data {
                Data::Floats(values) => (constant.dims.clone(), values.clone()),
                _ => return None,
            },
            Value::Dims(shape) if node.operator == "Cast" => {
                let known = |dim: &Dim| match *dim {
                    Dim::Known(value) => Some(value as f32),
                    Dim::Batches(_) => None,
                };
                let values: Vec<f32> = shape.elements.iter().map(known).collect::<Option<_>>()?;
                let dims = if shape.scalar {
                    vec![]
                } else {
                    vec![values.len()]
                };
                (dims, values)
            }
            _ => return None,
        };
        (values.len() <= ELEMENTS_MAX).then_some(Numbers { dims, values })
    }
}

struct Numbers {
    dims: Vec<usize>,
    values: Vec<f32>,
}

impl Numbers {
    fn map(mut self, function: impl Fn(f32) -> f32) -> Self {
        self.values
            .iter_mut()
            .for_each(|value| *value = function(*value));
        self
    }

    /// Equal shapes, or one value with each of the other's.
    fn with(self, other: &Self, function: impl Fn(f32, f32) -> f32) -> Option<Self> {
        let pairs = |values: &[f32]| -> Vec<f32> {
            let others = other.values.iter().cycle();
            values
                .iter()
                .zip(others)
                .map(|(&a, &b)| function(a, b))
                .collect()
        };
        if self.dims == other.dims
            || (other.values.len() == 1 && other.dims.len() <= self.dims.len())
        {
            let values = pairs(&self.values);
            return Some(Self { values, ..self });
        }
        let [value] = self.values[..] else {
            return None;
        };
        (self.dims.len() <= other.dims.len()).then(|| Self {
            values: pairs(&vec![value; other.values.len()]),
            dims: other.dims.clone(),
        })
    }
}
