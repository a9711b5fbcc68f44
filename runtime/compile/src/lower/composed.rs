//! Operators that are others in a row: those that onnxruntime and newer versions of ONNX have for a whole pattern, and
//! operators on bytes. What the row computes is found again by the lowering of its nodes.

mod attention;
mod bytes;
mod dynamic;
mod fused;
mod kernels;
mod linear;
mod quantised_lstm;
mod rotary;
mod scattered;
mod series;

use std::rc::Rc;

pub(super) use bytes::Rounded;

use super::lowering::Lowering;
use super::value::Value;
use super::vocabulary::OnnxOperator;
use crate::graph::{Attribute, Attributes, Constant, Data, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;

/// Those of the standard domain.
pub(super) const OPERATORS: &[&[OnnxOperator]] = &[
    attention::OPERATORS,
    bytes::OPERATORS,
    dynamic::OPERATORS,
    fused::OPERATORS,
    linear::OPERATORS,
    rotary::OPERATORS,
    series::OPERATORS,
];

/// The domain of onnxruntime's own operators.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// Those of onnxruntime's domain.
pub(super) const OPERATORS_OF_MICROSOFT: &[&[OnnxOperator]] = &[
    attention::OPERATORS_OF_MICROSOFT,
    bytes::OPERATORS_OF_MICROSOFT,
    dynamic::OPERATORS_OF_MICROSOFT,
    fused::OPERATORS_OF_MICROSOFT,
    quantised_lstm::OPERATORS_OF_MICROSOFT,
    rotary::OPERATORS_OF_MICROSOFT,
];

/// A row of nodes in the place of one.
pub(super) struct Row<'l, 'a, 'n> {
    lowering: &'l mut Lowering<'a>,
    node: &'n Node,
}

impl<'a> Lowering<'a> {
    /// A row that is a part of what a node does.
    pub(super) fn nodes_of<'l, 'n>(&'l mut self, node: &'n Node) -> Row<'l, 'a, 'n> {
        let lowering = self;
        Row { lowering, node }
    }

    /// A row in the place of a node that has at most this number of operands and of results.
    fn row<'l, 'n>(
        &'l mut self,
        node: &'n Node,
        inputs: usize,
        outputs: usize,
    ) -> Result<Row<'l, 'a, 'n>, Problem> {
        self.limit(node, inputs, outputs)?;
        Ok(self.nodes_of(node))
    }
}

impl<'n> Row<'_, '_, 'n> {
    fn attributes(&self) -> Attributes<'n> {
        Attributes::of(self.node)
    }

    /// An operand of the node that is there.
    fn operand(&self, position: usize, what: &'static str) -> Result<ValueId, Problem> {
        self.optional(position)
            .ok_or(Problem::MissingInput { position, what })
    }

    fn optional(&self, position: usize) -> Option<ValueId> {
        self.node.inputs.get(position).copied().flatten()
    }

    fn sizes(&self, position: usize, what: &'static str) -> Result<Vec<Dim>, Problem> {
        let value = self.lowering.required(self.node, position, what)?;
        value.sizes().ok_or_else(|| {
            let expected = "a tensor of known dimensions";
            self.lowering.wrong(position, what, value, expected)
        })
    }

    fn wrong(&self, position: usize, what: &'static str, expected: &'static str) -> Problem {
        match self.lowering.required(self.node, position, what) {
            Ok(found) => self.lowering.wrong(position, what, found, expected),
            Err(problem) => problem,
        }
    }

    /// Refuses an operand that would change the result.
    fn without(&self, position: usize, what: &'static str) -> Result<(), Problem> {
        match self.optional(position) {
            None => Ok(()),
            Some(_) => Err(self.wrong(position, what, "none")),
        }
    }

    pub(super) fn constant(&mut self, dims: Vec<usize>, data: Data) -> ValueId {
        let constant = Constant::new(dims, data);
        self.lowering.temporary(Value::Constant(Rc::new(constant)))
    }

    pub(super) fn number(&mut self, value: f32) -> ValueId {
        self.constant(vec![], Data::Floats(vec![value]))
    }

    pub(super) fn integers(&mut self, values: impl Into<Vec<i64>>) -> ValueId {
        let values = values.into();
        self.constant(vec![values.len()], Data::Ints(values))
    }

    /// The first result of a node without attributes.
    pub(super) fn of(&mut self, operator: &str, inputs: &[ValueId]) -> Result<ValueId, Problem> {
        self.with(operator, inputs, [])
    }

    /// The first result of a node.
    pub(super) fn with<'k>(
        &mut self,
        operator: &str,
        inputs: &[ValueId],
        attributes: impl IntoIterator<Item = (&'k str, Attribute)>,
    ) -> Result<ValueId, Problem> {
        let attributes = attributes.into_iter();
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value));
        let other = Node {
            attributes: attributes.collect(),
            ..self.node.standing_in(operator)
        };
        self.of_node(other, inputs.iter().copied().map(Some))
    }

    /// The first result of a node with other operands.
    pub(super) fn of_node(
        &mut self,
        node: Node,
        inputs: impl IntoIterator<Item = Option<ValueId>>,
    ) -> Result<ValueId, Problem> {
        let result = self.lowering.temporary(Value::Nothing);
        self.lower(Node {
            inputs: inputs.into_iter().collect(),
            outputs: vec![Some(result)],
            ..node
        })?;
        Ok(result)
    }

    /// Lowers one node of the row.
    fn lower(&mut self, node: Node) -> Result<(), Problem> {
        self.lowering
            .node(&node)
            .map_err(|problem| Problem::Within {
                operator: node.operator,
                problem: Box::new(problem),
            })
    }

    /// A product with a number, which is left out where it is one.
    fn times(&mut self, value: ValueId, factor: f32) -> Result<ValueId, Problem> {
        if factor == 1.0 {
            return Ok(value);
        }
        let factor = self.number(factor);
        self.of("Mul", &[value, factor])
    }

    fn reshape(&mut self, value: ValueId, to: impl Into<Vec<i64>>) -> Result<ValueId, Problem> {
        let to = self.integers(to);
        self.of("Reshape", &[value, to])
    }

    fn unsqueeze(&mut self, value: ValueId, axis: i64) -> Result<ValueId, Problem> {
        let axes = self.integers([axis]);
        self.of("Unsqueeze", &[value, axes])
    }

    fn transpose(&mut self, value: ValueId, order: &[i64]) -> Result<ValueId, Problem> {
        let order = Attribute::Ints(order.to_vec());
        self.with("Transpose", &[value], [("perm", order)])
    }

    fn concat(&mut self, values: &[ValueId], axis: i64) -> Result<ValueId, Problem> {
        self.with("Concat", values, [("axis", Attribute::Int(axis))])
    }

    /// Every `step`th position of a dimension from `start` to before `end`.
    fn slice(&mut self, value: ValueId, axis: i64, range: [i64; 3]) -> Result<ValueId, Problem> {
        let [start, end, step] = range;
        let lists = [start, end, axis, step].map(|number| self.integers([number]));
        let [starts, ends, axes, steps] = lists;
        self.of("Slice", &[value, starts, ends, axes, steps])
    }

    /// Makes a value the node's result at that position, if that is asked for.
    pub(super) fn give(&mut self, position: usize, value: ValueId) {
        if let Some(Some(result)) = self.node.outputs.get(position) {
            self.lowering.hand_on(value, *result);
        }
    }
}
