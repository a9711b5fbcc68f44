//! Concat along any dimension but the batch.
//!
//! Whole channels of images are gathered, which may move nothing. All else is one copy that writes each operand to its
//! place in the result. What takes a part out of the result again takes it from the operand, so that an exit depends on
//! no more than it reads.

use std::collections::BTreeMap;
use std::rc::Rc;

use punctual_model::{ChannelRun, GATHER_SOURCES_MAX, Gather, Operator, TensorId};
use punctual_types::{PIECES_MAX, Piece, View as Plain};

use super::joined::{Joined, Part};
use super::layout::Laid;
use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, Factor, View, normal};
use super::views::position;
use super::vocabulary::{OnnxOperator, family};
use crate::draft::{Computation, Drafted};
use crate::graph::{Attributes, Constant, Data, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::attribute::int;
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Concat" => lower concat() fold arranged::concat,
    "Split" => lower split() fold arranged::split,
};

/// Most operands: a run names its source by a byte. Devices take fewer; [`gather`](crate::gather) sees to that.
const OPERANDS_MAX: usize = 255;

impl Lowering<'_> {
    fn concat(&mut self, node: &Node) -> Result<(), Problem> {
        if let Some(node) = self.without_empty(node)? {
            return self.concat(&node);
        }
        if self.join_tokens(node)? || self.stack(node)? {
            return Ok(());
        }
        if !(0..node.inputs.len()).any(|at| self.is_view(node, at)) {
            return Err(self.not_constant(node));
        }
        self.limit(node, OPERANDS_MAX, 1)?;
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 1)?;
        attributes.finish()?;
        let mut parts: Vec<Part> = Vec::with_capacity(node.inputs.len());
        for operand in 0..node.inputs.len() {
            let part = match self.required(node, operand, "data")? {
                Value::Constant(constant) if matches!(constant.data, Data::Floats(_)) => {
                    Part::Constant(Rc::clone(constant))
                }
                _ => Part::View(self.view(node, operand)?.clone()),
            };
            parts.push(part);
        }
        let dim = position("axis", axis, parts[0].sizes().len())?;
        let joined = self.join_parts(node, dim, &parts)?;
        self.set(node, Value::View(joined))
    }

    /// A concat without the operands that have no values, if there are such.
    fn without_empty(&self, node: &Node) -> Result<Option<Node>, Problem> {
        let axis = Attributes::of(node).int("axis", 1)?;
        let has_none = |id: &Option<ValueId>| match id.map(|id| self.value(id)) {
            Some(Value::Sized(sizes)) => {
                let axis = position("axis", axis, sizes.len());
                axis.is_ok_and(|axis| sizes[axis] == Dim::Known(0))
            }
            _ => false,
        };
        let mut kept = node.clone();
        kept.inputs.retain(|id| !has_none(id));
        let fewer = kept.inputs.len() < node.inputs.len();
        Ok((fewer && !kept.inputs.is_empty()).then_some(kept))
    }

    /// Parts joined along a dimension.
    pub(super) fn join_parts(
        &mut self,
        node: &Node,
        dim: usize,
        parts: &[Part],
    ) -> Result<View, Problem> {
        if let [Part::View(only)] = parts {
            return Ok(only.clone());
        }
        let sizes = self.joined_sizes(node, dim, parts)?;
        if let Some(gathered) = self.gathered(node, dim, parts)? {
            return Ok(gathered);
        }
        let mut tensors: Vec<TensorId> = Vec::new();
        for part in parts {
            if let Part::View(view) = part
                && !tensors.contains(&view.tensor)
            {
                tensors.push(view.tensor);
            }
        }
        let seen = if tensors.len() > GATHER_SOURCES_MAX {
            let groups: Vec<Part> = parts
                .chunks(parts.len().div_ceil(GATHER_SOURCES_MAX).max(2))
                .map(|group| self.join_parts(node, dim, group).map(Part::View))
                .collect::<Result<_, _>>()?;
            self.join_parts(node, dim, &groups)?
        } else {
            self.joined_copy(node, dim, parts, &tensors, &sizes)?
        };
        let joined = Joined {
            seen: seen.clone(),
            dim,
            parts: parts.to_vec(),
        };
        self.joins.insert(seen.tensor, joined);
        Ok(seen)
    }

    /// What a view was joined from, if it is a whole result.
    pub(super) fn join_of(&self, view: &View) -> Option<&Joined> {
        let joined = self.joins.get(&view.tensor);
        joined.filter(|joined| joined.seen == *view)
    }

    /// A reshape of a whole result as a join of reshaped operands.
    pub(super) fn joined_reshaped(
        &mut self,
        node: &Node,
        view: &View,
        sizes: &[Dim],
    ) -> Result<Option<View>, Problem> {
        let split = self.join_of(view).and_then(|joined| {
            let parts = joined.split(sizes)?;
            Some((joined.dim, parts))
        });
        match split {
            Some((dim, parts)) => self.join_parts(node, dim, &parts).map(Some),
            None => Ok(None),
        }
    }

    /// One layer of a stack to which only layers of tokens were applied since: they are applied to that layer alone, so
    /// that an exit that reads it depends on no other. `dim` is the dimension along which it is taken.
    pub(super) fn layer(
        &mut self,
        node: &Node,
        view: &View,
        dim: usize,
        at: u64,
    ) -> Result<Option<View>, Problem> {
        let Some((stack, steps)) = self.steps_since_join(view.tensor) else {
            return Ok(None);
        };
        let Some((tensor, dims)) = self.joins[&stack].layer(view, dim, at, &self.draft.tensors)
        else {
            return Ok(None);
        };
        let mut result = View {
            tensor,
            start: [0; 3],
            dims,
        };
        for step in steps {
            let operator = self.draft.operators[step].clone();
            let known = self.layers.get(&(operator.output, at)).copied();
            result.tensor = match known {
                Some(known) => known,
                None => {
                    let computation = Computation::new(operator.kind, operator.weights);
                    self.emit(node, computation, result.tensor, &[])?
                }
            };
            self.layers.insert((operator.output, at), result.tensor);
        }
        Ok(Some(result))
    }

    /// The joined tensor from which one was computed token by token, and the positions of the operators.
    fn steps_since_join(&self, mut tensor: TensorId) -> Option<(TensorId, Vec<usize>)> {
        let mut steps = Vec::new();
        while !self.joins.contains_key(&tensor) {
            let operators = &self.draft.operators;
            let writer = operators
                .iter()
                .rposition(|operator| operator.output == tensor)?;
            let operator = &operators[writer];
            if !operator.is_of_each_pixel() || !operator.others.is_empty() {
                return None;
            }
            steps.push(writer);
            tensor = operator.input;
        }
        steps.reverse();
        Some((tensor, steps))
    }

    /// The result's sizes, once all operands have the same in the other dimensions.
    fn joined_sizes(&self, node: &Node, dim: usize, parts: &[Part]) -> Result<Vec<Dim>, Problem> {
        const EXPECTED: &str = "a tensor of the first one's sizes but for the joined dimension, which is not the batch";
        let views = || parts.iter().filter(|part| matches!(part, Part::View(_)));
        let mut sizes = match views().next() {
            Some(view) => view.sizes(),
            None => parts[0].sizes(),
        };
        let mut total = 0_i64;
        for (at, part) in parts.iter().enumerate() {
            let own = part.sizes();
            let same = |(other, (own, of)): (usize, (&Dim, &Dim))| {
                let repeats = matches!(part, Part::Constant(_));
                // A constant is the same for each image.
                other == dim
                    || own == of
                    || (repeats && (*own, *of) == (Dim::Known(1), Dim::Batches(1)))
            };
            let fits =
                own.len() == sizes.len() && std::iter::zip(&own, &sizes).enumerate().all(same);
            match own.get(dim) {
                Some(&Dim::Known(size)) if fits => total = total.saturating_add(size),
                _ => {
                    let position = at.min(node.inputs.len().saturating_sub(1));
                    let value = match part {
                        Part::View(view) => Value::View(view.clone()),
                        Part::Constant(constant) => Value::Constant(Rc::clone(constant)),
                    };
                    return Err(self.wrong(position, "data", &value, EXPECTED));
                }
            }
        }
        sizes[dim] = Dim::Known(total);
        Ok(sizes)
    }

    /// Whole pixels' channels joined, if nothing else remains to do.
    fn gathered(
        &mut self,
        node: &Node,
        dim: usize,
        parts: &[Part],
    ) -> Result<Option<View>, Problem> {
        let Part::View(first) = &parts[0] else {
            return Ok(None);
        };
        let shape = self.shape(first.tensor);
        let mut sources: Vec<TensorId> = Vec::new();
        let mut places: BTreeMap<TensorId, u8> = BTreeMap::new();
        let mut runs = Vec::new();
        for part in parts {
            let Part::View(view) = part else {
                return Ok(None);
            };
            let own = self.shape(view.tensor);
            let same = (own.height, own.width) == (shape.height, shape.width);
            let Some(channels) = view.runs_of(dim, own).filter(|_| same) else {
                return Ok(None);
            };
            let others = |view: &View| {
                let mut dims = view.dims.clone();
                dims.remove(dim);
                dims
            };
            if others(view) != others(first) {
                return Ok(None);
            }
            let source = *places.entry(view.tensor).or_insert(sources.len() as u8);
            if usize::from(source) == sources.len() {
                sources.push(view.tensor);
            }
            runs.extend(channels.into_iter().map(|run| ChannelRun {
                source,
                first: run.start,
                count: run.end - run.start,
            }));
        }
        let mut seen = first.clone();
        seen.tensor = self.emit(node, Gather { runs }, sources[0], &sources[1..])?;
        seen.start = [0; 3];
        let shape = self.shape(seen.tensor);
        seen.dims[dim] = View::image(seen.tensor, shape).dims[1].clone();
        Ok(Some(seen))
    }

    /// One copy of all parts to their places.
    fn joined_copy(
        &mut self,
        node: &Node,
        dim: usize,
        parts: &[Part],
        tensors: &[TensorId],
        sizes: &[Dim],
    ) -> Result<View, Problem> {
        let mut views = parts.iter().filter_map(|part| match part {
            Part::View(view) => Some(view),
            Part::Constant(_) => None,
        });
        let Some(axes) = views.next().map(View::natural_axes) else {
            let value = self.required(node, 0, "data")?;
            return Err(self.wrong(0, "data", value, "a tensor computed from the input"));
        };
        let mut place = Place::new(sizes, axes, dim, parts.len());
        let laid = place.laid().ok_or(TOO_MANY)?;
        let (mut table, mut pieces) = (Vec::new(), Vec::new());
        for part in parts {
            let (source, view) = match part {
                Part::View(view) => {
                    let source = tensors.iter().position(|tensor| *tensor == view.tensor);
                    (source.unwrap_or(0), view.clone())
                }
                Part::Constant(constant) => {
                    let view = of_table(constant, table.len());
                    if let Data::Floats(values) = &constant.data {
                        table.extend_from_slice(values);
                    }
                    (tensors.len(), view)
                }
            };
            pieces.extend(place.next(source as u8, &view).ok_or(TOO_MANY)?);
        }
        let copy = Computation::copy(pieces, table);
        let output = self.emit(node, copy, tensors[0], &tensors[1..])?;
        Ok(laid.seen(output))
    }
}

