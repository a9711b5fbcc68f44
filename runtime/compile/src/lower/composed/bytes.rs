//! Operators that read and write bytes, each with its scales: made floats, computed with, and made bytes again, as files
//! have it that quantise and dequantise around each operator.

use std::rc::Rc;

use super::Row;
use crate::graph::{Attribute, Constant, Node, ValueId};
use crate::integer::Dim;
use crate::lower::lowering::Lowering;
use crate::lower::numbers::Numbers;
use crate::lower::value::Value;
use crate::lower::view_algebra::View;
use crate::lower::views::position;
use crate::lower::vocabulary::{OnnxOperator, family};
use crate::problem::Problem;
use crate::schema::data_type;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "QLinearConv" => compose conv_on_bytes(),
    "QLinearMatMul" => compose on_bytes(OnBytes { operator: "MatMul", operands: 2 }),
};

pub(super) const OPERATORS_OF_MICROSOFT: &[OnnxOperator] = family! {
    "DequantizeLinear" => compose as_standard(),
    "QGemm" => compose gemm_on_bytes(),
    "QLinearAdd" => compose on_bytes(OnBytes { operator: "Add", operands: 2 }),
    "QLinearAveragePool" => compose on_bytes(OnBytes { operator: "AveragePool", operands: 1 }),
    "QLinearConcat" => compose concat_on_bytes(),
    "QLinearGlobalAveragePool" => compose on_bytes(OnBytes { operator: "GlobalAveragePool", operands: 1 }),
    "QLinearLeakyRelu" => compose on_bytes(OnBytes { operator: "LeakyRelu", operands: 1 }),
    "QLinearMul" => compose on_bytes(OnBytes { operator: "Mul", operands: 2 }),
    "QLinearSigmoid" => compose on_bytes(OnBytes { operator: "Sigmoid", operands: 1 }),
    "QLinearSoftmax" => compose on_bytes(OnBytes { operator: "Softmax", operands: 1 }),
    "QuantizeLinear" => compose as_standard(),
};

/// A value, its scale and its zero point.
const PARTS: usize = 3;

/// An operator on floats, and how many operands it has.
#[derive(Clone, Copy)]
struct OnBytes {
    operator: &'static str,
    operands: usize,
}

/// What values are quantised by.
#[derive(Debug, PartialEq)]
struct Scaling {
    scale: Option<Rc<Constant>>,
    zero: Option<Rc<Constant>>,
    axis: i64,
}

/// What integers stand for that no tensor of bytes can hold.
#[derive(Debug)]
pub(in crate::lower) struct Rounded {
    whole: View,
    scaling: Scaling,
    floats: ValueId,
}

impl Lowering<'_> {
    /// An operator that has the same meaning in the standard domain.
    fn as_standard(&mut self, node: &Node) -> Result<(), Problem> {
        self.node(&Node {
            operator: node.operator.clone(),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            attributes: node.attributes.clone(),
            ..Node::of_exit(&node.name)
        })
    }

    fn on_bytes(&mut self, node: &Node, on: OnBytes) -> Result<(), Problem> {
        let mut row = self.row(node, on.operands * PARTS + 2, 1)?;
        let mut operands = Vec::with_capacity(on.operands);
        for position in 0..on.operands {
            // A matrix may have a scale for each column.
            operands.push(row.floats(position * PARTS, -1)?);
        }
        let result = row.computed(on.operator, operands)?;
        row.give_bytes(result, on.operands * PARTS)
    }

    fn concat_on_bytes(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, node.inputs.len(), 1)?;
        let places = (2..node.inputs.len()).step_by(PARTS);
        let operands = places.map(|position| row.floats(position, -1));
        let operands = operands.collect::<Result<_, _>>()?;
        let result = row.computed("Concat", operands)?;
        row.give_bytes(result, 0)
    }

    fn conv_on_bytes(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 9, 1)?;
        let mut operands = vec![row.floats(0, 1)?, row.floats(PARTS, 0)?];
        operands.extend(row.bias(8, 1.0)?);
        let result = row.computed("Conv", operands)?;
        row.give_bytes(result, 2 * PARTS)
    }

    fn gemm_on_bytes(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 9, 1)?;
        let mut attributes = row.attributes();
        let alpha = attributes.float("alpha", 1.0)?;
        let is_transposed = attributes.int("transB", 0)? != 0;
        let columns = if is_transposed { 0 } else { 1 };
        let mut operands = vec![row.floats(0, 1)?, row.floats(PARTS, columns)?];
        operands.extend(row.bias(2 * PARTS, alpha)?);
        let result = row.computed("Gemm", operands)?;
        if row.optional(7).is_some() {
            return row.give_bytes(result, 7);
        }
        row.give(0, result);
        Ok(())
    }
}

