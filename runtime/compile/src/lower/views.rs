//! Operators that move nothing: they give a tensor other dimensions, or name a constant.

use std::ops::Range;
use std::rc::Rc;

use super::joined::Part;
use super::lowering::Lowering;
use super::operands::describe_dims;
use super::value::Value;
use super::view_algebra::View;
use super::vocabulary::{OnnxOperator, family};
use crate::fold::layout::{product, resolved};
use crate::graph::{Attribute, Attributes, Constant, Data, Node};
use crate::integer::{Dim, Integer};
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Expand" => lower expand() fold arranged::expand,
    "Flatten" => lower flatten() fold arranged::flatten,
    "Gather" => lower gather() fold matched::gather,
    "Reshape" => lower reshape() fold arranged::reshape,
    "Slice" => lower slice() fold arranged::slice,
    "Squeeze" => lower squeeze() fold arranged::squeeze,
    "Tile" => lower tile() fold arranged::tile,
    "Transpose" => lower transpose() fold arranged::transpose,
    "Unsqueeze" => lower unsqueeze() fold arranged::unsqueeze,
};

/// Most slices that are joined to one.
const SLICES_MAX: usize = 8;
/// Most copies that a tile joins where several positions are repeated.
const TILES_MAX: u64 = 255;

impl Lowering<'_> {
    /// The dimensions before `axis` become one, and those from it on.
    pub(super) fn flatten(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 1)?;
        attributes.finish()?;
        let view = self.view(node, 0)?;
        let from = view.sizes();
        let axis = if axis == from.len() as i64 {
            from.len()
        } else {
            position("axis", axis, from.len())?
        };
        let halves = [&from[..axis], &from[axis..]];
        let to: Option<Vec<Dim>> = halves.into_iter().map(product).collect();
        self.reshape_to(node, &to.unwrap_or_default())
    }

    pub(super) fn reshape(&mut self, node: &Node) -> Result<(), Problem> {
        let from = self.view(node, 0)?.sizes();
        let to = self.sizes_to(node, &from)?;
        self.reshape_to(node, &to)
    }

    /// The sizes that a reshape asks for; there may be a -1 among them.
    pub(super) fn sizes_to(&self, node: &Node, from: &[Dim]) -> Result<Vec<Dim>, Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let zero_is_zero = attributes.int("allowzero", 0)? != 0;
        attributes.finish()?;
        let mut to = self.sizes(node, 1, "shape")?;
        if !zero_is_zero {
            for (at, dim) in to.iter_mut().enumerate() {
                if *dim == Dim::Known(0) {
                    *dim = from.get(at).copied().unwrap_or(*dim);
                }
            }
        }
        Ok(to)
    }

    /// The batch size that a file was exported for, if it names one.
    pub(super) fn fixed_batch(&self) -> Option<u64> {
        let fixed = self.fixed?;
        u64::try_from(fixed).ok().filter(|&batch| batch > 0)
    }

    fn reshape_to(&mut self, node: &Node, to: &[Dim]) -> Result<(), Problem> {
        let view = self.view(node, 0)?.clone();
        let view = self.reshaped(node, &view, to)?;
        self.set(node, Value::View(view))
    }

    pub(super) fn reshaped(
        &mut self,
        node: &Node,
        view: &View,
        to: &[Dim],
    ) -> Result<View, Problem> {
        // A file exported for a fixed batch size names it.
        let fixed = self.fixed_batch();
        let from = view.sizes();
        let unfit = || Problem::Reshape {
            from: describe_dims(&from),
            to: describe_dims(to),
        };
        let sizes = resolved(&from, to, fixed).ok_or_else(unfit)?;
        if let Some(joined) = self.joined_reshaped(node, view, &sizes)? {
            return Ok(joined);
        }
        if let Some(view) = view.reshape(&sizes, fixed) {
            return Ok(view);
        }
        // Digits that do not divide each other do once they are those of one row.
        let all = |sizes: &[Dim]| match (product(sizes), self.fixed) {
            (Some(Dim::Batches(times)), Some(images)) => times.checked_mul(images).map(Dim::Known),
            (product, _) => product,
        };
        if all(&from) != all(&sizes) {
            return Err(unfit());
        }
        let flat = self.flattened(node, view)?;
        flat.reshape(&sizes, fixed).ok_or_else(unfit)
    }

    pub(super) fn transpose(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 1, 1)?;
        let mut attributes = Attributes::of(node);
        let order = attributes.ints("perm")?.map(<[i64]>::to_vec);
        attributes.finish()?;
        let view = self.view(node, 0)?;
        let rank = view.dims.len();
        let order = match order {
            None => (0..rank).rev().collect(),
            Some(order) => permutation(&order, rank).ok_or_else(|| {
                let found = Attribute::Ints(order);
                Problem::attribute("perm", &found, "each dimension once")
            })?,
        };
        let view = view.permute(&order);
        self.set(node, Value::View(view))
    }

    pub(super) fn squeeze(&mut self, node: &Node) -> Result<(), Problem> {
        let axes = self.axes(node)?;
        let view = self.view(node, 0)?.clone();
        let rank = view.dims.len();
        let mut axes = match axes {
            Some(axes) => positions("axes", &axes, rank)?,
            None => (0..rank).filter(|&at| view.dims[at].is_empty()).collect(),
        };
        axes.sort_unstable();
        let mut squeezed = view.clone();
        for &axis in axes.iter().rev() {
            squeezed = self.without(node, &squeezed, axis)?.ok_or_else(|| {
                let found = Attribute::Ints(axes.iter().map(|&axis| axis as i64).collect());
                Problem::attribute("axes", &found, "dimensions of one position")
            })?;
        }
        self.set(node, Value::View(squeezed))
    }

    /// A view without a dimension of one position, which in a file for one image may be the batch.
    fn without(&mut self, node: &Node, view: &View, dim: usize) -> Result<Option<View>, Problem> {
        let mut sizes = view.sizes();
        if self.fixed != Some(1) || sizes[dim] != Dim::Batches(1) || sizes.len() == 1 {
            return Ok(view.squeeze(dim));
        }
        sizes.remove(dim);
        self.reshaped(node, view, &sizes).map(Some)
    }

    pub(super) fn unsqueeze(&mut self, node: &Node) -> Result<(), Problem> {
        let axes = self.axes(node)?.unwrap_or_default();
        let mut view = self.view(node, 0)?.clone();
        let mut axes = positions("axes", &axes, view.dims.len() + axes.len())?;
        axes.sort_unstable();
        for axis in axes {
            view = view.unsqueeze(axis);
        }
        self.set(node, Value::View(view))
    }

    /// The axes of a squeeze: from opset 13 on an operand, before an attribute.
    pub(super) fn axes(&self, node: &Node) -> Result<Option<Vec<i64>>, Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let from_attribute = attributes.ints("axes")?.map(<[i64]>::to_vec);
        attributes.finish()?;
        Ok(self.optional_ints(node, 1, "axes")?.or(from_attribute))
    }

    fn slice(&mut self, node: &Node) -> Result<(), Problem> {
        if !self.is_view(node, 0) {
            return Err(self.not_constant(node));
        }
        self.limit(node, 5, 1)?;
        Attributes::of(node).finish()?;
        let mut view = self.view(node, 0)?.clone();
        let missing = |position, what| Problem::MissingInput { position, what };
        let starts = self.optional_ints(node, 1, "starts")?;
        let starts = starts.ok_or(missing(1, "starts"))?;
        let ends = self.sizes(node, 2, "ends")?;
        let axes = self.optional_ints(node, 3, "axes")?;
        let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = self.optional_ints(node, 4, "steps")?;
        let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
        let axes = positions("axes", &axes, view.dims.len())?;
        if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
            return Err(self.no_slice(node));
        }
        let last = axes.len().saturating_sub(1);
        for (at, axis) in axes.into_iter().enumerate() {
            let end = match (ends[at], view.sizes()[axis]) {
                (Dim::Known(end), _) => end,
                (Dim::Batches(end), Dim::Batches(all)) if end == all => i64::MAX,
                _ => return Err(self.no_slice(node)),
            };
            if at == last && is_empty(view.sizes()[axis], [starts[at], end, steps[at]]) {
                let mut sizes = view.sizes();
                sizes[axis] = Dim::Known(0);
                return self.set(node, Value::Sized(sizes));
            }
            view = match [starts[at], end, steps[at]] {
                [start, end, step @ ..0] => self.reversed(node, &view, axis, [start, end, step])?,
                range => self.sliced(node, &view, axis, range)?,
            };
        }
        self.set(node, Value::View(view))
    }

    /// Positions from the first to before the second number, the third apart.
    pub(super) fn sliced(
        &mut self,
        node: &Node,
        view: &View,
        dim: usize,
        [start, end, step]: [i64; 3],
    ) -> Result<View, Problem> {
        if let Dim::Known(size) = view.sizes()[dim]
            && let Some(range) = range(size, start, end, step)
        {
            let part = self.join_of(view).and_then(|join| join.part(dim, range));
            if let Some(part) = part {
                return Ok(part);
            }
            if let [at, 1, _] = range
                && let Some(layer) = self.layer(node, view, dim, at)?
            {
                return Ok(layer);
            }
        }
        if let Some(part) = sliced(view, dim, start, end, step) {
            return Ok(part);
        }
        // In a file for a fixed number of images, all of them.
        if let (Dim::Batches(1), Some(images)) = (view.sizes()[dim], self.fixed)
            && range(images, start, end, step) == Some([0, images.unsigned_abs(), 1])
        {
            return Ok(view.clone());
        }
        let unfit = |lowering: &Self| lowering.no_slice(node);
        let Dim::Known(size) = view.sizes()[dim] else {
            return Err(unfit(self));
        };
        if range(size, start, end, step).is_none() {
            return Err(unfit(self));
        }
        // Channels in another order can be moved first.
        if view.channel_runs(self.shape(view.tensor)).is_some() {
            let moved = self.as_itself(node, view)?;
            return sliced(&moved, dim, start, end, step).ok_or_else(|| unfit(self));
        }
        let slices = match range(size, start, end, step) {
            Some([first, count, 1]) => view.slices(dim, first, count),
            _ => Vec::new(),
        };
        if !(1..=SLICES_MAX).contains(&slices.len()) {
            let moved = self.straightened(node, view)?;
            return sliced(&moved, dim, start, end, step).ok_or_else(|| unfit(self));
        }
        let part = |slice: &Range<u64>| view.slice(dim, slice.start, slice.end - slice.start, 1);
        let parts = slices.iter().map(|slice| part(slice).map(Part::View));
        let parts: Vec<Part> = parts.collect::<Option<_>>().ok_or_else(|| unfit(self))?;
        self.join_parts(node, dim, &parts)
    }

    /// Positions from the first down to behind the second number.
    fn reversed(
        &mut self,
        node: &Node,
        view: &View,
        dim: usize,
        [start, end, step]: [i64; 3],
    ) -> Result<View, Problem> {
        let Dim::Known(size) = view.sizes()[dim] else {
            return Err(self.no_slice(node));
        };
        let clamp = |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(-1, size - 1);
        let (start, end) = (clamp(start), clamp(end));
        let taken = (start - end).max(0).unsigned_abs();
        let count = taken.div_ceil(step.unsigned_abs()) as i64;
        let indices: Vec<i64> = (0..count).map(|at| start + at * step).collect();
        self.taken(node, view, dim, &indices)
    }

    /// Positions of a dimension in any order: what is evenly spaced at once, joined.
    pub(super) fn taken(
        &mut self,
        node: &Node,
        view: &View,
        dim: usize,
        indices: &[i64],
    ) -> Result<View, Problem> {
        let mut parts = Vec::new();
        let mut rest = indices;
        while let [first, after @ ..] = rest {
            let step = after.first().map_or(1, |next| next - first).max(1);
            let even = rest.iter().enumerate();
            let even = even.take_while(|&(at, &index)| index == first + at as i64 * step);
            let count = even.count();
            let end = first + (count as i64 - 1) * step + 1;
            parts.push(Part::View(self.sliced(
                node,
                view,
                dim,
                [*first, end, step],
            )?));
            rest = &rest[count..];
        }
        if parts.is_empty() {
            return Err(self.no_slice(node));
        }
        self.join_parts(node, dim, &parts)
    }

    pub(super) fn no_slice(&self, node: &Node) -> Problem {
        let value = self.operand(node, 0).unwrap_or(&Value::Nothing);
        Problem::Slice {
            from: self.describe(value),
        }
    }

    pub(super) fn split(&mut self, node: &Node) -> Result<(), Problem> {
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 0)?;
        let from_attribute = attributes.ints("split")?.map(<[i64]>::to_vec);
        let results = node.outputs.len() as i64;
        attributes.only("num_outputs", results, "the number of its results")?;
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let axis = position("axis", axis, view.dims.len())?;
        let Dim::Known(size) = view.sizes()[axis] else {
            return Err(self.no_slice(node));
        };
        let results = results.max(1);
        let each = size.div_euclid(results) + i64::from(size.rem_euclid(results) != 0);
        let lengths = self.optional_ints(node, 1, "split")?.or(from_attribute);
        let equal = (0..results).map(|at| each.min(size - at * each));
        let lengths = lengths.unwrap_or_else(|| equal.collect());
        if lengths.len() != node.outputs.len() {
            return Err(self.no_slice(node));
        }
        let mut start: i64 = 0;
        let mut parts = Vec::with_capacity(lengths.len());
        for length in lengths {
            let end = start.saturating_add(length);
            if end > size {
                return Err(self.no_slice(node));
            }
            parts.push(self.sliced(node, &view, axis, [start, end, 1])?);
            start = end;
        }
        for (output, part) in std::iter::zip(&node.outputs, parts) {
            if let Some(output) = output {
                self.values[output.0] = Value::View(part);
            }
        }
        Ok(())
    }

    /// Positions of a dimension that are known when compiling.
    fn gather(&mut self, node: &Node) -> Result<(), Problem> {
        match (self.is_view(node, 0), self.is_view(node, 1)) {
            (true, _) => {}
            (false, true) => return self.embedding(node),
            (false, false) => return Err(self.not_constant(node)),
        }
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 0)?;
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let axis = position("axis", axis, view.dims.len())?;
        if let Some(sizes) = self.all_in_order(node, &view) {
            let view = self.reshaped(node, &view, &sizes)?;
            return self.set(node, Value::View(view));
        }
        if self.constant_integers(node, 1).is_none() {
            let found = self.required(node, 1, "indices")?;
            return Err(self.wrong(1, "indices", found, "integers known when compiling"));
        }
        let size = match (view.sizes()[axis], self.fixed) {
            (Dim::Known(size), _) => size,
            // Of one image the first is all.
            (Dim::Batches(1), Some(1)) => 1,
            _ => return Err(self.no_slice(node)),
        };
        let Some((dims, positions)) = self.positions(node, 1, size) else {
            return Err(self.no_slice(node));
        };
        let picked = self.taken(node, &view, axis, &positions)?;
        let picked = match dims[..] {
            [] => self.without(node, &picked, axis)?,
            [_] => Some(picked),
            _ => {
                let mut sizes = picked.sizes();
                let known = dims.iter().map(|&size| Dim::Known(size as i64));
                sizes.splice(axis..=axis, known);
                Some(self.reshaped(node, &picked, &sizes)?)
            }
        };
        match picked {
            Some(view) => self.set(node, Value::View(view)),
            None => Err(self.no_slice(node)),
        }
    }

    /// The sizes of the indices of a gather that takes each value of all images, which are one dimension, in order: what
    /// an exporter makes of a view by strides.
    fn all_in_order(&self, node: &Node, view: &View) -> Option<Vec<Dim>> {
        let indices = self.constant_integers(node, 1)?;
        let [Dim::Batches(each)] = view.sizes()[..] else {
            return None;
        };
        let in_order = match &indices.data {
            Data::Symbols(values) => {
                let expected = (0..each).map(|at| Integer {
                    images: each,
                    ..Integer::of(at)
                });
                indices.batch == Some(0) && expected.eq(values.iter().copied())
            }
            // Those of the only image of a file for one.
            Data::Ints(values) => self.fixed == Some(1) && values.iter().copied().eq(0..each),
            _ => false,
        };
        in_order.then(|| indices.sizes())
    }

    pub(super) fn expand(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let view = self.view(node, 0)?.clone();
        let from = view.sizes();
        let mut to = self.sizes(node, 1, "shape")?;
        // A file for one image at a time names the batch by its size.
        if self.fixed == Some(1) {
            for (to, from) in to.iter_mut().rev().zip(from.iter().rev()) {
                if matches!((*from, *to), (Dim::Batches(own), Dim::Known(size)) if own == size) {
                    *to = *from;
                }
            }
        }
        let view = expanded(view, &to).ok_or_else(|| Problem::Reshape {
            from: describe_dims(&from),
            to: describe_dims(&to),
        })?;
        self.set(node, Value::View(view))
    }

    /// Repeats each dimension as many times as `repeats` gives for it.
    pub(super) fn tile(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        let mut view = self.view(node, 0)?.clone();
        let repeats = self.sizes(node, 1, "repeats")?;
        let unfit = |view: &View| Problem::Reshape {
            from: describe_dims(&view.sizes()),
            to: format!("{} times its dimensions", describe_dims(&repeats)),
        };
        if repeats.len() != view.dims.len() {
            return Err(unfit(&view));
        }
        for (dim, &times) in repeats.iter().enumerate() {
            let is_batch = matches!(view.sizes()[dim], Dim::Batches(_));
            let count = match times {
                Dim::Known(1) => continue,
                Dim::Batches(1) if view.expand_to_batch(dim) => continue,
                Dim::Known(times) if !is_batch => u64::try_from(times).ok(),
                _ => None,
            };
            let count = count.filter(|&count| count > 0);
            let count = count.ok_or_else(|| unfit(&view))?;
            view = match view.repeat(dim, count) {
                Some(repeated) => repeated,
                None if count > TILES_MAX => return Err(unfit(&view)),
                None => self.join_parts(node, dim, &vec![Part::View(view); count as usize])?,
            };
        }
        self.set(node, Value::View(view))
    }

    pub(super) fn constant(&mut self, node: &Node) -> Result<(), Problem> {
        let mut attributes = Attributes::of(node);
        let floats = |dims, values| Rc::new(Constant::new(dims, Data::Floats(values)));
        let ints = |dims, values| Rc::new(Constant::new(dims, Data::Ints(values)));
        let mut constant = None;
        for name in [
            "value",
            "value_float",
            "value_floats",
            "value_int",
            "value_ints",
        ] {
            constant = constant.or(match (name, attributes.take(name)) {
                (_, None) => None,
                ("value", Some(Attribute::Tensor(tensor))) => Some(Rc::clone(tensor)),
                ("value_float", Some(Attribute::Float(value))) => {
                    Some(floats(vec![], vec![*value]))
                }
                ("value_floats", Some(Attribute::Floats(values))) => {
                    Some(floats(vec![values.len()], values.clone()))
                }
                ("value_int", Some(Attribute::Int(value))) => Some(ints(vec![], vec![*value])),
                ("value_ints", Some(Attribute::Ints(values))) => {
                    Some(ints(vec![values.len()], values.clone()))
                }
                (_, Some(other)) => {
                    return Err(Problem::attribute(name, other, "what its name says"));
                }
            });
        }
        attributes.finish()?;
        let constant = constant.ok_or(Problem::MissingAttribute { name: "value" })?;
        self.set(node, Value::Constant(constant))
    }
}

