//! QuantizeLinear and DequantizeLinear: of tensors they become conversions, of constants they are computed here.

use std::rc::Rc;

use punctual_model::{Convert, TensorId};
use punctual_types::Quantisation;

use super::lowering::Lowering;
use super::numbers::Numbers;
use super::value::Value;
use super::view_algebra::View;
use super::vocabulary::{OnnxOperator, family};
use crate::graph::{Attribute, Attributes, Constant, Data, Floats, Node};
use crate::problem::Problem;
use crate::schema::data_type;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Constant" => lower constant(),
    "DequantizeLinear" => lower dequantize_linear(),
    "QuantizeLinear" => lower quantize_linear(),
};

/// Signed bytes are taken as unsigned ones that are as much larger.
const SIGNED: i32 = 128;

/// The type of quantised values.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Uint8,
    Int8,
    Uint16,
    Int16,
}

impl Kind {
    fn of_type(number: i64) -> Option<Self> {
        let all = [Self::Uint8, Self::Int8, Self::Uint16, Self::Int16];
        all.into_iter()
            .find(|kind| i64::from(kind.number()) == number)
    }

    fn of_data(data: &Data) -> Option<Self> {
        Some(match data {
            Data::Unsigned(_) => Self::Uint8,
            Data::Signed(_) => Self::Int8,
            Data::UnsignedShort(_) => Self::Uint16,
            Data::Short(_) => Self::Int16,
            _ => return None,
        })
    }

    fn number(self) -> i32 {
        match self {
            Self::Uint8 => data_type::UINT8,
            Self::Int8 => data_type::INT8,
            Self::Uint16 => data_type::UINT16,
            Self::Int16 => data_type::INT16,
        }
    }

    fn range(self) -> [f32; 2] {
        match self {
            Self::Uint8 => [0.0, 255.0],
            Self::Int8 => [-128.0, 127.0],
            Self::Uint16 => [0.0, 65535.0],
            Self::Int16 => [-32768.0, 32767.0],
        }
    }
}

/// A quantised constant's integers and what they stand for.
struct Integers {
    dims: Vec<usize>,
    batch: Option<usize>,
    values: Vec<i32>,
    /// One, or one for each position on the axis.
    scales: Vec<f32>,
    zeros: Vec<i32>,
    axis: usize,
}

impl crate::write::Written for Convert {}