impl Lowering<'_> {
    /// Integers that no tensor of bytes can hold, as floats: of 16 bits, or with a scale for each channel. What they stand
    /// for is computed without them, as halves do not hold all integers of 16 bits.
    pub(in crate::lower) fn quantise_in_floats(
        &mut self,
        node: &Node,
        axis: i64,
        range: [f32; 2],
    ) -> Result<(), Problem> {
        let mut row = self.row(node, 3, 1)?;
        let data = row.operand(0, "data")?;
        let scale = row.along(1, axis)?;
        let steps = row.of("Div", &[data, scale])?;
        let steps = row.of("Round", &[steps])?;
        let range = range.map(|bound| row.number(bound));
        let (mut whole, mut bounds) = (steps, range);
        if row.optional(2).is_some() {
            let zero = row.along(2, axis)?;
            whole = row.of("Add", &[steps, zero])?;
            for bound in &mut bounds {
                *bound = row.of("Sub", &[*bound, zero])?;
            }
        }
        let whole = row.between(whole, range)?;
        for bound in &mut bounds {
            *bound = row.of("Mul", &[*bound, scale])?;
        }
        let floats = row.of("Mul", &[steps, scale])?;
        let floats = row.between(floats, bounds)?;
        row.lowering.numbers[whole.0] = Numbers::Integers;
        row.give(0, whole);
        if let Value::View(whole) = self.value(whole).clone() {
            let scaling = self.scaling(node, axis);
            let rounded = Rounded {
                scaling,
                floats,
                whole: whole.clone(),
            };
            self.rounded.insert(whole.tensor, rounded);
        }
        Ok(())
    }

    /// The constants that a node quantises with, and where they lie.
    fn scaling(&self, node: &Node, axis: i64) -> Scaling {
        let constant = |at| match self.operand(node, at) {
            Some(Value::Constant(constant)) => Some(Rc::clone(constant)),
            _ => None,
        };
        Scaling {
            scale: constant(1),
            zero: constant(2),
            axis,
        }
    }

    /// Such integers to floats.
    pub(in crate::lower) fn dequantise_in_floats(
        &mut self,
        node: &Node,
        axis: i64,
    ) -> Result<(), Problem> {
        let scaling = self.scaling(node, axis);
        let mut row = self.row(node, 3, 1)?;
        let data = row.operand(0, "data")?;
        if let Value::View(view) = row.lowering.value(data)
            && let Some(rounded) = row.lowering.rounded.get(&view.tensor)
            && (&rounded.whole, &rounded.scaling) == (view, &scaling)
        {
            let floats = rounded.floats;
            row.give(0, floats);
            return Ok(());
        }
        let value = row.lowering.value(data).clone();
        let mut result = row.lowering.temporary(value);
        if row.optional(2).is_some() {
            let zero = row.along(2, axis)?;
            result = row.of("Sub", &[result, zero])?;
        }
        let scale = row.along(1, axis)?;
        let result = row.of("Mul", &[result, scale])?;
        row.give(0, result);
        Ok(())
    }
}

impl Row<'_, '_, '_> {
    fn between(&mut self, value: ValueId, [least, most]: [ValueId; 2]) -> Result<ValueId, Problem> {
        let value = self.of("Max", &[value, least])?;
        self.of("Min", &[value, most])
    }

    /// Scales or zero points as floats that lie along an axis of the data.
    fn along(&mut self, at: usize, axis: i64) -> Result<ValueId, Problem> {
        let rank = self.sizes(0, "data")?.len();
        let list = self.operand(at, "scale or zero point")?;
        let to = Attribute::Int(data_type::FLOAT.into());
        let list = self.with("Cast", &[list], [("to", to)])?;
        match self.sizes(at, "scale or zero point")?[..] {
            [] => Ok(list),
            [Dim::Known(1)] => self.reshape(list, []),
            [Dim::Known(count)] => {
                let behind = rank - position("axis", axis, rank)? - 1;
                self.reshape(list, [vec![count], vec![1; behind]].concat())
            }
            _ => Err(self.wrong(at, "scale or zero point", "one, or a list along the axis")),
        }
    }

    /// The floats that an operand's bytes stand for; its scale and its zero point come behind it.
    fn floats(&mut self, position: usize, axis: i64) -> Result<ValueId, Problem> {
        let mut parts = vec![
            self.operand(position, "bytes")?,
            self.operand(position + 1, "scale")?,
        ];
        parts.extend(self.optional(position + 2));
        self.with("DequantizeLinear", &parts, [("axis", Attribute::Int(axis))])
    }

    /// A bias of integers, whose scale is the product of those of the first two operands.
    fn bias(&mut self, position: usize, alpha: f32) -> Result<Option<ValueId>, Problem> {
        let Some(bias) = self.optional(position) else {
            return Ok(None);
        };
        let scales = [self.operand(1, "scale")?, self.operand(PARTS + 1, "scale")?];
        let scale = self.of("Mul", &scales)?;
        let scale = self.times(scale, alpha)?;
        let axis = [("axis", Attribute::Int(0))];
        self.with("DequantizeLinear", &[bias, scale], axis)
            .map(Some)
    }

    /// The operator on floats with the node's attributes.
    fn computed(&mut self, operator: &str, operands: Vec<ValueId>) -> Result<ValueId, Problem> {
        let mut attributes = self.node.attributes.clone();
        if attributes.get("channels_last") == Some(&Attribute::Int(0)) {
            attributes.remove("channels_last");
        }
        let plain = Node::of_exit(&self.node.name);
        let opset = match attributes.remove("opset") {
            Some(Attribute::Int(opset)) => opset,
            _ => plain.opset,
        };
        if operator == "Softmax" {
            // In every version, as onnxruntime's schema says.
            let axis = attributes.entry("axis".to_owned());
            axis.or_insert(Attribute::Int(-1));
        }
        let result = self.lowering.temporary(Value::Nothing);
        self.lower(Node {
            operator: operator.to_owned(),
            opset,
            inputs: operands.into_iter().map(Some).collect(),
            outputs: vec![Some(result)],
            attributes,
            ..plain
        })?;
        Ok(result)
    }

    /// Makes the bytes of a result the node's; their scale and zero point are at this position.
    fn give_bytes(&mut self, result: ValueId, scale: usize) -> Result<(), Problem> {
        let mut parts = vec![result, self.operand(scale, "scale of the result")?];
        parts.extend(self.optional(scale + 1));
        let bytes = self.of("QuantizeLinear", &parts)?;
        self.give(0, bytes);
        Ok(())
    }
}