/// Dimensions of one position repeated, further ones put before the others.
pub(super) fn expanded(mut view: View, to: &[Dim]) -> Option<View> {
    while view.dims.len() < to.len() {
        view = view.unsqueeze(0);
    }
    let behind = view.dims.len() - to.len();
    for (at, &to_size) in to.iter().enumerate() {
        let size = view.sizes()[behind + at];
        view = match to_size {
            _ if size == to_size || to_size == Dim::Known(1) => view,
            Dim::Known(times) => view.repeat(behind + at, times.unsigned_abs())?,
            // Of one for each frame there is one.
            Dim::Batches(1) if view.expand_to_batch(behind + at) => view,
            Dim::Batches(_) => return None,
        };
    }
    Some(view)
}

/// A dimension's position, which may count from the end.
pub(super) fn position(name: &'static str, axis: i64, rank: usize) -> Result<usize, Problem> {
    let from_start = if axis < 0 {
        axis.saturating_add(rank as i64)
    } else {
        axis
    };
    let position = usize::try_from(from_start).ok().filter(|&at| at < rank);
    let found = Attribute::Int(axis);
    position.ok_or_else(|| Problem::attribute(name, &found, "one of the dimensions"))
}

pub(super) fn positions(
    name: &'static str,
    axes: &[i64],
    rank: usize,
) -> Result<Vec<usize>, Problem> {
    let axes = axes.iter().map(|&axis| position(name, axis, rank));
    axes.collect()
}