const TOO_MANY: Problem = Problem::Limit {
    what: "pieces of which a tensor is joined",
    limit: PIECES_MAX,
};

const AXES: [Axis; 3] = [Axis::Channel, Axis::Row, Axis::Column];

/// Where the next part of a result goes.
struct Place {
    /// The result, its values repeated.
    result: View,
    axes: Vec<Axis>,
    /// The dimensions of an axis from the outermost on.
    order: Vec<usize>,
    dim: usize,
    /// How much of the joined dimension is there.
    start: u64,
}

impl Place {
    fn new(sizes: &[Dim], axes: Vec<Axis>, dim: usize, parts: usize) -> Self {
        let dims = sizes.iter().map(|size| match *size {
            Dim::Known(size) => vec![repeated(size)],
            Dim::Batches(1) => vec![BATCH],
            Dim::Batches(times) => vec![BATCH, repeated(times)],
        });
        let mut place = Self {
            result: View {
                tensor: TensorId(0),
                start: [0; 3],
                dims: dims.map(normal).collect(),
            },
            axes,
            order: (0..sizes.len()).collect(),
            dim,
            start: 0,
        };
        // For each position outside the joined dimension on its axis a part is a piece of its own.
        let outside = place.outside().into_iter().map(|at| place.extent(at));
        let pieces = outside.fold(parts as u64, u64::saturating_mul);
        if pieces > PIECES_MAX as u64 / 4 {
            place.order.remove(dim);
            place.order.insert(0, dim);
        }
        place
    }

