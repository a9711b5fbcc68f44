//! Operators that treat each element alone.

use punctual_model::{Activation, TensorId};

use super::operands::Floats;
use super::{Lowering, Value};
use crate::draft::DraftKind;
use crate::graph::{Attributes, Node};
use crate::problem::Problem;

impl Lowering<'_> {
    pub(super) fn relu(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        self.activate(node, Activation::Relu)
    }

    pub(super) fn clip(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        Attributes::of(node).finish()?;
        let low = self.bound(node, 1, "minimum", f32::MIN)?;
        let high = self.bound(node, 2, "maximum", f32::MAX)?;
        let activation = if low == 0.0 && high == f32::MAX {
            Activation::Relu
        } else {
            // ONNX defines minimum > maximum: everything becomes the maximum.
            Activation::Clip {
                low: low.min(high),
                high,
            }
        };
        self.activate(node, activation)
    }

    fn bound(
        &self,
        node: &Node,
        position: usize,
        what: &'static str,
        default: f32,
    ) -> Result<f32, Problem> {
        match self.optional_floats(node, position, what)? {
            None => Ok(default),
            // An infinite bound is no bound; the smallest and largest floats say the same.
            Some(Floats { data, .. }) if data.len() == 1 && !data[0].is_nan() => {
                Ok(data[0].clamp(f32::MIN, f32::MAX))
            }
            Some(_) => {
                let found = self.required(node, position, what)?;
                Err(self.wrong(position, what, found, "one number"))
            }
        }
    }

    pub(super) fn batch_normalization(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 5, 1)?;
        let mut attributes = Attributes::of(node);
        let epsilon = f64::from(attributes.float("epsilon", 1e-5)?);
        attributes.ignore("momentum"); // Used in training only.
        attributes.only("training_mode", 0, "0, as exported for inference")?;
        attributes.finish()?;
        let shape = self.shape(self.tensor(node)?);
        let view = self.required(node, 0, "data")?;
        if matches!(view, Value::Features(_)) && (shape.height, shape.width) != (1, 1) {
            // Its channels are then the elements of a flattened image, each with its own scale.
            return Err(self.wrong(0, "data", view, "an image, or features of one pixel"));
        }
        let channels = shape.channels as usize;
        let mut columns = Vec::with_capacity(4);
        for (position, what) in [(1, "scale"), (2, "bias"), (3, "mean"), (4, "variance")] {
            let Floats { dims, data } = self.floats(node, position, what)?;
            if dims != [channels] {
                let found = self.required(node, position, what)?;
                return Err(self.wrong(position, what, found, "one value a channel"));
            }
            columns.push(data);
        }
        let [gain, bias, mean, variance] = &columns[..] else {
            unreachable!("four columns")
        };
        let scale: Vec<f64> = std::iter::zip(gain, variance)
            .map(|(&gain, &variance)| f64::from(gain) / (f64::from(variance) + epsilon).sqrt())
            .collect();
        let shift = std::iter::zip(bias, mean).zip(&scale);
        let shift =
            shift.map(|((&bias, &mean), scale)| (f64::from(bias) - f64::from(mean) * scale) as f32);
        let shift = shift.collect();
        let scale = scale.iter().map(|&scale| scale as f32).collect();
        self.affine(node, 0, scale, shift)
    }

    pub(super) fn add(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let first = self.required(node, 0, "first addend")?;
        let second = self.required(node, 1, "second addend")?;
        match (first, second) {
            (Value::Image(a), Value::Image(b)) | (Value::Features(a), Value::Features(b))
                if self.shape(*a) == self.shape(*b) =>
            {
                let (a, b, shape) = (*a, *b, self.shape(*a));
                let view = first.clone();
                let kind = DraftKind::Add {
                    activation: Activation::None,
                };
                let output = self.emit(node, kind, a, &[b], shape)?;
                self.set(node, reviewed(&view, output))
            }
            (Value::Image(_) | Value::Features(_), Value::Constant(_)) => {
                self.add_constant(node, 0, 1)
            }
            (Value::Constant(_), Value::Image(_) | Value::Features(_)) => {
                self.add_constant(node, 1, 0)
            }
            _ => Err(self.addends(node)),
        }
    }

    /// A constant of one value a channel (or one for all), added to the operand `data`.
    fn add_constant(&mut self, node: &Node, data: usize, constant: usize) -> Result<(), Problem> {
        let value = self.required(node, data, "data")?;
        let Floats { dims, data: addend } = self.floats(node, constant, "constant addend")?;
        let (Value::Image(id) | Value::Features(id)) = value else {
            return Err(self.addends(node));
        };
        let shape = self.shape(*id);
        let channels = shape.channels as usize;
        // The constant's dimensions are aligned with the last ones of (N, C, H, W) or (N, C).
        let behind = if matches!(value, Value::Image(_)) {
            2
        } else {
            0
        };
        let from_end = |at: usize| dims.iter().rev().nth(at).copied().unwrap_or(1);
        let only_channels = (0..dims.len()).all(|at| at == behind || from_end(at) == 1);
        let is_vector = behind == 2 || shape.elements() == channels as u64;
        let per_channel = only_channels && is_vector && from_end(behind) == channels;
        if !per_channel && addend.len() != 1 {
            return Err(self.addends(node));
        }
        let shift = if per_channel {
            addend
        } else {
            vec![addend[0]; channels]
        };
        self.affine(node, data, vec![1.0; channels], shift)
    }

    fn addends(&self, node: &Node) -> Problem {
        let describe = |at| {
            self.operand(node, at)
                .map_or_else(String::new, |v| self.describe(v))
        };
        Problem::Addends {
            first: describe(0),
            second: describe(1),
        }
    }

    fn affine(
        &mut self,
        node: &Node,
        data: usize,
        scale: Vec<f32>,
        shift: Vec<f32>,
    ) -> Result<(), Problem> {
        let view = self.required(node, data, "data")?.clone();
        let (Value::Image(input) | Value::Features(input)) = view else {
            return Err(self.wrong(data, "data", &view, "a tensor computed from the input"));
        };
        let shape = self.shape(input);
        let output = self.emit(node, DraftKind::Affine { scale, shift }, input, &[], shape)?;
        self.set(node, reviewed(&view, output))
    }

    fn activate(&mut self, node: &Node, activation: Activation) -> Result<(), Problem> {
        let input = self.tensor(node)?;
        let view = self.required(node, 0, "data")?.clone();
        let shape = self.shape(input);
        let kind = DraftKind::Activate {
            activation,
            channels: shape.channels,
        };
        let output = self.emit(node, kind, input, &[], shape)?;
        self.set(node, reviewed(&view, output))
    }

    /// Supported as the last operator before an exit only, where it is left out.
    pub(super) fn softmax(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", if self.graph.opset < 13 { 1 } else { -1 })?;
        attributes.finish()?;
        let view = self.required(node, 0, "data")?;
        match view {
            Value::Features(id) if matches!(axis, 1 | -1) => {
                let softmax = Value::Softmax(*id);
                self.set(node, softmax)
            }
            other => Err(self.wrong(0, "data", other, "a vector of features, along axis 1")),
        }
    }

    pub(super) fn identity(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let value = self.required(node, 0, "data")?.clone();
        self.set(node, value)
    }

    /// Does nothing outside training. Its second result, the mask, stays `Nothing`.
    pub(super) fn dropout(&mut self, node: &Node) -> Result<(), Problem> {
        if let Some(mode) = self.optional_ints(node, 2, "training_mode")?
            && mode != [0]
        {
            let found = self.required(node, 2, "training_mode")?;
            return Err(self.wrong(2, "training_mode", found, "false"));
        }
        let value = self.required(node, 0, "data")?.clone();
        self.set(node, value)
    }
}

/// The same view of another tensor.
fn reviewed(view: &Value, tensor: TensorId) -> Value {
    match view {
        Value::Image(_) => Value::Image(tensor),
        _ => Value::Features(tensor),
    }
}