fn permutation(order: &[i64], rank: usize) -> Option<Vec<usize>> {
    let order: Vec<usize> = positions("perm", order, rank).ok()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    (sorted.len() == rank && sorted.iter().copied().eq(0..rank)).then_some(order)
}

/// Positions `start` to `end` of a dimension, both clamped into it; negative ones count from the end.
fn sliced(view: &View, dim: usize, start: i64, end: i64, step: i64) -> Option<View> {
    let size = match view.sizes()[dim] {
        Dim::Known(size) => size,
        // All images are the only slice of them.
        Dim::Batches(_) => {
            let is_all = start == 0 && end > i64::from(i32::MAX) - 1 && step == 1;
            return is_all.then(|| view.clone());
        }
    };
    let [first, count, step] = range(size, start, end, step)?;
    view.slice(dim, first, count, step)
}

/// Whether a slice takes no positions at all, as a tensor rolled by nothing has one.
fn is_empty(size: Dim, [start, end, step]: [i64; 3]) -> bool {
    match size {
        Dim::Known(size) => step > 0 && range(size, start, end, step).is_none(),
        Dim::Batches(_) => false,
    }
}

/// The first position, how many, and how far apart, of a dimension of this size.
fn range(size: i64, start: i64, end: i64, step: i64) -> Option<[u64; 3]> {
    let clamp = |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(0, size);
    let (start, end) = (clamp(start), clamp(end));
    if step < 1 || end <= start {
        return None;
    }
    let count = (end - start - 1) / step + 1;
    Some([start, count, step].map(i64::unsigned_abs))
}
