//! Sequences of tokens: layers of each token, attention between them, constants beside them.
//!
//! A token is a pixel. Exporters write attention as two products of matrices with a softmax between
//! them, the heads moved beside the batch; none of the steps between is computed, they are values
//! of their own ([`Scores`]) until the second product makes one operator of all.

use std::rc::Rc;

use punctual_model::{Activation, ChannelRun, Extent, Padding, Tensor, TensorId};

use super::operands::Floats;
use super::view_algebra::{Axis, Factor, View};
use super::views::position;
use super::{Lowering, Value};
use crate::draft::{DraftKind, Sequence};
use crate::graph::{Attributes, Constant, Data, Node};
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
    pub(super) fn layer_normalization(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", -1)?;
        let epsilon = attributes.float("epsilon", 1e-5)?;
        attributes.ignore("stash_type"); // f32 throughout.
        attributes.finish()?;
        let view = self.elementwise(node, 0)?;
        let last = view.dims.len() - 1;
        let channels = self.shape(view.tensor).channels;
        if position("axis", axis, view.dims.len())? != last
            || !view.is_whole(last, Axis::Channel, channels)
        {
            let expected = "a tensor whose channels come last, normalised along them";
            return Err(self.wrong(0, "data", &Value::View(view), expected));
        }
        let scale = self.floats(node, 1, "scale")?.data;
        let bias = self.optional_floats(node, 2, "bias")?;
        let bias = bias.map_or_else(|| vec![0.0; channels as usize], |bias| bias.data);
        for (position, what, found) in [(1, "scale", &scale), (2, "bias", &bias)] {
            if found.len() != channels as usize {
                let value = self.required(node, position, what)?;
                return Err(self.wrong(position, what, value, "one value a channel"));
            }
        }
        let kind = Sequence::LayerNorm {
            scale,
            bias,
            epsilon,
        };
        let shape = self.shape(view.tensor);
        let output = self.emit(node, DraftKind::Sequence(kind), view.tensor, &[], shape)?;
        self.set(node, Value::View(view.of(output)))
    }

    /// A matrix applied to the channels of each token: how the tokens are seen, if the first
    /// operand is a tensor of tokens.
    pub(super) fn tokens_of(&self, node: &Node) -> Option<View> {
        let Some(Value::View(view)) = self.operand(node, 0) else {
            return None;
        };
        let shape = self.shape(view.tensor);
        let last = view.dims.len().checked_sub(1)?;
        let whole = view.is_whole(last, Axis::Channel, shape.channels) && view.covers(shape);
        (whole && !view.is_features(shape)).then(|| view.clone())
    }

    /// `weights` are `[output][channel]`.
    pub(super) fn each_token(
        &mut self,
        node: &Node,
        view: &View,
        weights: Vec<f32>,
        bias: Vec<f32>,
    ) -> Result<(), Problem> {
        let one = Extent {
            height: 1,
            width: 1,
        };
        let channels = super::convolution::dimension(bias.len())?;
        let kind = DraftKind::Conv {
            weights,
            bias,
            kernel: one,
            stride: one,
            padding: Padding {
                top: 0,
                left: 0,
                bottom: 0,
                right: 0,
            },
            groups: 1,
            activation: Activation::None,
        };
        let shape = Tensor {
            channels,
            ..self.shape(view.tensor)
        };
        let output = self.emit(node, kind, view.tensor, &[], shape)?;
        let mut result = view.of(output);
        let last = result.dims.len() - 1;
        result.dims[last] = View::image(output, shape).dims[1].clone();
        self.set(node, Value::View(result))
    }

    /// Constant tokens joined before others, if that is what the node does.
    pub(super) fn join_tokens(&mut self, node: &Node) -> Result<bool, Problem> {
        let [Some(Value::Constant(constant)), Some(Value::View(view))] =
            [self.operand(node, 0), self.operand(node, 1)]
        else {
            return Ok(false);
        };
        let (constant, view) = (Rc::clone(constant), view.clone());
        let shape = self.shape(view.tensor);
        let mut attributes = Attributes::of(node);
        let axis = position("axis", attributes.int("axis", 1)?, view.dims.len())?;
        attributes.finish()?;
        let Data::Floats(values) = &constant.data else {
            return Ok(false);
        };
        let fits = node.inputs.len() == 2
            && axis == 1
            && is_sequence(&view, shape)
            && matches!(constant.dims[..], [1, _, channels] if channels == shape.channels as usize);
        if !fits {
            return Ok(false);
        }
        let prefix = super::convolution::dimension(constant.dims[1])?;
        let mut table = values.clone();
        let pixels = u64::from(shape.height) * u64::from(shape.width);
        table.resize(
            values.len() + (pixels * u64::from(shape.channels)) as usize,
            0.0,
        );
        self.emit_tokens(node, view.tensor, prefix, table)?;
        Ok(true)
    }

    /// A constant of one value a channel of each token, added, if that is what the node does.
    pub(super) fn add_to_tokens(
        &mut self,
        node: &Node,
        data: usize,
        addend: &Floats,
    ) -> Result<bool, Problem> {
        let view = self.view(node, data)?.clone();
        let shape = self.shape(view.tensor);
        let expected = [shape.width, shape.channels].map(|size| size as usize);
        let fits = match addend.dims[..] {
            [1, tokens, channels] | [tokens, channels] => [tokens, channels] == expected,
            _ => false,
        };
        if !fits || shape.height != 1 || !is_sequence(&view, shape) {
            return Ok(false);
        }
        self.emit_tokens(node, view.tensor, 0, addend.data.clone())?;
        Ok(true)
    }

    fn emit_tokens(
        &mut self,
        node: &Node,
        input: TensorId,
        prefix: u32,
        table: Vec<f32>,
    ) -> Result<(), Problem> {
        let shape = self.shape(input);
        let pixels = u64::from(shape.height) * u64::from(shape.width);
        let width = u32::try_from(pixels + u64::from(prefix)).unwrap_or(u32::MAX);
        let row = Tensor {
            height: 1,
            width,
            ..shape
        };
        let kind = DraftKind::Sequence(Sequence::Tokens { prefix, table });
        let output = self.emit(node, kind, input, &[], row)?;
        let image = View::image(output, row);
        let dims = [0, 3, 1].map(|at| image.dims[at].clone()).to_vec();
        self.set(node, Value::View(View { dims, ..image }))
    }

    /// One token as features, if that is what the view is.
    pub(super) fn one_token(
        &mut self,
        node: &Node,
        view: &View,
    ) -> Result<Option<TensorId>, Problem> {
        let shape = self.shape(view.tensor);
        let is_token = view.dims.len() == 2
            && shape.height == 1
            && view.is_batch(0)
            && view.is_whole(1, Axis::Channel, shape.channels);
        let Ok(column) = u32::try_from(view.start[2]) else {
            return Ok(None);
        };
        if !is_token {
            return Ok(None);
        }
        let kind = DraftKind::Sequence(Sequence::Token { column });
        let features = Tensor::features(shape.channels);
        self.emit(node, kind, view.tensor, &[], features).map(Some)
    }

    /// A table's rows, looked up by numbers computed from the input.
    pub(super) fn embedding(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        attributes.only("axis", 0, "0, the rows of a table")?;
        attributes.finish()?;
        let table = self.floats(node, 0, "table")?;
        let view = self.elementwise(node, 1)?;
        let shape = self.shape(view.tensor);
        let ([_, channels], 1) = (&table.dims[..], shape.channels) else {
            let value = Value::View(view);
            return Err(self.wrong(1, "indices", &value, "one number a token, of a table's row"));
        };
        let shape = Tensor {
            channels: super::convolution::dimension(*channels)?,
            ..shape
        };
        let kind = DraftKind::Sequence(Sequence::Embedding { table: table.data });
        let output = self.emit(node, kind, view.tensor, &[], shape)?;
        let mut result = view.of(output);
        result.dims.push(View::image(output, shape).dims[1].clone());
        self.set(node, Value::View(result))
    }

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
        let second = self.narrowed(node, &second)?;
        if let Some(Value::Scores(scores)) = self.operand(node, 0) {
            let scores = scores.clone();
            let value_heads = heads(&second, self.shape(second.tensor), false);
            if !scores.softmaxed || value_heads != Some(scores.heads) || factor != 1.0 {
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
            let kind = DraftKind::Sequence(Sequence::Attention { heads, scale });
            let shape = self.shape(query.tensor);
            let others: Vec<TensorId> = [key, second.tensor].into_iter().chain(mask).collect();
            let output = self.emit(node, kind, query.tensor, &others, shape)?;
            return self.set(node, Value::View(query.of(output)));
        }
        let Some((first, other_factor)) = scaled(self.operand(node, 0)) else {
            return Err(unfit(self));
        };
        let query = self.narrowed(node, &first)?;
        let query_heads = heads(&query, self.shape(query.tensor), false);
        let key_heads = heads(&second, self.shape(second.tensor), true);
        let (Some(heads), true) = (query_heads, query_heads == key_heads) else {
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

    /// What a node does to scores on their way: a factor, a mask, the softmax. `None` if it reads
    /// no scores.
    pub(super) fn on_scores(&self, node: &Node) -> Result<Option<Value>, Problem> {
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
        let factor = self.scalar(node, at);
        match (node.operator.as_str(), factor) {
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

    /// A constant of one value.
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

    /// A view of consecutive channels as a view of a tensor of only these.
    fn narrowed(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
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

    /// Rows of a constant known when compiling, or the same constant for each image.
    pub(super) fn constant_as_it_is(&self, node: &Node) -> Option<Value> {
        let Some(Value::Constant(constant)) = self.operand(node, 0) else {
            return None;
        };
        let sizes = self.sizes(node, 1, "shape").ok()?;
        let behind = sizes.len().checked_sub(constant.dims.len())?;
        let same = constant
            .dims
            .iter()
            .zip(&sizes[behind..])
            .all(|(&size, to)| match *to {
                crate::fold::Dim::Known(to) => to == size as i64 || to == 1,
                crate::fold::Dim::Batches(times) => size == 1 && times == 1,
            });
        same.then(|| {
            let dims = std::iter::repeat_n(1, behind).chain(constant.dims.iter().copied());
            Value::Constant(Rc::new(Constant {
                dims: dims.collect(),
                data: constant.data.clone(),
            }))
        })
    }
}

/// Whether the view is (N, all pixels, all channels).
fn is_sequence(view: &View, shape: Tensor) -> bool {
    let image = View::image(view.tensor, shape);
    let pixels = [&image.dims[2][..], &image.dims[3]].concat();
    view.dims.len() == 3 && view.dims == [image.dims[0].clone(), pixels, image.dims[1].clone()]
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
        && outer.concat() == expected;
    fits.then(|| u32::try_from(heads).ok()).flatten()
}
