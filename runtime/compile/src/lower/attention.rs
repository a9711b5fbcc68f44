//! Attention between tokens.
//!
//! Exporters write it as two products of matrices with a softmax between them, the heads moved beside the batch; none of the steps between is computed, they are values
//! of their own ([`Scores`]) until the second product makes one operator of all.

use punctual_model::{ChannelRun, Tensor, TensorId};

use super::view_algebra::{Axis, Factor, View, normal};
use super::{Lowering, Value};
use crate::draft::{DraftKind, Sequence};
use crate::fold::Dim;
use crate::graph::{Attributes, Data, Node};
use crate::problem::Problem;

/// Products of a query with keys, on their way to an attention.
#[derive(Clone, Debug)]
pub(crate) struct Scores {
    query: View,
    key: TensorId,
    heads: u32,
    scale: f32,
    /// One channel of the key's pixels.
    mask: Option<TensorId>,
    /// Whether the softmax over the keys has been taken.
    softmaxed: bool,
}

impl Lowering<'_> {
    /// The product of two computed tensors: a query and keys, or weights and values.
    pub(super) fn attend(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let unfit = |lowering: &Self| Problem::Attention {
            first: lowering
                .operand(node, 0)
                .map_or_else(String::new, |v| lowering.describe(v)),
            second: lowering
                .operand(node, 1)
                .map_or_else(String::new, |v| lowering.describe(v)),
        };
        let scaled = |value: Option<&Value>| match value {
            Some(Value::View(view)) => Some((view.clone(), 1.0)),
            Some(Value::Scaled(view, factor)) => Some((view.clone(), *factor)),
            _ => None,
        };
        let Some((second, factor)) = scaled(self.operand(node, 1)) else {
            return Err(unfit(self));
        };
        if let Some(Value::Scores(scores)) = self.operand(node, 0) {
            let scores = scores.clone();
            let second = self.with_heads(node, &second, false)?;
            let value_heads = heads(&second, self.shape(second.tensor), false);
            if !scores.softmaxed
                || value_heads != Some(scores.heads)
                || outer(&second) != outer(&scores.query)
                || factor != 1.0
            {
                return Err(unfit(self));
            }
            let Scores {
                query,
                key,
                heads,
                scale,
                mask,
                ..
            } = scores;
            let kind = DraftKind::Sequence(Sequence::Attention {
                heads,
                scale,
                by_row: false,
                bias: None,
            });
            let shape = self.shape(query.tensor);
            let others: Vec<TensorId> = [key, second.tensor].into_iter().chain(mask).collect();
            let output = self.emit(node, kind, query.tensor, &others, shape)?;
            return self.set(node, Value::View(query.of(output)));
        }
        let Some((first, other_factor)) = scaled(self.operand(node, 0)) else {
            return Err(unfit(self));
        };
        let query = self.with_heads(node, &first, false)?;
        let second = self.with_heads(node, &second, true)?;
        let query_heads = heads(&query, self.shape(query.tensor), false);
        let key_heads = heads(&second, self.shape(second.tensor), true);
        let is_same = query_heads == key_heads && outer(&query) == outer(&second);
        let (Some(heads), true) = (query_heads, is_same) else {
            return Err(unfit(self));
        };
        let scores = Scores {
            query,
            key: second.tensor,
            heads,
            scale: factor * other_factor,
            mask: None,
            softmaxed: false,
        };
        self.set(node, Value::Scores(scores))
    }

    /// What a node does to scores on their way: a factor, a mask, the softmax. `None` if it reads no scores.
    pub(super) fn on_scores(&mut self, node: &Node) -> Result<Option<Value>, Problem> {
        let scores = |at| match self.operand(node, at) {
            Some(Value::Scores(scores)) => Some(scores.clone()),
            _ => None,
        };
        let (at, Some(mut scores)) = (match scores(0) {
            Some(scores) => (1, Some(scores)),
            None => (0, scores(1)),
        }) else {
            return Ok(None);
        };
        if node.operator == "Add" && !scores.softmaxed {
            match (self.operand(node, at), scores.mask) {
                (Some(Value::Padding(None)), _) => {}
                (Some(Value::Padding(Some(padding))), None) => {
                    let padding = padding.clone();
                    scores.mask = Some(self.mask_of_keys(node, scores.key, &padding)?);
                }
                _ if self.is_zeros(node, at) => {}
                _ => return Ok(None),
            }
            return Ok(Some(Value::Scores(scores)));
        }
        let factor = self.scalar(node, at);
        match (node.operator.as_str(), factor) {
            ("IsNaN", None) if scores.softmaxed => return Ok(Some(Value::NoNumbers)),
            ("Mul", Some(factor)) if !scores.softmaxed => scores.scale *= factor,
            ("Div", Some(factor)) if !scores.softmaxed && at == 1 => scores.scale /= factor,
            ("Softmax", None) if !scores.softmaxed => {
                let mut attributes = Attributes::of(node);
                if !matches!(attributes.int("axis", -1)?, -1 | 3) {
                    return Ok(None);
                }
                attributes.finish()?;
                scores.softmaxed = true;
            }
            _ => return Ok(None),
        }
        Ok(Some(Value::Scores(scores)))
    }

    pub(super) fn scalar(&self, node: &Node, at: usize) -> Option<f32> {
        match self.operand(node, at)? {
            Value::Constant(constant) => match constant.data {
                Data::Floats(ref values) if values.len() == 1 => Some(values[0]),
                _ => None,
            },
            _ => None,
        }
    }

    /// A factor of a tensor's heads, which waits for the product that they go to.
    pub(super) fn scale_heads(&self, node: &Node) -> Option<Value> {
        let (view, factor) = match (self.operand(node, 0)?, self.operand(node, 1)?) {
            (Value::View(view), _) => (view, self.scalar(node, 1)?),
            (_, Value::View(view)) => (view, self.scalar(node, 0)?),
            _ => return None,
        };
        let shape = self.shape(view.tensor);
        let channels = |dim: &Vec<Factor>| dim.iter().any(|digit| digit.axis == Axis::Channel);
        let split = view.dims.iter().filter(|dim| channels(dim)).count() > 1;
        let is_shuffle = view.channel_runs(shape).is_some();
        (split && !is_shuffle).then(|| Value::Scaled(view.clone(), factor))
    }

    /// Multiplies what waits for its factor where something else than a product reads it.
    pub(super) fn compute_scaled(&mut self, node: &Node) -> Result<(), Problem> {
        if node.operator == "MatMul" {
            return Ok(());
        }
        for id in node.inputs.iter().copied().flatten() {
            if let Value::Scaled(view, factor) = self.value(id) {
                let (view, factor) = (view.clone(), *factor);
                let scaled = self.scaled(node, &view, factor)?;
                self.values[id.0] = Value::View(scaled);
            }
        }
        Ok(())
    }

    /// A view of heads that lies as an attention reads it, moved if need be: each position of the outer dimensions that
    /// is none of the batch, of a window as of a head, is a head.
    fn with_heads(&mut self, node: &Node, view: &View, swapped: bool) -> Result<View, Problem> {
        let narrow = self.narrowed(node, view)?;
        if heads(&narrow, self.shape(narrow.tensor), swapped).is_some() {
            return Ok(narrow);
        }
        let rank = view.dims.len();
        let Some(last) = rank.checked_sub(2).filter(|_| view.has_one_batch()) else {
            return Ok(narrow);
        };
        let mut axes = vec![Axis::Channel; rank];
        axes[last + usize::from(swapped)] = Axis::Column;
        self.copied_on(node, view, &axes)
    }

    /// A view of consecutive channels as a view of a tensor of only these.
    pub(super) fn narrowed(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        let shape = self.shape(view.tensor);
        let digits = view.dims.iter().flatten();
        let digits = digits.filter(|digit| digit.axis == Axis::Channel);
        let count = digits.clone().map(|digit| digit.extent).product::<u64>();
        let span = 1 + digits
            .map(|digit| (digit.extent - 1) * digit.step)
            .sum::<u64>();
        let first = view.start[0];
        if span != count || count == u64::from(shape.channels) {
            return Ok(view.clone());
        }
        let [first, count] = [first, count].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        let runs = vec![ChannelRun {
            source: 0,
            first,
            count,
        }];
        let narrow = Tensor {
            channels: count,
            ..shape
        };
        let kind = DraftKind::Gather { runs };
        let mut result = view.of(self.emit(node, kind, view.tensor, &[], narrow)?);
        result.start[0] = 0;
        Ok(result)
    }
}

