//! InstanceNormalization, and with it group normalisation, which exporters write as one of groups.

use punctual_model::LayerNorm;
use punctual_types::{BinaryFunction, UnaryFunction};

use super::arithmetic::Operand;
use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, View};
use super::views::position;
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attribute, Attributes, Floats, Node};
use crate::integer::Dim;
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "GroupNormalization" => lower group_normalization(),
    "InstanceNormalization" => lower instance_normalization(),
    "LpNormalization" => lower lp_normalization(),
    "RMSNormalization" => lower rms_normalization(),
};

const VALUES: &str = "an image, or channels of values";

impl Lowering<'_> {
    /// Each channel brought to mean 0 and variance 1, then `scale * x + bias`: a layer normalisation of a tensor whose
    /// pixels are the channels.
    pub(super) fn instance_normalization(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let mut attributes = Attributes::of(node);
        let epsilon = attributes.float("epsilon", 1e-5)?;
        attributes.finish()?;
        let view = self.channels_of_values(node)?;
        let result = self.normalised(node, &view, epsilon)?;
        let result = self.scaled_and_shifted(node, result)?;
        self.set(node, Value::View(result))
    }

    /// As instance normalisation, but of groups of channels: there is one scale and bias for each group before opset
    /// 21, and for each channel since.
    pub(super) fn group_normalization(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let mut attributes = Attributes::of(node);
        let epsilon = attributes.float("epsilon", 1e-5)?;
        let groups = attributes.int("num_groups", 0)?;
        attributes.ignore("stash_type"); // f32 throughout.
        attributes.finish()?;
        let view = self.channels_of_values(node)?;
        let sizes = view.sizes();
        let Dim::Known(channels) = sizes[1] else {
            return Err(self.wrong(0, "data", &Value::View(view), VALUES));
        };
        if groups < 1 || channels % groups != 0 {
            let found = Attribute::Int(groups);
            let supported = "a divisor of the channels";
            return Err(Problem::attribute("num_groups", &found, supported));
        }
        let [groups, each] = [groups, channels / groups].map(Dim::Known);
        let split = [&[sizes[0], groups, each], &sizes[2..]].concat();
        let view = self.reshaped(node, &view, &split)?;
        let result = self.normalised(node, &view, epsilon)?;
        let result = match node.opset {
            ..21 => self.scaled_and_shifted(node, result)?,
            _ => result,
        };
        let merged = self.reshaped(node, &result, &sizes)?;
        let result = match node.opset {
            ..21 => merged,
            _ => self.scaled_and_shifted(node, merged)?,
        };
        self.set(node, Value::View(result))
    }

    /// Divides by the root of the mean square over the last dimensions, and multiplies by the scale.
    pub(super) fn rms_normalization(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", -1)?;
        let epsilon = attributes.float("epsilon", 1e-5)?;
        attributes.ignore("stash_type"); // f32 throughout.
        attributes.finish()?;
        let view = self.elementwise(node, 0)?;
        let first = position("axis", axis, view.dims.len())?;
        let dims: Vec<usize> = (first..view.dims.len()).collect();
        self.check_dims(&view, &dims, axis)?;
        let squares = self.squares(node, &view)?;
        let mean = self.mean(node, &squares, &dims)?;
        let channels = self.shape(mean.tensor).channels as usize;
        let (scale, shift) = (vec![1.0; channels], vec![epsilon; channels]);
        let above = self.affine_of(node, &mean, scale, shift)?;
        let root = self.unary_of(node, &above, UnaryFunction::SquareRoot)?;
        let operands = [view, root].map(Operand::Tensor);
        let normal = self.combined(node, BinaryFunction::Divide, operands)?;
        let operands = [Operand::Tensor(normal), self.two_sided(node, 1)?];
        let result = self.combined(node, BinaryFunction::Multiply, operands)?;
        self.set(node, Value::View(result))
    }

    /// Divides by the norm of the values along a dimension.
    pub(super) fn lp_normalization(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", -1)?;
        let order = attributes.int("p", 2)?;
        attributes.finish()?;
        let view = self.elementwise(node, 0)?;
        let dims = [position("axis", axis, view.dims.len())?];
        self.check_dims(&view, &dims, axis)?;
        let length = match order {
            1 => {
                let sizes = self.unary_of(node, &view, UnaryFunction::Absolute)?;
                self.sum(node, &sizes, &dims)?
            }
            2 => self.length(node, &view, &dims)?,
            other => {
                let found = Attribute::Int(other);
                return Err(Problem::attribute("p", &found, "1 or 2"));
            }
        };
        // What has no length stays zero.
        let least = f32::MIN_POSITIVE;
        let length = self.with_number(node, BinaryFunction::Maximum, &length, least, false)?;
        let operands = [view, length].map(Operand::Tensor);
        let result = self.combined(node, BinaryFunction::Divide, operands)?;
        self.set(node, Value::View(result))
    }

    /// Checks that the summed dimensions do not reach across images.
    fn check_dims(&self, view: &View, dims: &[usize], axis: i64) -> Result<(), Problem> {
        let of_batch = |dim: &usize| view.dims[*dim].contains(&BATCH);
        if !view.has_one_batch() {
            return Err(self.wrong(0, "data", &Value::View(view.clone()), VALUES));
        }
        if dims.iter().any(of_batch) {
            Err(Problem::attribute(
                "axis",
                &Attribute::Int(axis),
                "not the batch",
            ))
        } else {
            Ok(())
        }
    }

    /// The node's input, which must be (N, channels, values ...).
    fn channels_of_values(&self, node: &Node) -> Result<View, Problem> {
        let view = self.view(node, 0)?.clone();
        if view.dims.len() < 3 || !view.is_batch(0) || view.dims[1].contains(&BATCH) {
            return Err(self.wrong(0, "data", &Value::View(view), VALUES));
        }
        Ok(view)
    }

    /// For each position of the second dimension, normalises what is behind it to mean 0 and variance 1.
    fn normalised(&mut self, node: &Node, view: &View, epsilon: f32) -> Result<View, Problem> {
        let mut axes = vec![Axis::Channel; view.dims.len()];
        axes[1] = Axis::Column;
        let view = self.copied_on(node, view, &axes)?;
        let values = self.shape(view.tensor).channels as usize;
        let weights = [vec![1.0; values], vec![0.0; values]];
        let norm = Computation::new(LayerNorm { epsilon }, weights);
        let output = self.emit(node, norm, view.tensor, &[])?;
        Ok(view.of(output))
    }

    /// `scale * x + bias`, with a scale and a bias for each position of the second dimension.
    fn scaled_and_shifted(&mut self, node: &Node, mut result: View) -> Result<View, Problem> {
        let steps = [
            (1, "scale", BinaryFunction::Multiply, 1.0),
            (2, "bias", BinaryFunction::Add, 0.0),
        ];
        for (position, what, function, neutral) in steps {
            let Floats { dims, data } = self.floats(node, position, what)?;
            if dims.len() != 1 || Dim::Known(data.len() as i64) != result.sizes()[1] {
                let found = self.required(node, position, what)?;
                return Err(self.wrong(position, what, found, "one value a channel"));
            }
            if data.iter().any(|value| *value != neutral) {
                let mut dims = vec![1; result.dims.len() - 1];
                dims[0] = data.len();
                let constant = Floats { dims, data };
                result = self.with_table(node, function, &result, &constant, false)?;
            }
        }
        Ok(result)
    }
}
