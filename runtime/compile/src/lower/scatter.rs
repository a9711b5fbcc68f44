//! Values written to places that are known when compiling, and taken from such: ScatterND and ScatterElements, GatherND and
//! GatherElements. A scatter's result takes each of its values either from the data or from the update that is written
//! there last; of updates that are combined, the first at all places, then the second, and so on.

use std::rc::Rc;

use punctual_types::PIECES_MAX;

use super::joined::Part;
use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::View;
use super::views::position;
use super::vocabulary::{OnnxOperator, family};
use crate::graph::{Attribute, Attributes, Constant, Data, Node};
use crate::integer::{Dim, Integer};
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "ScatterElements" => lower scatter_elements() fold matched::scatter_elements,
    "ScatterND" => lower scatter_nd() fold matched::scatter_nd,
};

const DATA: usize = 0;
const INDICES: usize = 1;
const UPDATES: usize = 2;

/// Most updates of one place that are combined.
const LAYERS_MAX: usize = 64;
/// Most places.
const PLACES_MAX: usize = 1 << 22;

/// Places of an image, each of some values, and the updates that are written there.
struct Written {
    /// (N, places, values) of the data.
    data: Part,
    /// (N, updates, values).
    updates: Part,
    places: usize,
    /// The place of each update.
    to: Vec<usize>,
}

