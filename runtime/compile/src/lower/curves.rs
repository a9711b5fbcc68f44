//! Activations that bend: sigmoid and its relatives, and those with another slope below zero.

use punctual_types::{Activation, BinaryFunction, UnaryFunction};

use super::view_algebra::View;
use super::{Lowering, Value};
use crate::draft::DraftKind;
use crate::graph::{Attribute, Attributes, Node};
use crate::problem::Problem;

impl Lowering<'_> {
    pub(super) fn curve(&mut self, node: &Node, activation: Activation) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        self.activate(node, activation)
    }

    pub(super) fn gelu(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let approximate = attributes.text("approximate", "none")?;
        if approximate != "none" {
            let found = Attribute::Text(approximate.to_owned());
            return Err(Problem::attribute("approximate", &found, "none"));
        }
        attributes.finish()?;
        self.activate(node, Activation::Gelu)
    }

    /// `min(max(alpha x + beta, 0), 1)`.
    pub(super) fn hard_sigmoid(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let alpha = attributes.float("alpha", 0.2)?;
        let beta = attributes.float("beta", 0.5)?;
        attributes.finish()?;
        if is_a_sixth(alpha) && beta == 0.5 {
            return self.activate(node, Activation::HardSigmoid);
        }
        let view = self.elementwise(node, 0)?;
        let shape = self.shape(view.tensor);
        let channels = shape.channels as usize;
        let kind = DraftKind::Affine {
            scale: vec![alpha; channels],
            shift: vec![beta; channels],
        };
        let line = self.emit(node, kind, view.tensor, &[], shape)?;
        let unit = Activation::Clip {
            low: 0.0,
            high: 1.0,
        };
        self.activate_view(node, &view.of(line), unit)
    }

    pub(super) fn leaky_relu(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let slope = attributes.float("alpha", 0.01)?;
        attributes.finish()?;
        let view = self.elementwise(node, 0)?;
        let slopes = vec![slope; self.shape(view.tensor).channels as usize];
        self.bent(node, &view, slopes)
    }

    pub(super) fn p_relu(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let view = self.elementwise(node, 0)?;
        let slopes = self.floats(node, 1, "slopes")?;
        let Some(slopes) = self.per_channel(&view, &slopes) else {
            let found = self.required(node, 1, "slopes")?;
            return Err(self.wrong(1, "slopes", found, "one value, or one a channel"));
        };
        self.bent(node, &view, slopes)
    }

    /// `x` above zero, `slope * x` below it.
    fn bent(&mut self, node: &Node, view: &View, slopes: Vec<f32>) -> Result<(), Problem> {
        let shape = self.shape(view.tensor);
        let line = |scale: Vec<f32>| DraftKind::Affine {
            shift: vec![0.0; scale.len()],
            scale,
        };
        if slopes.iter().all(|slope| *slope <= 1.0) {
            let line = self.emit(node, line(slopes), view.tensor, &[], shape)?;
            let kind = DraftKind::binary(BinaryFunction::Maximum, None);
            let larger = self.emit(node, kind, view.tensor, &[line], shape)?;
            return self.set(node, Value::View(view.of(larger)));
        }
        let negative = self.negative_part(node, view)?;
        let line = self.emit(node, line(slopes), negative.tensor, &[], shape)?;
        self.add_positive_part(node, view, &view.of(line))
    }

    /// `x` above zero, `alpha * (e^x - 1)` below it.
    pub(super) fn elu(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let alpha = attributes.float("alpha", 1.0)?;
        attributes.finish()?;
        let view = self.elementwise(node, 0)?;
        let shape = self.shape(view.tensor);
        let negative = self.negative_part(node, &view)?;
        let function = UnaryFunction::Exponential;
        let kind = DraftKind::Unary { function };
        let power = self.emit(node, kind, negative.tensor, &[], shape)?;
        let channels = shape.channels as usize;
        let kind = DraftKind::Affine {
            scale: vec![alpha; channels],
            shift: vec![-alpha; channels],
        };
        let below = self.emit(node, kind, power, &[], shape)?;
        self.add_positive_part(node, &view, &view.of(below))
    }

    /// `min(x, 0)`.
    fn negative_part(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        let (low, high) = (f32::MIN, 0.0);
        self.activated(node, view, Activation::Clip { low, high })
    }

    /// Adds `max(x, 0)` to what stands for the rest of `x`.
    fn add_positive_part(&mut self, node: &Node, view: &View, rest: &View) -> Result<(), Problem> {
        let shape = self.shape(view.tensor);
        let positive = self.activated(node, view, Activation::Relu)?;
        let activation = Activation::None;
        let kind = DraftKind::Add { activation };
        let sum = self.emit(node, kind, rest.tensor, &[positive.tensor], shape)?;
        self.set(node, Value::View(view.of(sum)))
    }
}

/// Whether a factor is a sixth to the precision that exporters write it with.
pub(crate) fn is_a_sixth(factor: f32) -> bool {
    (6.0 * factor - 1.0).abs() < 1e-6
}