    fn laid(&self) -> Option<Laid> {
        self.result.laid_out(&self.order, |dim, _| self.axes[dim])
    }

    fn extent(&self, dim: usize) -> u64 {
        let digits = self.result.dims[dim].iter();
        digits.map(|digit| digit.extent).product()
    }

    /// The dimensions of an axis.
    fn on(&self, axis: Axis) -> impl Iterator<Item = usize> + '_ {
        let dims = self.order.iter().copied();
        dims.filter(move |&at| self.axes[at] == axis)
    }

    fn extent_of(&self, dims: impl Iterator<Item = usize>) -> u64 {
        dims.map(|at| self.extent(at)).product()
    }

    /// The dimensions of the joined one's axis outside it.
    fn outside(&self) -> Vec<usize> {
        let before = self.order.iter().take_while(|&&at| at != self.dim);
        let same = before.filter(|&&at| self.axes[at] == self.axes[self.dim]);
        same.copied().filter(|&at| self.extent(at) > 1).collect()
    }

    /// The pieces of the next part.
    fn next(&mut self, source: u8, part: &View) -> Option<Vec<Piece>> {
        let size: u64 = part.dims[self.dim]
            .iter()
            .map(|digit| digit.extent)
            .product();
        let all = AXES.map(|axis| self.extent_of(self.on(axis)));
        let axis = self.axes[self.dim];
        let along = axis.index()?;
        let inside = self.on(axis).skip_while(|&at| at != self.dim).skip(1);
        let inner = self.extent_of(inside);
        let mut views = vec![part.clone()];
        for at in self.outside() {
            let positions = |view: &View| {
                let view = view.clone();
                (0..self.extent(at)).map(move |position| view.slice(at, position, 1, 1))
            };
            views = views.iter().flat_map(positions).collect::<Option<_>>()?;
        }
        let mut pieces = Vec::with_capacity(views.len());
        for (view, outer) in views.iter().zip(0_u64..) {
            let (mut at, mut sizes) = ([0; 3], all);
            at[along] = (outer * self.extent(self.dim) + self.start) * inner;
            sizes[along] = size * inner;
            let [channels, rows, columns] = AXES.map(|axis| view.digits(self.on(axis)));
            let small = |values: [u64; 3]| {
                let [a, b, c] = values.map(|value| u32::try_from(value).ok());
                Some([a?, b?, c?])
            };
            pieces.push(Piece {
                source,
                view: Plain {
                    start: view.first()?,
                    digits: [channels?, rows?, columns?].concat(),
                },
                at: small(at)?,
                sizes: small(sizes)?,
            });
        }
        self.start += size;
        Some(pieces)
    }
}

