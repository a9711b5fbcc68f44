//! Attention between tokens.
//!
//! Exporters write it as two products of matrices with a softmax between them, the heads, or the windows of an image,
//! moved next to the batch. None of the steps between is computed; they are values of their own ([`Scores`]) until the
//! second product makes one operator of all, or until something else reads them.

use punctual_model::{Attention, BiasForm, ChannelRun, Gather, Tensor, TensorId};
use punctual_types::{BinaryFunction, HEAD_CHANNELS_MAX};

use super::lowering::Lowering;
use super::scores::{Scores, outer};
use super::value::Value;
use super::view_algebra::{Axis, BATCH, Factor, View, normal};
use crate::draft::Computation;
use crate::fold::layout::resolved;
use crate::graph::{Attributes, Data, Floats, Node};
use crate::integer::Dim;
use crate::problem::Problem;

/// Most values of what is added to an attention's products.
const BIAS_MAX: u64 = 1 << 26;

/// What is added to an attention's products.
struct Bias {
    form: BiasForm,
    /// `[row][head][query][key]`, as the form says.
    values: Vec<f32>,
}

impl crate::write::Written for Attention {}

impl Lowering<'_> {
    /// Applies a node to scores: a factor, an addend or the softmax. `None` if it reads no scores, or they must be
    /// computed for it.
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
        let is_sum = node.operator == "Add" && !scores.softmaxed;
        match (self.operand(node, at), is_sum) {
            (Some(Value::Padding(None)), true) => return Ok(Some(Value::Scores(scores))),
            (Some(Value::Padding(Some(padding))), true) if scores.padding.is_none() => {
                scores.padding = Some(padding.clone());
                return Ok(Some(Value::Scores(scores)));
            }
            _ => {}
        }
        let factor = self.scalar(node, at);
        let taken = match (node.operator.as_str(), factor) {
            ("IsNaN", None) if scores.softmaxed => return Ok(Some(Value::NoNumbers)),
            ("Identity" | "Dropout", _) => true,
            ("Reshape" | "Squeeze" | "Unsqueeze", _) if at == 1 => {
                return self.scores_reshaped(node, &scores);
            }
            ("Add", _) => self.constant_added(node, at, &mut scores),
            ("Mul", Some(factor)) if !scores.softmaxed => scores.times(factor),
            ("Div", Some(factor)) if !scores.softmaxed && at == 1 => scores.times(1.0 / factor),
            ("Mul", None) => self.constant_factor(node, at, &mut scores)?,
            ("Softmax", None) if !scores.softmaxed => {
                let rank = scores.query.dims.len() as i64;
                let axis = Attributes::of(node).int("axis", -1)?;
                scores.softmaxed = axis == -1 || axis == rank - 1;
                scores.softmaxed
            }
            _ => false,
        };
        Ok(taken.then_some(Value::Scores(scores)))
    }

    fn scores_reshaped(&mut self, node: &Node, scores: &Scores) -> Result<Option<Value>, Problem> {
        let from = scores.sizes();
        let to = match node.operator.as_str() {
            "Reshape" => self.sizes_to(node, &from)?,
            _ => return Ok(None),
        };
        let fixed = self.fixed_batch();
        let to = resolved(&from, &to, fixed);
        let reshaped = to.and_then(|to| scores.reshaped(&to, fixed));
        Ok(reshaped.map(Value::Scores))
    }

    /// Takes in a constant that is added, and returns whether that is possible.
    fn constant_added(&self, node: &Node, at: usize, scores: &mut Scores) -> bool {
        if scores.softmaxed {
            return false;
        }
        let Ok(mut floats) = self.floats(node, at, "constant") else {
            return false;
        };
        let sizes = scores.sizes();
        let Some(before) = sizes.len().checked_sub(floats.dims.len()) else {
            return false;
        };
        let fits = |(size, own): (&Dim, &usize)| *own == 1 || *size == Dim::Known(*own as i64);
        if !sizes[before..].iter().zip(&floats.dims).all(fits) {
            return false;
        }
        if floats.data.iter().all(|value| *value == 0.0) {
            return true;
        }
        // A mask's minus infinity becomes a finite number small enough for no weight.
        floats
            .data
            .iter_mut()
            .filter(|value| **value == f32::NEG_INFINITY)
            .for_each(|value| *value = f32::MIN);
        scores.added.push((outer(&scores.query), floats));
        true
    }

    /// Takes in a factor that differs by head or query by scaling the query, and returns whether that is possible.
    fn constant_factor(
        &mut self,
        node: &Node,
        at: usize,
        scores: &mut Scores,
    ) -> Result<bool, Problem> {
        let Ok(floats) = self.floats(node, at, "constant") else {
            return Ok(false);
        };
        let rank = scores.query.dims.len();
        let fits = scores.is_plain() && floats.dims.len() <= rank && floats.dims.last() == Some(&1);
        if !fits {
            return Ok(false);
        }
        let query = self.covering(node, &scores.query)?;
        scores.query = match self.per_channel(&query, &floats) {
            Some(scale) => {
                let shift = vec![0.0; scale.len()];
                let affine = Computation::affine(scale, shift);
                query.of(self.emit(node, affine, query.tensor, &[])?)
            }
            None => self.with_table(node, BinaryFunction::Multiply, &query, &floats, false)?,
        };
        Ok(true)
    }

    /// Whether a node multiplies matrices that are both computed, which scores may be a part of.
    pub(super) fn is_product(&self, node: &Node) -> bool {
        match node.operator.as_str() {
            "MatMul" => !self.is_dense(node),
            operator => operator == "Einsum",
        }
    }

    /// Computes the scores that a node reads, if the node is no part of an attention.
    pub(super) fn compute_scores(&mut self, node: &Node) -> Result<(), Problem> {
        if self.is_product(node) {
            return Ok(());
        }
        for id in node.inputs.iter().copied().flatten() {
            if let Value::Scores(scores) = self.value(id) {
                let scores = scores.clone();
                let view = self.computed_scores(node, &scores)?;
                self.values[id.0] = Value::View(view);
            }
        }
        Ok(())
    }

    /// Computes scores that are no part of an attention.
    pub(super) fn computed_scores(
        &mut self,
        node: &Node,
        scores: &Scores,
    ) -> Result<View, Problem> {
        if let Some(padding) = &scores.padding {
            let found = Value::Counts(padding.clone());
            let expected =
                "a mask of the keys of an attention, (N, 1 or heads, 1 or queries, keys)";
            return Err(self.wrong(1, "mask", &found, expected));
        }
        let Scores {
            query, key, scale, ..
        } = scores;
        let query = self.times(node, query, *scale)?;
        let last = key.dims.len() - 1;
        let mut order: Vec<usize> = (0..=last).collect();
        order.swap(last - 1, last);
        let operands = [query, key.permute(&order)].map(Value::View);
        let [first, second] = operands.each_ref().map(super::products::operand);
        let unfit = Problem::Product {
            first: self.describe(&operands[0]),
            second: self.describe(&operands[1]),
        };
        let (Some(first), Some(second)) = (first, second) else {
            return Err(unfit);
        };
        let mut view = self.matrices(node, first, second)?.ok_or(unfit)?;
        let sizes = scores.sizes();
        for (outer, floats) in &scores.added {
            let to = [&outer[..], &sizes[last - 1..]].concat();
            let reshaped = self.reshaped(node, &view, &to)?;
            let reshaped = self.covering(node, &reshaped)?;
            view = self.with_table(node, BinaryFunction::Add, &reshaped, floats, false)?;
        }
        let view = self.reshaped(node, &view, &sizes)?;
        if scores.softmaxed {
            self.softmax_of(node, &view, last, false)
        } else {
            Ok(view)
        }
    }

    /// The attention of scores to a value, (the same outer dimensions, keys, channels); `None` if it is none.
    pub(super) fn attended(
        &mut self,
        node: &Node,
        scores: &Scores,
        value: &View,
    ) -> Result<Option<View>, Problem> {
        let rank = scores.query.dims.len();
        let size = |view: &View| view.dims.last().map(|dim| extent(dim));
        let sizes = [size(&scores.query), size(value)];
        let fits = scores.softmaxed
            && value.dims.len() == rank
            && outer(value) == outer(&scores.query)
            && value.sizes()[rank - 2] == scores.key.sizes()[rank - 2]
            && value.has_one_batch()
            && sizes
                .into_iter()
                .flatten()
                .all(|size| size <= HEAD_CHANNELS_MAX.into());
        if !fits {
            return Ok(None);
        }
        let views = [&scores.query, &scores.key, value];
        let placed = self.of_heads(node, views)?;
        let Placed {
            views: [query, key, value],
            is_window,
            heads,
        } = placed;
        let by_row = is_window.contains(&true);
        let Some(bias) = self.bias_of(scores, &query, &is_window, heads)? else {
            return Ok(None);
        };
        let mask = match &scores.padding {
            Some(padding) => Some(self.mask_of_keys(node, key.tensor, padding)?),
            None => None,
        };
        let scale = scores.scale;
        let attention = Attention {
            heads,
            scale,
            by_row,
            bias: bias.as_ref().map(|bias| bias.form),
        };
        let attention = Computation::new(attention, bias.map(|bias| bias.values));
        let others: Vec<TensorId> = [key.tensor, value.tensor].into_iter().chain(mask).collect();
        let tensor = self.emit(node, attention, query.tensor, &others)?;
        // The query's pixels and heads, the value's channels.
        let [of_query, of_value] = [&query, &value].map(|view| extent(&view.dims[rank - 1]));
        let mut result = query.of(tensor);
        for digit in result.dims[..rank - 1].iter_mut().flatten() {
            if digit.axis == Axis::Channel {
                digit.step = digit.step / of_query * of_value;
            }
        }
        result.dims[rank - 1] = value.dims[rank - 1].clone();
        Ok(Some(result))
    }

    /// Query, key and value as an attention reads them, moved if need be.
    fn of_heads(&mut self, node: &Node, views: [&View; 3]) -> Result<Placed, Problem> {
        let rank = views[0].dims.len();
        let mut narrow = Vec::with_capacity(3);
        for view in views {
            narrow.push(if self.is_narrowed_to_heads(view) {
                self.narrowed(node, view)?
            } else {
                view.clone()
            });
        }
        let heads_of = |view: &View| heads(view, self.shape(view.tensor));
        let found = [0, 1, 2].map(|at| heads_of(&narrow[at]));
        if let [Some(first), Some(second), Some(third)] = found
            && first == second
            && second == third
            && self.shape(narrow[1].tensor).extent() == self.shape(narrow[2].tensor).extent()
            && let Ok(views) = <[View; 3]>::try_from(narrow)
        {
            return Ok(Placed {
                views,
                is_window: vec![false; rank - 2],
                heads: first,
            });
        }
        // A dimension that is nothing but channels of one of them has heads, any other windows.
        let values = |view: &View, at: usize| {
            let digits = view.dims[at].iter().filter(|digit| **digit != BATCH);
            digits.copied().collect::<Vec<Factor>>()
        };
        let channels = |digits: Vec<Factor>| digits.iter().all(|digit| digit.axis == Axis::Channel);
        let is_window: Vec<bool> = (0..rank - 2)
            .map(|at| !views.iter().any(|view| channels(values(view, at))))
            .collect();
        let axis = |dim: usize| match dim {
            dim if dim == rank - 1 => Axis::Channel,
            dim if dim == rank - 2 => Axis::Column,
            dim if is_window[dim] => Axis::Row,
            _ => Axis::Channel,
        };
        let axes: Vec<Axis> = (0..rank).map(axis).collect();
        let mut placed = Vec::with_capacity(3);
        for view in views {
            placed.push(self.laid_on(node, view, &axes)?);
        }
        let heads = (0..rank - 2).filter(|&at| !is_window[at]);
        let heads = heads.map(|at| extent(&views[0].dims[at])).product::<u64>();
        let too_many = |_| Problem::Dimension { value: usize::MAX };
        Ok(Placed {
            views: <[View; 3]>::try_from(placed).unwrap_or_else(|_| unreachable!("three views")),
            is_window,
            heads: u32::try_from(heads).map_err(too_many)?,
        })
    }

    /// On the given axes: as it is, as channels of its tensor that cost nothing to take, or copied.
    fn laid_on(&mut self, node: &Node, view: &View, axes: &[Axis]) -> Result<View, Problem> {
        let narrow = view.start[0] > 0 || !view.covers(self.shape(view.tensor));
        let laid = view.on_axes(axes);
        let lies = laid.is_some_and(|laid| laid.is_of_channels(self.shape(view.tensor)));
        if narrow && lies {
            self.narrowed(node, view)
        } else {
            self.copied_on(node, view, axes)
        }
    }

    /// Whether a view is heads of consecutive channels of its tensor.
    fn is_narrowed_to_heads(&self, view: &View) -> bool {
        let shape = self.shape(view.tensor);
        consecutive(view).is_some_and(|channels| {
            let moved = View {
                start: [0, view.start[1], view.start[2]],
                ..view.clone()
            };
            heads(&moved, Tensor { channels, ..shape }).is_some()
        })
    }

    /// What is added to the products of each window and head; `Some(None)` if nothing is, `None` if it is too much.
    fn bias_of(
        &self,
        scores: &Scores,
        query: &View,
        is_window: &[bool],
        heads: u32,
    ) -> Result<Option<Option<Bias>>, Problem> {
        if scores.added.is_empty() {
            return Ok(Some(None));
        }
        let sizes = scores.sizes();
        let rank = sizes.len();
        let [queries, keys] = [rank - 2, rank - 1].map(|at| match sizes[at] {
            Dim::Known(size) | Dim::Batches(size) => size as usize,
        });
        let extents: Vec<u64> = query.dims[..rank - 2]
            .iter()
            .map(|dim| extent(dim))
            .collect();
        let windows = extents.iter().zip(is_window).filter(|(_, is)| **is);
        let windows = windows.map(|(extent, _)| *extent).product::<u64>();
        let heads = u64::from(heads);
        if windows * heads * (queries * keys) as u64 > BIAS_MAX {
            return Ok(None);
        }
        // The window and the head of each position of the outer dimensions.
        let mut starts = vec![vec![0; scores.added.len()]; (windows * heads) as usize];
        for position in 0..extents.iter().product::<u64>() {
            let (mut rest, mut place) = (position, [0, 0]);
            let mut counted = [1, 1];
            for (extent, is_window) in extents.iter().zip(is_window).rev() {
                let of = usize::from(!is_window);
                place[of] += rest % extent * counted[of];
                counted[of] *= extent;
                rest /= extent;
            }
            starts[(place[0] * heads + place[1]) as usize] = scores
                .added
                .iter()
                .map(|(outer, floats)| start(outer, floats, position))
                .collect();
        }
        let of = |window: u64, head: u64| &starts[(window * heads + head) as usize];
        let each = |window: u64| (0..heads).map(move |head| (window, head));
        let mut all = (0..windows).flat_map(each);
        let by_row = all
            .clone()
            .any(|(window, head)| of(window, head) != of(0, head));
        let by_head = all.any(|(window, head)| of(window, head) != of(window, 0));
        let rows = if by_row { windows } else { 1 };
        let heads = if by_head { heads } else { 1 };
        let mut values = Vec::with_capacity((rows * heads) as usize * queries * keys);
        for (row, head) in (0..rows).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            for at in 0..queries * keys {
                let (query, key) = (at / keys, at % keys);
                let terms = scores.added.iter().zip(of(row, head));
                let terms = terms.map(|((_, floats), start)| added(floats, *start, query, key));
                // Two addends that mask a key sum to minus infinity, which is clamped.
                values.push(terms.sum::<f32>().max(f32::MIN));
            }
        }
        let form = BiasForm { by_row, by_head };
        Ok(Some(Some(Bias { values, form })))
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

    /// A view of consecutive channels as a view of a tensor of only these.
    pub(super) fn narrowed(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        let shape = self.shape(view.tensor);
        let Some(count) = consecutive(view).filter(|count| *count != shape.channels) else {
            return Ok(view.clone());
        };
        let first = u32::try_from(view.start[0]).unwrap_or(u32::MAX);
        let runs = vec![ChannelRun {
            source: 0,
            first,
            count,
        }];
        let mut result = view.of(self.emit(node, Gather { runs }, view.tensor, &[])?);
        result.start[0] = 0;
        Ok(result)
    }
}