impl Lowering<'_> {
    pub(super) fn scatter_nd(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let (sizes, batch) = self.data_sizes(node)?;
        let indices = self.known_places(node)?;
        let Some((&depth, outer)) = indices.dims.split_last() else {
            return Err(self.unknown_places(node));
        };
        if depth == 0 || depth > sizes.len() || (batch > 0 && batch < depth) {
            return Err(self.unknown_places(node));
        }
        let of_batch = usize::from(batch == 0);
        let places: Vec<usize> = sizes[of_batch..depth]
            .iter()
            .map(|size| extent(*size))
            .collect();
        let to = self.tuples(&indices, of_batch, &places);
        let to = to.ok_or_else(|| self.unknown_places(node))?;
        // Of updates the batch is that of the indices, or among the values.
        let of_updates = match (batch, indices.batch) {
            (0, at) => at.unwrap_or(0),
            (at, _) => outer.len() + at - depth,
        };
        let values = sizes[depth..].iter();
        let values: usize = values.map(|size| extent(*size)).product();
        let places = places.iter().product();
        let written = Written {
            data: self.as_places(node, DATA, [places, values], batch)?,
            updates: self.as_places(node, UPDATES, [to.len(), values], of_updates)?,
            places,
            to,
        };
        self.scattered(node, written, &sizes, batch)
    }

    pub(super) fn scatter_elements(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 3, 1)?;
        let (sizes, batch) = self.data_sizes(node)?;
        if self.is_view(node, INDICES) {
            return self.scattered_at_computed(node);
        }
        let axis = position("axis", Attributes::of(node).int("axis", 0)?, sizes.len())?;
        let indices = self.known_places(node)?;
        let integers = indices.integers().unwrap_or_default();
        let fits =
            indices.dims.len() == sizes.len() && batch == 0 && axis > 0 && indices.dims[0] == 1;
        let size = extent(sizes[axis]);
        let along: Option<Vec<usize>> = integers.iter().map(|index| place(*index, size)).collect();
        let (true, Some(along)) = (fits, along) else {
            return Err(self.unknown_places(node));
        };
        // Of dimensions that have the same index at all positions, slices are written.
        let dims: Vec<usize> = sizes[1..].iter().map(|size| extent(*size)).collect();
        let of_indices = &indices.dims[1..];
        let to = along_lines(&dims, of_indices, axis - 1, &along);
        let to = to.ok_or_else(|| self.unknown_places(node))?;
        let (places, values, to) = as_slices(&dims, of_indices, axis - 1, to);
        let written = Written {
            data: self.as_places(node, DATA, [places, values], 0)?,
            updates: self.as_places(node, UPDATES, [to.len(), values], 0)?,
            places,
            to,
        };
        self.scattered(node, written, &sizes, 0)
    }

    /// The data's dimensions, and which of them is the batch.
    fn data_sizes(&self, node: &Node) -> Result<(Vec<Dim>, usize), Problem> {
        let data = self.required(node, DATA, "data")?;
        let sizes = data.sizes().unwrap_or_default();
        let of_constant = match data {
            Value::Constant(constant) => constant.batch,
            _ => None,
        };
        let images = sizes.iter().position(|size| *size == Dim::Batches(1));
        // In a file for one image it may be a number.
        let first = (self.fixed == Some(1) && sizes.first() == Some(&Dim::Known(1))).then_some(0);
        let batch = of_constant
            .or(images)
            .or(first)
            .or_else(|| self.as_updates(node, &sizes));
        let known = |at: usize| Some(at) == batch || matches!(sizes[at], Dim::Known(1..));
        match batch {
            Some(batch) if (0..sizes.len()).all(known) && extent(sizes[batch]) == 1 => {
                Ok((sizes, batch))
            }
            _ => {
                let expected = "a tensor of known dimensions but for one, the batch";
                Err(self.wrong(DATA, "data", data, expected))
            }
        }
    }

    /// In a file for one image, the dimension of a constant that is the batch in slices that are written to it.
    fn as_updates(&self, node: &Node, sizes: &[Dim]) -> Option<usize> {
        let Some(Value::View(updates)) = self.operand(node, UPDATES) else {
            return None;
        };
        let of_updates = (0..updates.dims.len()).find(|at| updates.is_batch(*at))?;
        let behind = updates.dims.len() - of_updates;
        let batch = sizes.len().checked_sub(behind)?;
        (self.fixed == Some(1) && sizes[batch] == Dim::Known(1)).then_some(batch)
    }

    fn known_places(&self, node: &Node) -> Result<Constant, Problem> {
        match self.constant_integers(node, INDICES) {
            Some(indices) if indices.elements() <= PLACES_MAX => Ok(indices.clone()),
            _ => Err(self.unknown_places(node)),
        }
    }

    pub(super) fn unknown_places(&self, node: &Node) -> Problem {
        let found = self.operand(node, INDICES).unwrap_or(&Value::Nothing);
        let expected = "places of each image that are known when compiling, inside the data, or computed ones of \
                        ScatterElements, of at most 2^24 comparisons: lines, places and updates multiplied";
        self.wrong(INDICES, "indices", found, expected)
    }

    /// The place of each tuple of indices. Of the first `images` indices each is the image, all others are of `places`.
    fn tuples(&self, indices: &Constant, images: usize, places: &[usize]) -> Option<Vec<usize>> {
        let integers = indices.integers()?;
        let of_each = integers.chunks_exact(images + places.len()).map(|tuple| {
            let (image, tuple) = tuple.split_at(images);
            let own = Integer {
                images: 1,
                ..Integer::of(0)
            };
            let is_own = |image: &Integer| {
                *image == own || (self.fixed == Some(1) && image.known() == Some(0))
            };
            let mut at = 0;
            for (index, &size) in tuple.iter().zip(places) {
                at = at * size + place(*index, size)?;
            }
            image.iter().all(is_own).then_some(at)
        });
        of_each.collect()
    }

    /// An operand as (N, count, values); its batch is dimension `batch`.
    fn as_places(
        &mut self,
        node: &Node,
        operand: usize,
        [count, values]: [usize; 2],
        batch: usize,
    ) -> Result<Part, Problem> {
        let value = self.required(node, operand, "data")?.clone();
        let unfit = |lowering: &Self| {
            let expected = "as many values as the indices have places";
            lowering.wrong(operand, "data", &value, expected)
        };
        match &value {
            Value::Constant(constant) if constant.elements() == count * values => {
                let floats = self.figures(node, operand)?;
                let dims = vec![1, count, values];
                Ok(Part::Constant(Rc::new(Constant::new(
                    dims,
                    Data::Floats(floats.data),
                ))))
            }
            Value::View(view) => {
                let mut order: Vec<usize> = (0..view.dims.len()).collect();
                if view.is_batch(batch) {
                    order.remove(batch);
                    order.insert(0, batch);
                }
                let sizes = [
                    Dim::Batches(1),
                    Dim::Known(count as i64),
                    Dim::Known(values as i64),
                ];
                let seen = self.reshaped(node, &view.permute(&order), &sizes);
                seen.map(Part::View).map_err(|_| unfit(self))
            }
            _ => Err(unfit(self)),
        }
    }

    /// Makes the node's result of the places and their updates.
    fn scattered(
        &mut self,
        node: &Node,
        written: Written,
        sizes: &[Dim],
        batch: usize,
    ) -> Result<(), Problem> {
        let mut attributes = Attributes::of(node);
        let reduction = attributes.text("reduction", "none")?.to_owned();
        attributes.ignore("axis"); // Read before.
        attributes.finish()?;
        let result = match reduction.as_str() {
            "none" => self.overwritten(node, &written)?,
            "add" => self.accumulated(node, &written, "Add", 0.0)?,
            "mul" => self.accumulated(node, &written, "Mul", 1.0)?,
            "max" => self.accumulated(node, &written, "Max", f32::MIN)?,
            "min" => self.accumulated(node, &written, "Min", f32::MAX)?,
            other => {
                let found = Attribute::Text(other.to_owned());
                let supported = "none, add, mul, max or min";
                return Err(Problem::attribute("reduction", &found, supported));
            }
        };
        let mut images_first = sizes.to_vec();
        let images = images_first.remove(batch);
        images_first.insert(0, images);
        let result = self.reshaped(node, &result, &images_first)?;
        let mut order: Vec<usize> = (1..sizes.len()).collect();
        order.insert(batch, 0);
        self.set(node, Value::View(result.permute(&order)))
    }

    /// The data where nothing is written, else the last update.
    fn overwritten(&mut self, node: &Node, written: &Written) -> Result<View, Problem> {
        // Data of one value are one place, from which all are taken.
        let (data, count) = match one_value(&written.data) {
            Some(value) => (filled(value, &written.updates), 1),
            None => (written.data.clone(), written.places),
        };
        self.room.take(written.places)?;
        let mut from: Vec<i64> = (0..written.places).map(|at| (at % count) as i64).collect();
        for (update, &place) in written.to.iter().enumerate() {
            from[place] = (count + update) as i64;
        }
        let joined = self.join_parts(node, 1, &[data, written.updates.clone()])?;
        self.at_places(node, &joined, &from)
    }

    /// The data combined with all updates of each place. `neutral` changes nothing.
    fn accumulated(
        &mut self,
        node: &Node,
        written: &Written,
        operator: &str,
        neutral: f32,
    ) -> Result<View, Problem> {
        let mut seen = vec![0_usize; written.places];
        let mut layers: Vec<Vec<i64>> = Vec::new();
        for (update, &place) in written.to.iter().enumerate() {
            let layer = seen[place];
            seen[place] += 1;
            if layer == LAYERS_MAX {
                return Err(Problem::Limit {
                    what: "updates of one place",
                    limit: LAYERS_MAX,
                });
            }
            if layer == layers.len() {
                self.room.take(written.places)?;
                layers.push(vec![0; written.places]);
            }
            layers[layer][place] = update as i64 + 1;
        }
        let parts = [filled(neutral, &written.updates), written.updates.clone()];
        let constant = constant_of(&parts);
        let joined = match constant {
            Some(_) => None,
            None => Some(self.join_parts(node, 1, &parts)?),
        };
        let both = node.standing_in(operator);
        let mut result = self.temporary(match &written.data {
            Part::View(view) => Value::View(view.clone()),
            Part::Constant(constant) => Value::Constant(Rc::clone(constant)),
        });
        for layer in layers {
            let layer = match (&joined, &constant) {
                (Some(joined), _) => Value::View(self.at_places(node, joined, &layer)?),
                (None, rows) => {
                    let rows = rows.iter().flatten();
                    let rows: Vec<&Vec<f32>> = rows.collect();
                    let values = layer
                        .iter()
                        .flat_map(|at| rows[*at as usize].iter().copied());
                    let values: Vec<f32> = values.collect();
                    let dims = vec![1, layer.len(), values.len() / layer.len().max(1)];
                    Value::Constant(Rc::new(Constant::new(dims, Data::Floats(values))))
                }
            };
            let layer = self.temporary(layer);
            result = self
                .nodes_of(node)
                .of_node(both.clone(), vec![Some(result), Some(layer)])?;
        }
        let value = self.value(result).clone();
        self.tensor_of(node, &value)
    }

    /// Positions of (N, positions, values), in any order.
    pub(super) fn at_places(
        &mut self,
        node: &Node,
        view: &View,
        from: &[i64],
    ) -> Result<View, Problem> {
        let uneven = from
            .windows(2)
            .filter(|pair| pair[1] - pair[0] != 1)
            .count();
        if uneven < PIECES_MAX / 4 {
            return self.taken(node, view, 1, from);
        }
        let indices = from.iter().map(|at| *at as f32).collect();
        let indices = Constant::new(vec![1, from.len()], Data::Floats(indices));
        let indices = self.of_images(node, &indices, 0)?.unsqueeze(2);
        let indices = match view.sizes()[2] {
            Dim::Known(values @ 2..) => indices.repeat(2, values.unsigned_abs()),
            _ => Some(indices),
        };
        let indices = indices.ok_or_else(|| self.no_slice(node))?;
        self.taken_along(node, view, &indices, 1)
    }

    /// Slices of the first dimensions at constant tuples of positions, of which none is of the batch: GatherND. With
    /// `by_batch` the dimensions behind the batch, of images that share their tuples.
    pub(super) fn gathered_tuples(
        &mut self,
        node: &Node,
        by_batch: bool,
    ) -> Result<Option<View>, Problem> {
        let view = self.view(node, DATA)?.clone();
        let Some(indices) = self.constant_integers(node, INDICES).cloned() else {
            return Ok(None);
        };
        let sizes = view.sizes();
        let first = usize::from(by_batch);
        let Some((&depth @ 1.., outer)) = indices.dims.split_last() else {
            return Ok(None);
        };
        let behind = first.saturating_add(depth);
        let mut others = (0..first).chain(behind..sizes.len());
        let Some(batch) = others.find(|&at| view.is_batch(at)) else {
            return Ok(None);
        };
        let shares = !by_batch || (batch == 0 && outer.first() == Some(&1));
        let Some(named) = sizes.get(first..behind).filter(|_| shares) else {
            return Ok(None);
        };
        let places: Vec<usize> = named.iter().map(|size| extent(*size)).collect();
        let from = self.tuples(&indices, 0, &places);
        let Some(from) = from.filter(|from| !from.is_empty()) else {
            return Ok(None);
        };
        let values = (behind..sizes.len()).filter(|at| *at != batch);
        let values: Vec<Dim> = values.map(|at| sizes[at]).collect();
        let all = values.iter().map(|size| extent(*size)).product();
        let Part::View(data) = self.as_places(node, DATA, [places.iter().product(), all], batch)?
        else {
            return Ok(None);
        };
        let from: Vec<i64> = from.into_iter().map(|at| at as i64).collect();
        let taken = self.at_places(node, &data, &from)?;
        let outer = outer[first..].iter().map(|&size| Dim::Known(size as i64));
        let outer: Vec<Dim> = outer.collect();
        let to = [&[Dim::Batches(1)], &outer[..], &values].concat();
        let taken = self.reshaped(node, &taken, &to)?;
        let mut order: Vec<usize> = (1..to.len()).collect();
        order.insert(
            if by_batch {
                0
            } else {
                outer.len() + batch - depth
            },
            0,
        );
        Ok(Some(taken.permute(&order)))
    }

    /// Values at constant positions along a dimension, (N, ...), where each line may have its own: GatherElements.
    pub(super) fn gathered_elements(
        &mut self,
        node: &Node,
        dim: usize,
    ) -> Result<Option<View>, Problem> {
        let view = self.view(node, DATA)?.clone();
        let Some(indices) = self.constant_integers(node, INDICES).cloned() else {
            return Ok(None);
        };
        let sizes = view.sizes();
        let fits = indices.dims.len() == sizes.len()
            && indices.dims[0] == 1
            && dim > 0
            && view.is_batch(0);
        let integers = indices.integers().unwrap_or_default();
        let along = integers
            .iter()
            .map(|index| place(*index, extent(sizes[dim])));
        let (true, Some(along)) = (fits, along.collect::<Option<Vec<usize>>>()) else {
            return Ok(None);
        };
        let dims: Vec<usize> = sizes[1..].iter().map(|size| extent(*size)).collect();
        let Some(from) = along_lines(&dims, &indices.dims[1..], dim - 1, &along) else {
            return Ok(None);
        };
        let (places, values, from) = as_slices(&dims, &indices.dims[1..], dim - 1, from);
        let Part::View(data) = self.as_places(node, DATA, [places, values], 0)? else {
            return Ok(None);
        };
        let from: Vec<i64> = from.into_iter().map(|at| at as i64).collect();
        let taken = self.at_places(node, &data, &from)?;
        let sizes = indices.dims[1..]
            .iter()
            .map(|&size| Dim::Known(size as i64));
        let sizes: Vec<Dim> = [Dim::Batches(1)].into_iter().chain(sizes).collect();
        self.reshaped(node, &taken, &sizes).map(Some)
    }
}