impl Lowering<'_> {
    /// Floats to bytes.
    pub(super) fn quantize_linear(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let attributes = Quantising::of(node)?;
        let kind = self.kind(node, attributes.output)?;
        let is_constant = matches!(self.operand(node, 0), Some(Value::Constant(_)));
        let by_channel = self.floats(node, 1, "scale")?.data.len() > 1 && !is_constant;
        if by_channel || matches!(kind, Kind::Uint16 | Kind::Int16) {
            return self.quantise_in_floats(node, attributes.axis, kind.range());
        }
        let signed = kind == Kind::Int8;
        if let Some(Value::Constant(constant)) = self.operand(node, 0)
            && let Data::Floats(floats) = &constant.data
        {
            let values = vec![0; floats.len()];
            let integers = self.integers(node, constant, values, attributes.axis)?;
            let constant = integers.quantised(floats, signed);
            return self.set(node, Value::Constant(Rc::new(constant)));
        }
        let quantisation = self.quantisation(node, signed)?;
        let view = self.elementwise(node, 0)?;
        let output = self.emit(node, Convert, view.tensor, &[])?;
        self.draft.quantised.insert(output, quantisation);
        if signed {
            self.signed.insert(output);
        }
        self.set(node, Value::View(view.of(output)))
    }

    /// Bytes to floats.
    pub(super) fn dequantize_linear(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let attributes = Quantising::of(node)?;
        attributes.check_floats()?;
        if let Some(Value::Constant(constant)) = self.operand(node, 0) {
            let values = match &constant.data {
                Data::Signed(bytes) => bytes.iter().copied().map(i32::from).collect(),
                Data::Unsigned(bytes) => bytes.iter().copied().map(i32::from).collect(),
                Data::Short(shorts) => shorts.iter().copied().map(i32::from).collect(),
                Data::UnsignedShort(shorts) => shorts.iter().copied().map(i32::from).collect(),
                Data::Ints(values) => values.iter().map(|&value| value as i32).collect(),
                // Quantised in floats.
                Data::Floats(_) if self.has_wide_zero(node) => {
                    return self.dequantise_in_floats(node, attributes.axis);
                }
                _ => {
                    let expected = "a tensor of bytes, or constant integers";
                    let value = self.required(node, 0, "data")?;
                    return Err(self.wrong(0, "data", value, expected));
                }
            };
            let integers = self.integers(node, constant, values, attributes.axis)?;
            if let Some(steps) = integers.steps()
                && let Some(Some(output)) = node.outputs.first()
            {
                self.steps.insert(*output, steps);
            }
            return self.set(node, Value::Constant(Rc::new(integers.dequantised())));
        }
        // All of the tensor, also where part of it is read.
        let view = self.view(node, 0)?.clone();
        let is_integer = matches!(self.numbers(node, 0), Numbers::Integers);
        if is_integer && !self.draft.quantised.contains_key(&view.tensor) {
            return self.dequantise_in_floats(node, attributes.axis);
        }
        let quantisation = self.quantisation(node, self.signed.contains(&view.tensor))?;
        if self.draft.quantised.get(&view.tensor) != Some(&quantisation) {
            let value = self.required(node, 0, "data")?;
            let expected = "a tensor that was quantised with the same scale and zero point";
            return Err(self.wrong(0, "data", value, expected));
        }
        let output = self.emit(node, Convert, view.tensor, &[])?;
        self.set(node, Value::View(view.of(output)))
    }

    /// A node that chooses among bytes gives bytes of the same meaning: it is lowered on the floats that they stand for.
    pub(super) fn on_chosen_bytes(&mut self, node: &Node) -> Result<bool, Problem> {
        let read = match node.operator.as_str() {
            "MaxPool" | "Pad" => 1,
            "Resize" if Attributes::of(node).text("mode", "nearest")? == "nearest" => 1,
            "Concat" => node.inputs.len(),
            _ => return Ok(false),
        };
        let bytes = node
            .inputs
            .iter()
            .take(read)
            .map(|&id| match self.value(id?) {
                Value::View(view) => Some((view.clone(), *self.draft.quantised.get(&view.tensor)?)),
                _ => None,
            });
        let Some(bytes) = bytes.collect::<Option<Vec<(View, Quantisation)>>>() else {
            return Ok(false);
        };
        let Some(&(ref first, quantisation)) = bytes.first() else {
            return Ok(false);
        };
        let signed = self.signed.contains(&first.tensor);
        if bytes.iter().any(|(_, of)| *of != quantisation) {
            return Ok(false);
        }
        let mut inputs = node.inputs.clone();
        if node.operator == "Pad" {
            let value = self.padded_with(node, quantisation, signed);
            inputs.resize(inputs.len().max(3), None);
            inputs[2] = Some(self.temporary(value));
        }
        for (input, (view, _)) in inputs.iter_mut().zip(&bytes) {
            let floats = self.emit(node, Convert, view.tensor, &[])?;
            *input = Some(self.temporary(Value::View(view.of(floats))));
        }
        let chosen = self.temporary(Value::Nothing);
        self.node(&Node {
            operator: node.operator.clone(),
            inputs,
            outputs: vec![Some(chosen)],
            attributes: node.attributes.clone(),
            opset: node.opset,
            ..Node::of_exit(&node.name)
        })?;
        let Value::View(chosen) = self.value(chosen).clone() else {
            return Ok(false);
        };
        let output = self.emit(node, Convert, chosen.tensor, &[])?;
        self.draft.quantised.insert(output, quantisation);
        if signed {
            self.signed.insert(output);
        }
        self.set(node, Value::View(chosen.of(output)))?;
        Ok(true)
    }

    /// The float that the byte stands for which lies around bytes: 0 where none is named.
    fn padded_with(&self, node: &Node, bytes: Quantisation, signed: bool) -> Value {
        let byte = match self.operand(node, 2) {
            Some(Value::Constant(value)) => match &value.data {
                Data::Signed(bytes) => bytes.first().map_or(0, |&byte| i32::from(byte)),
                Data::Unsigned(bytes) => bytes.first().map_or(0, |&byte| i32::from(byte)),
                _ => 0,
            },
            _ => 0,
        };
        let byte = if signed { byte + SIGNED } else { byte };
        let value = (byte - i32::from(bytes.zero)) as f32 * bytes.scale;
        Value::Constant(Rc::new(Constant::new(vec![], Data::Floats(vec![value]))))
    }

    /// Bytes that are moved keep their meaning.
    pub(super) fn note_moved_bytes(&mut self, from: TensorId, others: &[TensorId], to: TensorId) {
        let meaning = |tensor: &TensorId| self.draft.quantised.get(tensor).copied();
        let Some(quantisation) = meaning(&from) else {
            return;
        };
        if others
            .iter()
            .all(|other| meaning(other) == Some(quantisation))
        {
            self.draft.quantised.insert(to, quantisation);
            if self.signed.contains(&from) {
                self.signed.insert(to);
            }
        }
    }

    /// Remembers what a step of the weights of the node's operator is worth, times a factor, if they are integers.
    pub(super) fn note_steps(&mut self, node: &Node, factor: f32) {
        let weights = node.inputs.get(1).copied().flatten();
        let steps = weights.and_then(|id| self.steps.get(&id));
        if let Some(steps) = steps
            && let Some(Some(output)) = node.outputs.first()
            && let Value::View(view) = self.value(*output)
        {
            let worth = steps.iter().map(|step| step * factor.abs());
            self.draft.steps.insert(view.tensor, worth.collect());
        }
    }

    /// The bytes of an output that the file declares to be bytes: those of a quantised tensor, or of integers that fit.
    pub(crate) fn bytes(
        &mut self,
        exit: &str,
        view: &View,
        signed: bool,
    ) -> Result<(View, Quantisation), Problem> {
        if let Some(quantisation) = self.draft.quantised.get(&view.tensor) {
            return Ok((view.clone(), *quantisation));
        }
        let node = Node::of_exit(exit);
        let view = self.covering(&node, view)?;
        let output = self.emit(&node, Convert, view.tensor, &[])?;
        let zero = if signed { SIGNED as u8 } else { 0 };
        let quantisation = Quantisation { scale: 1.0, zero };
        self.draft.quantised.insert(output, quantisation);
        Ok((view.of(output), quantisation))
    }

    /// The type of the result: as the zero point's, or as `output_dtype` says where there is none.
    fn kind(&self, node: &Node, asked: Option<i64>) -> Result<Kind, Problem> {
        let refused = |number, supported| {
            let found = Attribute::Int(number);
            Err(Problem::attribute("output_dtype", &found, supported))
        };
        let asked_kind = asked.map(Kind::of_type);
        if let (Some(number), Some(None)) = (asked, asked_kind) {
            return refused(
                number,
                "2 for uint8, 3 for int8, 4 for uint16 or 5 for int16",
            );
        }
        let asked_kind = asked_kind.flatten();
        let own = match self.operand(node, 2) {
            None => return Ok(asked_kind.unwrap_or(Kind::Uint8)),
            Some(Value::Constant(zero)) => Kind::of_data(&zero.data),
            Some(_) => None,
        };
        let own = own.ok_or_else(|| self.wrong_zero(node))?;
        match asked_kind {
            Some(other) if other != own => {
                refused(other.number().into(), "the type of the zero point")
            }
            _ => Ok(own),
        }
    }

    fn has_wide_zero(&self, node: &Node) -> bool {
        let zero = match self.operand(node, 2) {
            Some(Value::Constant(zero)) => Kind::of_data(&zero.data),
            _ => None,
        };
        matches!(zero, Some(Kind::Uint16 | Kind::Int16))
    }

    /// A tensor's quantisation: one scale, one zero point.
    ///
    /// Where it has no zero point, that is 0 of the bytes' own type.
    fn quantisation(&self, node: &Node, signed: bool) -> Result<Quantisation, Problem> {
        let scale = match self.floats(node, 1, "scale")?.data[..] {
            [scale] if scale.is_normal() && scale > 0.0 => scale,
            _ => {
                let found = self.required(node, 1, "scale")?;
                return Err(self.wrong(1, "scale", found, "one finite number above zero"));
            }
        };
        let zero = match self.operand(node, 2) {
            None if signed => SIGNED as u8,
            None => 0,
            Some(Value::Constant(constant)) => match (&constant.data, constant.elements()) {
                (Data::Unsigned(bytes), 1) => bytes[0],
                (Data::Signed(bytes), 1) => (i32::from(bytes[0]) + SIGNED) as u8,
                _ => return Err(self.wrong_zero(node)),
            },
            Some(_) => return Err(self.wrong_zero(node)),
        };
        Ok(Quantisation { scale, zero })
    }

    fn wrong_zero(&self, node: &Node) -> Problem {
        match self.required(node, 2, "zero point") {
            Ok(found) => self.wrong(2, "zero point", found, "constant bytes"),
            Err(problem) => problem,
        }
    }

    /// The integers with the node's scales and zero points.
    fn integers(
        &self,
        node: &Node,
        constant: &Constant,
        values: Vec<i32>,
        axis: i64,
    ) -> Result<Integers, Problem> {
        let Floats { data: scales, .. } = self.floats(node, 1, "scale")?;
        let zeros = match self.operand(node, 2) {
            None => vec![0; scales.len()],
            Some(Value::Constant(constant)) => match &constant.data {
                Data::Unsigned(bytes) => bytes.iter().copied().map(i32::from).collect(),
                Data::Signed(bytes) => bytes.iter().copied().map(i32::from).collect(),
                Data::UnsignedShort(shorts) => shorts.iter().copied().map(i32::from).collect(),
                Data::Short(shorts) => shorts.iter().copied().map(i32::from).collect(),
                Data::Ints(values) => values.iter().map(|&value| value as i32).collect(),
                _ => return Err(self.wrong_zero(node)),
            },
            Some(_) => return Err(self.wrong_zero(node)),
        };
        if zeros.len() != scales.len() {
            return Err(self.wrong_zero(node));
        }
        let dims = &constant.dims;
        let rank = dims.len() as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        let along = usize::try_from(axis).ok().and_then(|axis| dims.get(axis));
        let fits = scales.len() == 1 || along == Some(&scales.len());
        if !fits || !scales.iter().all(|&scale| scale.is_normal() && scale > 0.0) {
            let found = self.required(node, 1, "scale")?;
            let expected = "finite numbers above zero: one, or one for each position on the axis";
            return Err(self.wrong(1, "scale", found, expected));
        }
        Ok(Integers {
            axis: axis.max(0) as usize,
            dims: dims.clone(),
            batch: constant.batch,
            values,
            scales,
            zeros,
        })
    }
}

