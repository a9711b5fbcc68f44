//! Bytes of ranges that are measured when running, and products of integers, as onnxruntime's dynamic quantisation
//! writes them.
//!
//! A range is that of all values of a tensor. In a larger batch onnxruntime takes it over all images; here each image has
//! its own, so that no answer depends on its neighbours.

use punctual_types::{BinaryFunction, UnaryFunction};

use super::Row;
use crate::graph::{Attribute, Attributes, Node, ValueId};
use crate::integer::Dim;
use crate::lower::arithmetic::Operand;
use crate::lower::lowering::Lowering;
use crate::lower::numbers::Numbers;
use crate::lower::value::Value;
use crate::lower::view_algebra::View;
use crate::lower::vocabulary::{OnnxOperator, family};
use crate::problem::Problem;
use crate::report::Note;
use crate::schema::data_type;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "ConvInteger" => compose conv_integer(),
    "DynamicQuantizeLinear" => lower dynamic_quantize_linear(),
    "MatMulInteger" => compose mat_mul_integer(),
};

pub(super) const OPERATORS_OF_MICROSOFT: &[OnnxOperator] = family! {
    "DynamicQuantizeMatMul" => compose dynamic_quantize_mat_mul(),
    "MatMulIntegerToFloat" => compose mat_mul_integer_to_float(),
};

/// The largest unsigned byte.
const MOST: f32 = 255.0;

/// What one factor of a sum of bytes is divided by, so that halves hold the sum. As a power of two it loses nothing.
const SHARES: f32 = 16384.0;

/// What a scale is multiplied by while it waits to be joined with another one, which halves alone would not hold.
const SCALES: f32 = 256.0;

/// How a list lies: a number for each row of the first matrix, for each column of the second, or for each output of a
/// convolution.
const COLUMN: [i64; 2] = [-1, 1];
const ROW: [i64; 1] = [-1];
const CHANNELS: [i64; 4] = [-1, 1, 1, 1];

impl Lowering<'_> {
    /// Bytes, the scale and the zero point of the range that an image's values have.
    fn dynamic_quantize_linear(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 3)?;
        Attributes::of(node).finish()?;
        if self.fixed != Some(1) && !self.notes.contains(&Note::OwnRanges) {
            self.notes.push(Note::OwnRanges);
        }
        let data = self.elementwise(node, 0)?;
        let [below, above] = [-1.0, 1.0].map(|sign| self.reach(node, &data, sign));
        let (below, above) = (below?, above?);
        let range = self.of_views(node, BinaryFunction::Add, [&above, &below])?;
        // Divided, as a product with the reciprocal may miss the scale by a last bit, and values by a step.
        let scale = self.with_number(node, BinaryFunction::Divide, &range, MOST, false)?;
        // Where all is zero any scale will do; onnxruntime's is one.
        let is_nothing = self.with_number(node, BinaryFunction::Equal, &scale, 0.0, false)?;
        let scale = self.of_views(node, BinaryFunction::Add, [&scale, &is_nothing])?;
        let zero = self.of_views(node, BinaryFunction::Divide, [&below, &scale])?;
        let zero = self.with_number(node, BinaryFunction::Minimum, &zero, MOST, false)?;
        let zero = self.unary_of(node, &zero, UnaryFunction::Round)?;
        let steps = self.of_views(node, BinaryFunction::Divide, [&data, &scale])?;
        let steps = self.unary_of(node, &steps, UnaryFunction::Round)?;
        let bytes = self.of_views(node, BinaryFunction::Add, [&steps, &zero])?;
        let bytes = self.with_number(node, BinaryFunction::Maximum, &bytes, 0.0, false)?;
        let bytes = self.with_number(node, BinaryFunction::Minimum, &bytes, MOST, false)?;
        let scale = Value::Scaled(self.scaled(node, &scale, SCALES)?, 1.0 / SCALES);
        let (whole, real) = (Numbers::Integers, Numbers::Floats);
        let [bytes, zero] = [bytes, zero].map(Value::View);
        let results = [(bytes, whole), (scale, real), (zero, whole)];
        for (output, (value, numbers)) in node.outputs.iter().zip(results) {
            if let Some(output) = output {
                self.values[output.0] = value;
                self.numbers[output.0] = numbers;
            }
        }
        Ok(())
    }

    /// How far the values of an image go from zero to one side: a number of each image, in no dimension.
    fn reach(&mut self, node: &Node, data: &View, sign: f32) -> Result<View, Problem> {
        let data = match sign {
            1.0 => data.clone(),
            _ => self.scaled(node, data, sign)?,
        };
        let image = View::image(data.tensor, self.shape(data.tensor));
        let pixels = self.largest(node, &image, &[2, 3])?;
        let largest = self.largest(node, &pixels, &[1])?;
        let reach = self.with_number(node, BinaryFunction::Maximum, &largest, 0.0, false)?;
        Ok(View::number(reach.tensor))
    }

    fn of_views(
        &mut self,
        node: &Node,
        function: BinaryFunction,
        views: [&View; 2],
    ) -> Result<View, Problem> {
        let operands = views.map(|view| Operand::Tensor(view.clone()));
        self.combined(node, function, operands)
    }

    /// The result waits for its scale, if that follows.
    fn mat_mul_integer(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 4, 1)?;
        row.attributes().finish()?;
        let operands = [row.above(0, 2, &COLUMN)?, row.share(1, 3, &ROW)?];
        let sum = row.of("MatMul", &operands)?;
        row.give_shares(sum)
    }

    fn conv_integer(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 4, 1)?;
        let operands = [row.above(0, 2, &ROW)?, row.share(1, 3, &CHANNELS)?];
        let plain = Node {
            attributes: node.attributes.clone(),
            ..node.standing_in("Conv")
        };
        let sum = row.of_node(plain, operands.map(Some))?;
        row.give_shares(sum)
    }

    fn mat_mul_integer_to_float(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 7, 1)?;
        row.attributes().finish()?;
        let integers = [0, 1, 4, 5].map(|at| row.optional(at));
        let scales = [row.operand(2, "scale")?, row.operand(3, "scale")?];
        row.give_floats(integers, scales, 6)
    }

    fn dynamic_quantize_mat_mul(&mut self, node: &Node) -> Result<(), Problem> {
        let mut row = self.row(node, 5, 1)?;
        row.attributes().finish()?;
        let data = row.operand(0, "data")?;
        let [bytes, scale, zero] = row.in_bytes(data)?;
        let integers = [Some(bytes), row.optional(1), Some(zero), row.optional(3)];
        let scales = [scale, row.operand(2, "scale")?];
        row.give_floats(integers, scales, 4)
    }
}

