//! Activations that bend: sigmoid and its relatives, and those with another slope below zero.

use punctual_types::{Activation, BinaryFunction};

use super::arithmetic::Operand;
use super::lowering::Lowering;
use super::value::Value;
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attribute, Attributes, Node};
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Celu" => lower celu(),
    "Elu" => lower elu(),
    "Gelu" => lower gelu(),
    "HardSigmoid" => lower hard_sigmoid(),
    "HardSwish" => lower curve(Activation::HardSwish),
    "LeakyRelu" => lower leaky_relu(),
    "Mish" => lower curve(Activation::Mish),
    "PRelu" => lower p_relu(),
    "Selu" => lower selu(),
    "Sigmoid" => lower curve(Activation::Sigmoid) fold arithmetic::unary,
    "Softplus" => lower curve(Activation::Softplus),
    "Softsign" => lower curve(Activation::Softsign),
    "Tanh" => lower curve(Activation::Tanh) fold arithmetic::unary,
    "ThresholdedRelu" => lower thresholded_relu(),
};

impl Lowering<'_> {
    pub(super) fn curve(&mut self, node: &Node, activation: Activation) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        Attributes::of(node).finish()?;
        self.activate(node, activation)
    }

    pub(super) fn gelu(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let activation = match attributes.text("approximate", "none")? {
            "none" => Activation::Gelu,
            "tanh" => Activation::TanhGelu,
            other => {
                let found = Attribute::Text(other.to_owned());
                return Err(Problem::attribute("approximate", &found, "none or tanh"));
            }
        };
        attributes.finish()?;
        self.activate(node, activation)
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
        let channels = self.shape(view.tensor).channels as usize;
        let line = Computation::affine(vec![alpha; channels], vec![beta; channels]);
        let line = self.emit(node, line, view.tensor, &[])?;
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
        self.activate(node, Activation::LeakyRelu { slope })
    }

    /// A slope below 0 for each value, from a constant that is repeated.
    pub(super) fn p_relu(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let operands = [self.two_sided(node, 0)?, self.two_sided(node, 1)?];
        if let Operand::Constant(slopes) = &operands[1]
            && let [slope] = slopes.data[..]
        {
            return self.activate(node, Activation::LeakyRelu { slope });
        }
        let result = self.combined(node, BinaryFunction::Slope, operands)?;
        self.set(node, Value::View(result))
    }

    /// `x` above zero, `alpha * (e^x - 1)` below it.
    pub(super) fn elu(&mut self, node: &Node) -> Result<(), Problem> {
        let [below] = self.figures_of(node, [("alpha", 1.0)])?;
        let (above, rate) = (1.0, 1.0);
        self.activate(node, Activation::Elu { above, below, rate })
    }

    /// `x` above zero, `alpha * (e^(x / alpha) - 1)` below it.
    pub(super) fn celu(&mut self, node: &Node) -> Result<(), Problem> {
        let [below] = self.figures_of(node, [("alpha", 1.0)])?;
        let (above, rate) = (1.0, 1.0 / below);
        self.activate(node, Activation::Elu { above, below, rate })
    }

    /// `gamma * x` above zero, `gamma * alpha * (e^x - 1)` below it.
    pub(super) fn selu(&mut self, node: &Node) -> Result<(), Problem> {
        let defaults = [("alpha", 1.673_263_2), ("gamma", 1.050_701)];
        let [alpha, above] = self.figures_of(node, defaults)?;
        let (below, rate) = (above * alpha, 1.0);
        self.activate(node, Activation::Elu { above, below, rate })
    }

    /// `x` above `alpha`, else 0.
    pub(super) fn thresholded_relu(&mut self, node: &Node) -> Result<(), Problem> {
        let [alpha] = self.figures_of(node, [("alpha", 1.0)])?;
        let view = self.elementwise(node, 0)?;
        let above = self.with_number(node, BinaryFunction::Less, &view, alpha, true)?;
        let operands = [view, above].map(Operand::Tensor);
        let result = self.combined(node, BinaryFunction::KeepWhere, operands)?;
        self.set(node, Value::View(result))
    }

    /// Float attributes, each with its default, of an operator that has no others.
    fn figures_of<const N: usize>(
        &self,
        node: &Node,
        defaults: [(&'static str, f32); N],
    ) -> Result<[f32; N], Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let mut figures = [0.0; N];
        for (figure, (name, default)) in figures.iter_mut().zip(defaults) {
            *figure = attributes.float(name, default)?;
        }
        attributes.finish()?;
        Ok(figures)
    }
}

/// Whether a factor is a sixth to the precision that exporters write it with.
pub(crate) fn is_a_sixth(factor: f32) -> bool {
    (6.0 * factor - 1.0).abs() < 1e-6
}