/// The attributes of both nodes.
struct Quantising {
    axis: i64,
    /// The type of the result, if it is named.
    output: Option<i64>,
}

impl Quantising {
    fn of(node: &Node) -> Result<Self, Problem> {
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 1)?;
        attributes.only("block_size", 0, "0")?;
        attributes.only("saturate", 1, "1")?;
        let precision = attributes.int("precision", 0)?;
        if ![0, i64::from(data_type::FLOAT)].contains(&precision) {
            let found = Attribute::Int(precision);
            return Err(Problem::attribute(
                "precision",
                &found,
                "0 or 1 for float32",
            ));
        }
        let output = attributes.int("output_dtype", 0)?;
        attributes.finish()?;
        Ok(Self {
            axis,
            output: (output != 0).then_some(output),
        })
    }

    /// That the result is floats which are computed as such here.
    fn check_floats(&self) -> Result<(), Problem> {
        let floats = [data_type::FLOAT, data_type::FLOAT16].map(i64::from);
        match self.output {
            Some(other) if !floats.contains(&other) => {
                let found = Attribute::Int(other);
                let supported = "1 for float32 or 10 for float16";
                Err(Problem::attribute("output_dtype", &found, supported))
            }
            _ => Ok(()),
        }
    }
}

impl Integers {
    /// The position among the scales of the value at `at`.
    fn channel(&self, at: usize) -> usize {
        if self.scales.len() == 1 {
            return 0;
        }
        let inner: usize = self.dims[self.axis + 1..].iter().product();
        at / inner.max(1) % self.scales.len()
    }

