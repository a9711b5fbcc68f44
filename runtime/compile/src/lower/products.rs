//! Products, quotients and differences.

use punctual_model::Tensor;
use punctual_types::Activation;

use super::view_algebra::{Axis, View};
use super::{Lowering, Value};
use crate::draft::DraftKind;
use crate::graph::{Attributes, Node};
use crate::problem::Problem;

impl Lowering<'_> {
    pub(super) fn mul(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let first = self.required(node, 0, "first factor")?;
        let second = self.required(node, 1, "second factor")?;
        match (first, second) {
            (Value::View(_), Value::View(_)) => self.multiply(node),
            (Value::View(_), _) => self.scale(node, 0, 1, |factor| (factor, 0.0)),
            (_, Value::View(_)) => self.scale(node, 1, 0, |factor| (factor, 0.0)),
            _ => Err(self.unfit(node)),
        }
    }

    /// By a constant only.
    pub(super) fn div(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        self.scale(node, 0, 1, |divisor| (1.0 / divisor, 0.0))
    }

    /// A constant from a tensor, or the reverse.
    pub(super) fn sub(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        match self.required(node, 0, "minuend")? {
            Value::Constant(_) => self.scale(node, 1, 0, |minuend| (-1.0, minuend)),
            _ => self.scale(node, 0, 1, |subtrahend| (1.0, -subtrahend)),
        }
    }

    /// Applies `scale * x + shift` with what the constant says for each channel.
    fn scale(
        &mut self,
        node: &Node,
        data: usize,
        constant: usize,
        factors: impl Fn(f32) -> (f32, f32),
    ) -> Result<(), Problem> {
        let view = self.elementwise(node, data)?;
        let constant = self.floats(node, constant, "constant")?;
        let Some(values) = self.per_channel(&view, &constant) else {
            return Err(self.unfit(node));
        };
        let (scale, shift) = values.into_iter().map(factors).unzip();
        self.affine(node, &view, scale, shift)
    }

    /// Two tensors: value by value, or all pixels of a channel by that channel's one value.
    fn multiply(&mut self, node: &Node) -> Result<(), Problem> {
        let sizes = |position| Ok::<_, Problem>(self.view(node, position)?.sizes());
        let (view, other) = if sizes(0)? == sizes(1)? {
            self.pair(node)?
        } else {
            let (first, second) = (self.elementwise(node, 0)?, self.elementwise(node, 1)?);
            if self.is_one_a_channel(&first, &second) {
                (first, second.tensor)
            } else if self.is_one_a_channel(&second, &first) {
                (second, first.tensor)
            } else {
                return Err(self.unfit(node));
            }
        };
        let kind = DraftKind::Multiply {
            activation: Activation::None,
        };
        let shape = self.shape(view.tensor);
        let output = self.emit(node, kind, view.tensor, &[other], shape)?;
        self.set(node, Value::View(view.of(output)))
    }

    /// Whether `values` is (N, channels, 1, 1) to an `image` of as many channels.
    fn is_one_a_channel(&self, image: &View, values: &View) -> bool {
        let shape = self.shape(image.tensor);
        let one_pixel = Tensor::features(shape.channels);
        values.is_image(one_pixel)
            && self.shape(values.tensor) == one_pixel
            && image.dims.len() == 4
            && image.is_batch(0)
            && image.is_whole(1, Axis::Channel, shape.channels)
    }

    fn unfit(&self, node: &Node) -> Problem {
        let describe = |at| {
            self.operand(node, at)
                .map_or_else(String::new, |value| self.describe(value))
        };
        Problem::Factors {
            first: describe(0),
            second: describe(1),
        }
    }
}