/// Query, key and value as an attention reads them.
struct Placed {
    views: [View; 3],
    /// Of each outer dimension, whether its positions are windows, which are rows, or heads.
    is_window: Vec<bool>,
    heads: u32,
}

/// How many channels a view has, if they follow each other.
fn consecutive(view: &View) -> Option<u32> {
    let digits = view.dims.iter().flatten();
    let digits = digits.filter(|digit| digit.axis == Axis::Channel);
    let count = digits.clone().map(|digit| digit.extent).product::<u64>();
    let span = 1 + digits
        .map(|digit| (digit.extent - 1) * digit.step)
        .sum::<u64>();
    u32::try_from(count).ok().filter(|_| span == count)
}

/// The positions of a dimension, of one image.
fn extent(dim: &[Factor]) -> u64 {
    dim.iter().map(|digit| digit.extent).product()
}

/// Where in what is added the table for a position of the outer dimensions begins.
fn start(outer: &[Dim], floats: &Floats, position: u64) -> usize {
    let [queries, keys] = inner(floats);
    let (mut rest, mut place, mut step) = (position as usize, 0, queries * keys);
    for (at, size) in outer.iter().enumerate().rev() {
        let (Dim::Known(size) | Dim::Batches(size)) = *size;
        let digit = rest % size as usize;
        rest /= size as usize;
        // The dimensions are aligned at the last.
        let own = (at + floats.dims.len()).checked_sub(outer.len() + 2);
        let own = own.map_or(1, |at| floats.dims[at]);
        if own > 1 {
            place += digit * step;
        }
        step *= own;
    }
    place
}

/// The sizes of the last two dimensions, 1 where there are fewer.
fn inner(floats: &Floats) -> [usize; 2] {
    let at = |back: usize| {
        let at = floats.dims.len().checked_sub(back);
        at.map_or(1, |at| floats.dims[at])
    };
    [at(2), at(1)]
}

/// What is added for a query and a key, of a table that begins there.
fn added(floats: &Floats, start: usize, query: usize, key: usize) -> f32 {
    let [queries, keys] = inner(floats);
    let query = if queries > 1 { query } else { 0 };
    let key = if keys > 1 { key } else { 0 };
    floats.data[start + query * keys + key]
}

/// The number of heads of a tensor seen as (N, heads, pixels, channels of a head), N and heads in one or two dimensions;
/// all pixels and channels.
fn heads(view: &View, shape: Tensor) -> Option<u32> {
    let rank = view.dims.len();
    let (outer, inner) = view.dims.split_at(rank.checked_sub(2)?);
    let (pixels, channels) = (&inner[0], &inner[1]);
    let image = View::image(view.tensor, shape);
    let all = [&image.dims[2][..], &image.dims[3]].concat();
    let size = extent(channels);
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
