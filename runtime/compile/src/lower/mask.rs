//! The mask of a sequence of tokens, from the network's input to the scores of attentions.
//!
//! Exporters spread it over a grid of queries and keys with indices, join it with comparisons that
//! are always true, and add a huge negative number where a token does not count. An attention takes
//! the mask itself, so all of this only has to be recognised.

use punctual_model::TensorId;

use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, View};
use super::views::expanded;
use crate::fold::layout::broadcast;
use crate::graph::{Attribute, Attributes, Constant, Data, Node};
use crate::integer::{Dim, Integer};
use crate::problem::Problem;
use crate::schema::data_type;

/// The channel of the input that is the mask.
const MASK: u64 = 1;

impl Lowering<'_> {
    /// What a node makes of the mask; `None` if it reads none.
    pub(super) fn on_mask(&mut self, node: &Node) -> Result<Option<Value>, Problem> {
        match node.operator.as_str() {
            "Cast" => return Ok(self.cast_input(node)),
            "Where" => return Ok(self.chosen(node)),
            "And" => return Ok(self.and_true(node)),
            _ => {}
        }
        let Some(Value::Counts(view)) = self.operand(node, 0) else {
            return Ok(None);
        };
        let view = view.clone();
        match node.operator.as_str() {
            "Gather" => {
                self.limit(node, 2, 1)?;
                let mut attributes = Attributes::of(node);
                attributes.only("axis", 0, "0")?;
                attributes.finish()?;
                let picked = self
                    .constant_integers(node, 1)
                    .and_then(|places| self.picked(&view, &places.sizes(), &places.integers()?));
                Ok(picked.map(Value::Counts))
            }
            "GatherND" => {
                self.limit(node, 2, 1)?;
                let mut attributes = Attributes::of(node);
                attributes.only("batch_dims", 0, "0")?;
                attributes.finish()?;
                let places = self.constant_integers(node, 1);
                let places = places.and_then(|places| flat(&view, places));
                let flat = places.and_then(|(sizes, places)| {
                    let view = View {
                        dims: vec![view.dims.concat()],
                        ..view
                    };
                    self.picked(&view, &sizes, &places)
                });
                Ok(flat.map(Value::Counts))
            }
            _ => {
                let moved = self.moved(node, view)?;
                Ok(moved.map(Value::Counts))
            }
        }
    }

    /// The input's mask as truths.
    fn cast_input(&self, node: &Node) -> Option<Value> {
        let to_bool = Attribute::Int(data_type::BOOL.into());
        if node.attributes.get("to") != Some(&to_bool) {
            return None;
        }
        match self.operand(node, 0)? {
            Value::Counts(view) => Some(Value::Counts(view.clone())),
            Value::View(view) if view.tensor == TensorId(0) => {
                let is_mask = self.graph.mask.is_some() && view.start[0] == MASK;
                is_mask.then(|| Value::Counts(view.clone()))
            }
            _ => None,
        }
    }

    /// A number by a mask: what an attention adds to its products. Of weights, which are finite, one
    /// by whether they are no numbers: themselves. (Where a file adds minus infinity, a sequence of
    /// padding only gets no weights there; here all its tokens then weigh the same.)
    fn chosen(&self, node: &Node) -> Option<Value> {
        let numbers = [1, 2].map(|at| self.scalar(node, at));
        let nothing_or_little =
            numbers[0] == Some(0.0) && numbers[1].is_some_and(|little| little <= f32::MIN);
        match self.operand(node, 0)? {
            Value::Counts(view) if nothing_or_little => Some(Value::Padding(Some(view.clone()))),
            Value::NoNumbers => match self.operand(node, 2)? {
                Value::Scores(scores) => Some(Value::Scores(scores.clone())),
                _ => None,
            },
            _ => None,
        }
    }

    /// A mask and what is true everywhere.
    fn and_true(&self, node: &Node) -> Option<Value> {
        let mask = |at| match self.operand(node, at) {
            Some(Value::Counts(view)) => Some(view),
            _ => None,
        };
        let (view, other) = match mask(0) {
            Some(view) => (view, self.constant_integers(node, 1)?),
            None => (mask(1)?, self.constant_integers(node, 0)?),
        };
        let sizes = broadcast(&view.sizes(), &other.sizes())?;
        let view = expanded(view.clone(), &sizes)?;
        let Data::Ints(values) = &other.data else {
            return None;
        };
        let is_true = values.iter().all(|value| *value != 0);
        (is_true && !values.is_empty()).then_some(Value::Counts(view))
    }

    /// What a node that only gives its operand other dimensions makes of this view in its place; `None` of any other node.
    pub(super) fn moved(&mut self, node: &Node, view: View) -> Result<Option<View>, Problem> {
        let (Some(Some(id)), Some(Some(result))) = (node.inputs.first(), node.outputs.first())
        else {
            return Ok(None);
        };
        let before = std::mem::replace(&mut self.values[id.0], Value::View(view));
        let done = match node.operator.as_str() {
            "Expand" => self.expand(node),
            "Flatten" => self.flatten(node),
            "Identity" => self.identity(node),
            "Reshape" => self.reshape(node),
            "Squeeze" => self.squeeze(node),
            "Transpose" => self.transpose(node),
            "Unsqueeze" => self.unsqueeze(node),
            _ => {
                self.values[id.0] = before;
                return Ok(None);
            }
        };
        self.values[id.0] = before;
        done?;
        match self.value(*result) {
            Value::View(view) => Ok(Some(view.clone())),
            _ => Err(Problem::MissingOutput),
        }
    }

    /// All of the first dimension, image by image and token by token, in the places' dimensions.
    fn picked(&self, view: &View, sizes: &[Dim], places: &[Integer]) -> Option<View> {
        let (batch, tokens) = view.dims.first()?.split_first()?;
        let count: u64 = tokens.iter().map(|digit| digit.extent).product();
        if batch.axis != Axis::Batch || places.len() as u64 != count {
            return None;
        }
        let fixed = self.fixed == Some(1);
        let is_batch = |size: &Dim| matches!(size, Dim::Batches(1));
        let dim = sizes.iter().position(is_batch);
        // In a file for one image at a time the first dimension is the image's.
        let dim = dim.or((fixed && sizes.first() == Some(&Dim::Known(1))).then_some(0))?;
        let images = if is_batch(&sizes[dim]) {
            count as i64
        } else {
            0
        };
        let mut places = places.iter().zip(0..);
        let in_order = places.all(|(found, offset)| {
            let expected = Integer {
                offset,
                images,
                ..Integer::default()
            };
            *found == expected
        });
        let dims = sizes.iter().enumerate().map(|(at, size)| match size {
            _ if at == dim => Some(vec![*batch]),
            Dim::Known(1) => Some(vec![]),
            Dim::Known(size) if u64::try_from(*size) == Ok(count) => Some(tokens.to_vec()),
            _ => None,
        });
        let mut dims: Vec<_> = dims.collect::<Option<_>>()?;
        dims.extend_from_slice(&view.dims[1..]);
        in_order.then(|| View {
            dims,
            ..view.clone()
        })
    }

    /// Lowers a node that no attention stands behind, of masks as numbers: whether it reads any.
    pub(super) fn on_counted(&mut self, node: &Node) -> Result<bool, Problem> {
        let mut masks = Vec::new();
        for id in node.inputs.iter().copied().flatten() {
            if let Value::Counts(view) = self.value(id).clone() {
                masks.push((id, Value::View(view)));
            }
        }
        if masks.is_empty() {
            return Ok(false);
        }
        let lowered = self.with_values(masks, |lowering| lowering.computed(node));
        lowered.map(|()| true)
    }

    /// The tensor that tells the keys that count, from what a node adds to their products.
    pub(super) fn mask_of_keys(
        &mut self,
        node: &Node,
        keys: TensorId,
        padding: &View,
    ) -> Result<TensorId, Problem> {
        let repeats = |dim: &[_]| {
            dim.iter()
                .all(|digit: &super::view_algebra::Factor| digit.axis == Axis::Repeat)
        };
        let shape = self.shape(keys);
        let fits = match &padding.dims[..] {
            [_, heads, queries, _] => {
                padding.is_batch(0)
                    && repeats(heads)
                    && repeats(queries)
                    && padding.is_whole(3, Axis::Column, shape.width)
                    && shape.height == 1
            }
            _ => false,
        };
        if !fits {
            let found = Value::Counts(padding.clone());
            let expected = "a mask of the keys, (N, 1 or heads, 1 or queries, keys)";
            return Err(self.wrong(1, "mask", &found, expected));
        }
        Ok(self.narrowed(node, padding)?.tensor)
    }
}

/// Places in (N, tokens) told by two numbers, as places in N times tokens: their sizes and themselves.
fn flat(view: &View, places: &Constant) -> Option<(Vec<Dim>, Vec<Integer>)> {
    let [Dim::Batches(1), Dim::Known(tokens)] = view.sizes()[..] else {
        return None;
    };
    let sizes = places.sizes();
    let (Dim::Known(2), sizes) = sizes.split_last()? else {
        return None;
    };
    let integers = places.integers()?;
    let pairs = integers.as_chunks::<2>().0.iter();
    let flat = pairs.map(|[image, token]| token.plus(*image, tokens));
    Some((sizes.to_vec(), flat.collect::<Option<_>>()?))
}