    fn dequantised(self) -> Constant {
        let value = |(at, &value): (usize, &i32)| {
            let channel = self.channel(at);
            (value - self.zeros[channel]) as f32 * self.scales[channel]
        };
        let floats = self.values.iter().enumerate().map(value).collect();
        self.constant(Data::Floats(floats))
    }

    fn quantised(self, floats: &[f32], signed: bool) -> Constant {
        let kind = if signed { Kind::Int8 } else { Kind::Uint8 };
        let [least, most] = kind.range();
        let integers = floats.iter().enumerate().map(|(at, value)| {
            let channel = self.channel(at);
            let steps = (value / self.scales[channel]).round_ties_even();
            (steps + self.zeros[channel] as f32).clamp(least, most)
        });
        let data = if signed {
            Data::Signed(integers.map(|value| value as i8).collect())
        } else {
            Data::Unsigned(integers.map(|value| value as u8).collect())
        };
        self.constant(data)
    }

    fn constant(self, data: Data) -> Constant {
        Constant {
            dims: self.dims,
            batch: self.batch,
            data,
        }
    }

    /// What a step is worth, if all of them are whole steps of signed bytes around zero.
    fn steps(&self) -> Option<Rc<[f32]>> {
        let fits = |(at, value): (usize, &i32)| {
            let steps = value.checked_sub(self.zeros[self.channel(at)]);
            steps.is_some_and(|steps| i8::try_from(steps).is_ok())
        };
        let all = self.values.iter().enumerate().all(fits);
        all.then(|| self.scales.clone().into())
    }
}