/// The dimensions but for the last two.
fn outer(view: &View) -> Vec<Dim> {
    let mut sizes = view.sizes();
    sizes.truncate(sizes.len().saturating_sub(2));
    sizes
}

/// The number of heads of a tensor seen as (N, heads, pixels, channels of a head), or with the last
/// two swapped, N and heads in one or two dimensions; all pixels and channels.
fn heads(view: &View, shape: Tensor, swapped: bool) -> Option<u32> {
    let rank = view.dims.len();
    let (outer, inner) = view.dims.split_at(rank.checked_sub(2)?);
    let (pixels, channels) = if swapped {
        (&inner[1], &inner[0])
    } else {
        (&inner[0], &inner[1])
    };
    let image = View::image(view.tensor, shape);
    let all = [&image.dims[2][..], &image.dims[3]].concat();
    let size = channels.iter().map(|digit| digit.extent).product::<u64>();
    let heads = u64::from(shape.channels).checked_div(size)?;
    let digit = |step, extent| Factor {
        axis: Axis::Channel,
        step,
        extent,
    };
    let one = |digit: Factor| {
        if digit.extent == 1 {
            vec![]
        } else {
            vec![digit]
        }
    };
    let expected = [&image.dims[0][..], &one(digit(size, heads))].concat();
    let fits = view.start == [0; 3]
        && heads * size == u64::from(shape.channels)
        && *pixels == all
        && *channels == one(digit(1, size))
        && normal(outer.concat()) == expected;
    fits.then(|| u32::try_from(heads).ok()).flatten()
}