/// The place of each index, where it counts along one dimension and its own position along the others; `None` if one of
/// these is outside.
fn along_lines(
    dims: &[usize],
    of_indices: &[usize],
    axis: usize,
    along: &[usize],
) -> Option<Vec<usize>> {
    let fits = |dim: usize| dim == axis || of_indices[dim] <= dims[dim];
    if !(0..dims.len()).all(fits) {
        return None;
    }
    let place = |(at, &index): (usize, &usize)| {
        let (mut rest, mut place, mut step) = (at, 0, 1);
        for dim in (0..dims.len()).rev() {
            let digit = rest % of_indices[dim];
            rest /= of_indices[dim];
            place += step * if dim == axis { index } else { digit };
            step *= dims[dim];
        }
        place
    };
    Some(along.iter().enumerate().map(place).collect())
}

fn extent(size: Dim) -> usize {
    match size {
        Dim::Known(size) | Dim::Batches(size) => usize::try_from(size).unwrap_or(0),
    }
}

/// A position that may count from the end, if it is inside.
fn place(index: Integer, size: usize) -> Option<usize> {
    let index = index.known()?;
    let from_start = if index < 0 {
        index + size as i64
    } else {
        index
    };
    usize::try_from(from_start).ok().filter(|at| *at < size)
}

