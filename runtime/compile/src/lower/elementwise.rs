//! Operators that treat each element alone.

use punctual_types::{Activation, BinaryFunction};

use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, View};
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attributes, Floats, Node};
use crate::integer::Dim;
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "BatchNormalization" => lower batch_normalization(),
    "Clip" => lower clip() fold arithmetic::clip,
    "Dropout" => lower dropout(),
    "Identity" => lower identity(),
    "Relu" => lower relu() fold arithmetic::unary,
};

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
        let view = self.elementwise(node, 0)?;
        let mut columns = Vec::with_capacity(4);
        for (position, what) in [(1, "scale"), (2, "bias"), (3, "mean"), (4, "variance")] {
            let Floats { dims, data } = self.floats(node, position, what)?;
            if dims.len() != 1 || view.sizes().get(1) != Some(&Dim::Known(data.len() as i64)) {
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
        let mut dims = vec![1; view.dims.len() - 1];
        dims[0] = scale.len();
        let shift = Floats {
            dims: dims.clone(),
            data: shift.collect(),
        };
        let scale = Floats {
            dims,
            data: scale.iter().map(|&scale| scale as f32).collect(),
        };
        let by_channel = (
            self.per_channel(&view, &scale),
            self.per_channel(&view, &shift),
        );
        if let (Some(scale), Some(shift)) = by_channel {
            return self.affine(node, &view, scale, shift);
        }
        // The view's channels lie on another axis of the tensor, or are several values each.
        let scaled = self.with_table(node, BinaryFunction::Multiply, &view, &scale, false)?;
        let result = self.with_table(node, BinaryFunction::Add, &scaled, &shift, false)?;
        self.set(node, Value::View(result))
    }

    /// A constant's value for each channel of the tensor that a view covers; `None` where values of one channel meet
    /// different ones. The constant's dimensions are aligned with the view's last ones.
    pub(super) fn per_channel(&self, view: &View, constant: &Floats) -> Option<Vec<f32>> {
        let channels = self.shape(view.tensor).channels;
        if let [value] = constant.data[..] {
            let broadcast = constant.dims.len() <= view.dims.len();
            return broadcast.then(|| vec![value; channels as usize]);
        }
        let before = view.dims.len().checked_sub(constant.dims.len())?;
        let longer = |&(_, &size): &(usize, &usize)| size != 1;
        let mut dims = constant.dims.iter().enumerate().filter(longer);
        let (Some((at, &size)), None) = (dims.next(), dims.next()) else {
            return None;
        };
        let digits = &view.dims[before + at];
        let all: u64 = digits.iter().map(|digit| digit.extent).product();
        let fits = digits.iter().all(|digit| digit.axis == Axis::Channel) && all == size as u64;
        let value = |channel: u32| {
            let place = digits.iter().fold(0, |place, digit| {
                place * digit.extent + u64::from(channel) / digit.step % digit.extent
            });
            constant.data[place as usize]
        };
        fits.then(|| (0..channels).map(value).collect())
    }

    pub(super) fn affine(
        &mut self,
        node: &Node,
        view: &View,
        scale: Vec<f32>,
        shift: Vec<f32>,
    ) -> Result<(), Problem> {
        let result = self.affine_of(node, view, scale, shift)?;
        self.set(node, Value::View(result))
    }

    /// `scale * x + shift` a channel of the tensor that a view covers.
    pub(super) fn affine_of(
        &mut self,
        node: &Node,
        view: &View,
        scale: Vec<f32>,
        shift: Vec<f32>,
    ) -> Result<View, Problem> {
        let affine = Computation::affine(scale, shift);
        let output = self.emit(node, affine, view.tensor, &[])?;
        Ok(view.of(output))
    }

    pub(super) fn activate(&mut self, node: &Node, activation: Activation) -> Result<(), Problem> {
        let view = self.elementwise(node, 0)?;
        self.activate_view(node, &view, activation)
    }

    pub(super) fn activate_view(
        &mut self,
        node: &Node,
        view: &View,
        activation: Activation,
    ) -> Result<(), Problem> {
        let activated = self.activated(node, view, activation)?;
        self.set(node, Value::View(activated))
    }

    pub(super) fn activated(
        &mut self,
        node: &Node,
        view: &View,
        activation: Activation,
    ) -> Result<View, Problem> {
        let channels = self.shape(view.tensor).channels;
        let activation = Computation::activation(activation, channels);
        let output = self.emit(node, activation, view.tensor, &[])?;
        Ok(view.of(output))
    }

    pub(super) fn identity(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        let value = self.required(node, 0, "data")?.clone();
        self.set(node, value)
    }

    /// Does nothing outside training. Its second result, the mask, stays `Nothing`.
    pub(super) fn dropout(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 2)?;
        let mut attributes = Attributes::of(node);
        // Used in training only.
        attributes.ignore("ratio");
        attributes.ignore("seed");
        attributes.finish()?;
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
