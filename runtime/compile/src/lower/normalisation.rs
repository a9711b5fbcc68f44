//! InstanceNormalization, and with it group normalisation, which exporters write as one of groups.

use punctual_types::BinaryFunction;

use super::operands::Floats;
use super::view_algebra::{Axis, BATCH};
use super::{Lowering, Value};
use crate::draft::{DraftKind, Sequence};
use crate::graph::{Attributes, Node};
use crate::problem::Problem;

impl Lowering<'_> {
    /// Each channel brought to mean 0 and variance 1, then `scale * x + bias`: a layer normalisation of a tensor whose
    /// pixels are the channels.
    pub(super) fn instance_normalization(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let mut attributes = Attributes::of(node);
        let epsilon = attributes.float("epsilon", 1e-5)?;
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        if view.dims.len() < 3 || !view.is_batch(0) || view.dims[1].contains(&BATCH) {
            let expected = "an image, or channels of values";
            return Err(self.wrong(0, "data", &Value::View(view), expected));
        }
        let mut axes = vec![Axis::Channel; view.dims.len()];
        axes[1] = Axis::Column;
        let view = self.copied_on(node, &view, &axes)?;
        let shape = self.shape(view.tensor);
        let values = shape.channels as usize;
        let kind = DraftKind::Sequence(Sequence::LayerNorm {
            scale: vec![1.0; values],
            bias: vec![0.0; values],
            epsilon,
        });
        let mut result = view.of(self.emit(node, kind, view.tensor, &[], shape)?);
        let steps = [
            (1, "scale", BinaryFunction::Multiply, 1.0),
            (2, "bias", BinaryFunction::Add, 0.0),
        ];
        for (position, what, function, neutral) in steps {
            let Floats { dims, data } = self.floats(node, position, what)?;
            if dims != [shape.width as usize] {
                let found = self.required(node, position, what)?;
                return Err(self.wrong(position, what, found, "one value a channel"));
            }
            if data.iter().any(|value| *value != neutral) {
                let mut dims = vec![1; view.dims.len() - 1];
                dims[0] = data.len();
                let constant = Floats { dims, data };
                result = self.with_table(node, function, &result, &constant, false)?;
            }
        }
        self.set(node, Value::View(result))
    }
}