/// What a constant part consists of, if all of it is one value.
fn one_value(part: &Part) -> Option<f32> {
    let Part::Constant(constant) = part else {
        return None;
    };
    match &constant.data {
        Data::Floats(values) => {
            let first = *values.first()?;
            values.iter().all(|value| *value == first).then_some(first)
        }
        _ => None,
    }
}

/// The places of parts that are constants, one row each.
fn constant_of(parts: &[Part]) -> Option<Vec<Vec<f32>>> {
    let rows = |part: &Part| match part {
        Part::Constant(constant) => match &constant.data {
            Data::Floats(values) => {
                let each = constant.dims.get(2).copied().unwrap_or(1).max(1);
                Some(values.chunks(each).map(<[f32]>::to_vec).collect::<Vec<_>>())
            }
            _ => None,
        },
        Part::View(_) => None,
    };
    let rows: Option<Vec<_>> = parts.iter().map(rows).collect();
    rows.map(|rows| rows.concat())
}

/// One place of that value, of as many values as others have.
fn filled(value: f32, like: &Part) -> Part {
    let values = like.sizes().get(2).map_or(1, |size| extent(*size));
    let data = Data::Floats(vec![value; values]);
    Part::Constant(Rc::new(Constant::new(vec![1, 1, values], data)))
}

/// Places of single values as places of the inner dimensions together, where these are written whole and in order.
fn as_slices(
    dims: &[usize],
    of_indices: &[usize],
    axis: usize,
    to: Vec<usize>,
) -> (usize, usize, Vec<usize>) {
    let all: usize = dims.iter().product();
    let inner: usize = dims[axis + 1..].iter().product();
    let whole = dims[axis + 1..] == of_indices[axis + 1..];
    let slices = to.chunks_exact(inner.max(1));
    let in_order = |slice: &[usize]| {
        slice[0].is_multiple_of(inner) && slice.windows(2).all(|pair| pair[1] == pair[0] + 1)
    };
    if inner > 1 && whole && slices.clone().all(in_order) {
        let to = slices.map(|slice| slice[0] / inner).collect();
        return (all / inner, inner, to);
    }
    (all, 1, to)
}