fn repeated(extent: i64) -> Factor {
    Factor {
        axis: Axis::Repeat,
        step: 0,
        extent: extent.unsigned_abs(),
    }
}

/// A constant as channels of the table from `first` on.
pub(super) fn of_table(constant: &Constant, first: usize) -> View {
    let mut step = 1;
    let mut dims = Vec::with_capacity(constant.dims.len());
    for &size in constant.dims.iter().rev() {
        let extent = size as u64;
        dims.push(normal(vec![Factor {
            axis: Axis::Channel,
            step,
            extent,
        }]));
        step *= extent;
    }
    dims.reverse();
    View {
        tensor: TensorId(0),
        start: [first as u64, 0, 0],
        dims,
    }
}

impl Written for Gather {
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let mut names = Vec::new();
        let mut starts = vec![0];
        for source in operator.reads() {
            names.push(tensor_name(source));
            starts.push(starts[names.len() - 1] + writer.shape(source).channels);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let channels = |run: &ChannelRun| {
            let first = starts[usize::from(run.source)] + run.first;
            first..first + run.count
        };
        let along = || vec![int("axis", 1)];
        let whole = starts.windows(2).map(|ends| ends[0]..ends[1]);
        if self.runs.iter().map(channels).eq(whole) {
            return writer.node_into("Concat", &names, operator.output, along());
        }
        let joined = match names[..] {
            [one] => one.to_owned(),
            _ => writer.node("Concat", &names, along()),
        };
        let indices = self.runs.iter().flat_map(channels).map(i64::from);
        let indices = writer.integers(&indices.collect::<Vec<_>>());
        writer.node_into("Gather", &[&joined, &indices], operator.output, along())
    }
}
