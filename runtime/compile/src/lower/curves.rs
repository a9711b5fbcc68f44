//! Activations that bend: sigmoid and its relatives.

use punctual_types::Activation;

use super::Lowering;
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
}

/// Whether a factor is a sixth to the precision that exporters write it with.
pub(crate) fn is_a_sixth(factor: f32) -> bool {
    (6.0 * factor - 1.0).abs() < 1e-6
}