impl Row<'_, '_, '_> {
    /// How far the integers of an operand are above their zero point, of which a list lies along these dimensions.
    fn above(&mut self, at: usize, zero: usize, list: &[i64]) -> Result<ValueId, Problem> {
        let integers = self.operand(at, "integers")?;
        if let Value::View(view) = self.lowering.value(integers)
            && self.lowering.draft.quantised.contains_key(&view.tensor)
        {
            let expected = "constant, or bytes of a range that is measured when running";
            return Err(self.wrong(at, "integers", expected));
        }
        let integers = self.as_floats(integers)?;
        let Some(found) = self.optional(zero) else {
            return Ok(integers);
        };
        let found = self.as_floats(found)?;
        let found = match self.sizes(zero, "zero point")?[..] {
            [Dim::Known(1)] => self.reshape(found, [])?,
            [Dim::Known(_)] => self.reshape(found, list)?,
            _ => found,
        };
        self.of("Sub", &[integers, found])
    }

    /// As [`above`](Self::above), in such parts that their sums are small.
    fn share(&mut self, at: usize, zero: usize, list: &[i64]) -> Result<ValueId, Problem> {
        let above = self.above(at, zero, list)?;
        self.times(above, 1.0 / SHARES)
    }

    /// Gives the node a sum of shares, which waits for its factor.
    fn give_shares(&mut self, sum: ValueId) -> Result<(), Problem> {
        let sum = match self.lowering.value(sum).clone() {
            Value::Constant(_) => self.times(sum, SHARES)?,
            sum => {
                let sum = self.lowering.tensor_of(self.node, &sum)?;
                self.lowering.temporary(Value::Scaled(sum, SHARES))
            }
        };
        self.lowering.numbers[sum.0] = Numbers::Integers;
        self.give(0, sum);
        Ok(())
    }

    pub(super) fn as_floats(&mut self, value: ValueId) -> Result<ValueId, Problem> {
        let to = Attribute::Int(data_type::FLOAT.into());
        self.with("Cast", &[value], [("to", to)])
    }

    /// Values as bytes of their range, its scale and its zero point.
    fn in_bytes(&mut self, value: ValueId) -> Result<[ValueId; 3], Problem> {
        let results = [(); 3].map(|()| self.lowering.temporary(Value::Nothing));
        self.lower(Node {
            inputs: vec![Some(value)],
            outputs: results.map(Some).to_vec(),
            ..self.node.standing_in("DynamicQuantizeLinear")
        })?;
        Ok(results)
    }

    /// Values rounded to the bytes of their range.
    pub(super) fn rounded(&mut self, value: ValueId) -> Result<ValueId, Problem> {
        let bytes = self.in_bytes(value)?;
        self.of("DequantizeLinear", &bytes)
    }

    /// Gives the node a product of integers with both scales, and the bias at that position.
    fn give_floats(
        &mut self,
        integers: [Option<ValueId>; 4],
        scales: [ValueId; 2],
        bias: usize,
    ) -> Result<(), Problem> {
        let integers = self.of_node(self.node.standing_in("MatMulInteger"), integers)?;
        let integers = self.as_floats(integers)?;
        let scale = self.of("Mul", &scales)?;
        let mut result = self.of("Mul", &[integers, scale])?;
        if let Some(bias) = self.optional(bias) {
            result = self.of("Add", &[result, bias])?;
        }
        self.give(0, result);
        Ok(())
    }
}
