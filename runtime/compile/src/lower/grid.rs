//! Grids of integers that tell positions: exporters make the indices with which a mask or a table is
//! read out of ranges, comparisons and joins. As of shapes all is known when compiling, but for the
//! number of the image in its batch.

use super::views::{position, positions};
use super::{Lowering, Value};
use crate::fold::Dim;
use crate::graph::{Attributes, Data, Node};
use crate::problem::Problem;
use crate::schema::data_type;

/// Most elements of all grids together, so that a few nodes cannot fill the memory.
const ELEMENTS_MAX: usize = 1 << 21;

/// So many times the number of the image, plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub images: i64,
    pub offset: i64,
}

impl Element {
    pub fn known(offset: i64) -> Self {
        Self { images: 0, offset }
    }

    fn truth(value: bool) -> Self {
        Self::known(value.into())
    }

    /// `a + by * b`.
    pub fn plus(self, other: Self, by: i64) -> Option<Self> {
        Some(Self {
            images: self.images.checked_add(other.images.checked_mul(by)?)?,
            offset: self.offset.checked_add(other.offset.checked_mul(by)?)?,
        })
    }

    fn times(self, other: Self) -> Option<Self> {
        match (self.images, other.images) {
            (_, 0) => Self::known(0).plus(self, other.offset),
            (0, _) => Self::known(0).plus(other, self.offset),
            _ => None,
        }
    }

    fn compare(self, other: Self, how: impl Fn(i64, i64) -> i64) -> Option<Self> {
        let same = self.images == 0 && other.images == 0;
        same.then(|| Self::known(how(self.offset, other.offset)))
    }
}

/// A tensor of integers. One dimension may be the batch; it has one position here.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub sizes: Vec<Dim>,
    /// The last dimension counts fastest. `None` is not known.
    pub elements: Vec<Option<Element>>,
}

impl Grid {
    /// Whether there are elements, all known and none 0.
    pub fn is_true(&self) -> bool {
        let is_true = |element: &Option<Element>| {
            element.is_some_and(|element| element.images == 0 && element.offset != 0)
        };
        !self.elements.is_empty() && self.elements.iter().all(is_true)
    }

    fn known(sizes: Vec<Dim>, values: impl Iterator<Item = i64>) -> Self {
        let elements = values.map(|value| Some(Element::known(value))).collect();
        Self { sizes, elements }
    }

    pub fn extents(&self) -> Vec<usize> {
        extents(&self.sizes)
    }

    /// The elements at positions from `start` on of one dimension, `count` of them.
    fn slice(&self, dim: usize, start: usize, count: usize) -> Self {
        let extents = self.extents();
        let inner: usize = extents[dim + 1..].iter().product();
        let rows = self.elements.chunks_exact((extents[dim] * inner).max(1));
        let part = |row: &[Option<Element>]| row[start * inner..(start + count) * inner].to_vec();
        let elements = rows.flat_map(part).collect();
        let mut sizes = self.sizes.clone();
        sizes[dim] = Dim::Known(count as i64);
        Self { sizes, elements }
    }
}

/// Positions of each dimension in a grid.
fn extents(sizes: &[Dim]) -> Vec<usize> {
    let extent = |size: &Dim| match *size {
        Dim::Known(size) => usize::try_from(size).unwrap_or(0),
        Dim::Batches(_) => 1,
    };
    sizes.iter().map(extent).collect()
}

/// The sizes of two tensors combined element by element, as ONNX repeats dimensions of one position.
pub(super) fn broadcast(first: &[Dim], second: &[Dim]) -> Option<Vec<Dim>> {
    let rank = first.len().max(second.len());
    let at = |sizes: &[Dim], dim: usize| match (dim + sizes.len()).checked_sub(rank) {
        Some(dim) => sizes[dim],
        None => Dim::Known(1),
    };
    let both = |dim| match (at(first, dim), at(second, dim)) {
        (a, b) if a == b => Some(a),
        (Dim::Known(1), b) => Some(b),
        (a, Dim::Known(1)) => Some(a),
        _ => None,
    };
    let sizes: Vec<Dim> = (0..rank).map(both).collect::<Option<_>>()?;
    let positive = |size: &Dim| !matches!(size, Dim::Known(..=0));
    sizes.iter().all(positive).then_some(sizes)
}

impl Lowering<'_> {
    /// The result of a node that computes with positions; `None` for any other.
    pub(super) fn on_grid(&mut self, node: &Node) -> Result<Option<Value>, Problem> {
        if node.operator == "Gather" {
            return self.rows_of_table(node);
        }
        let Some(grid) = self.grid_of(node)? else {
            return Ok(None);
        };
        Ok(Some(Value::Grid(grid)))
    }

    fn grid_of(&mut self, node: &Node) -> Result<Option<Grid>, Problem> {
        if node.operator == "Range" {
            return self.range(node);
        }
        let Some(first) = self.grid(node, 0) else {
            return Ok(None);
        };
        let mut attributes = Attributes::of(node);
        let grid = match node.operator.as_str() {
            "Cast" => {
                let to = attributes.int("to", 0)?;
                let grid = cast(first, to);
                return Ok(grid);
            }
            "Unsqueeze" => return self.unsqueezed(node, first).map(Some),
            "Slice" => return self.sliced_grid(node, first),
            "Concat" => {
                let axis = attributes.int("axis", 0)?;
                self.joined(node, axis)?
            }
            "Expand" => {
                let to = self.sizes(node, 1, "shape")?;
                self.repeated(&first, &to)?
            }
            operator => match (combination(operator), self.grid(node, 1)) {
                (Some(how), Some(second)) => self.combined(&first, &second, how)?,
                _ => return Ok(None),
            },
        };
        attributes.finish()?;
        Ok(grid)
    }

    /// Integers known when compiling, but for the batch.
    pub(super) fn grid(&self, node: &Node, at: usize) -> Option<Grid> {
        match self.operand(node, at)? {
            Value::Grid(grid) => Some(grid.clone()),
            Value::Constant(constant) => match &constant.data {
                Data::Ints(values) if values.len() <= ELEMENTS_MAX => {
                    let sizes = constant.dims.iter().map(|&size| Dim::Known(size as i64));
                    Some(Grid::known(sizes.collect(), values.iter().copied()))
                }
                _ => None,
            },
            Value::Dims(dims) => {
                let known = |dim: &Dim| match *dim {
                    Dim::Known(value) => Some(value),
                    Dim::Batches(_) => None,
                };
                let values: Vec<i64> = dims.elements.iter().map(known).collect::<Option<_>>()?;
                let sizes = match dims.scalar {
                    true => vec![],
                    false => vec![Dim::Known(values.len() as i64)],
                };
                Some(Grid::known(sizes, values.into_iter()))
            }
            _ => None,
        }
    }

    /// Counts elements about to be made.
    pub(super) fn reserve(&mut self, elements: usize) -> Result<(), Problem> {
        self.grid_elements = self.grid_elements.saturating_add(elements);
        if self.grid_elements > ELEMENTS_MAX {
            return Err(Problem::Limit {
                what: "elements of index computations",
                limit: ELEMENTS_MAX,
            });
        }
        Ok(())
    }

    /// The numbers of all images, or constant numbers.
    fn range(&mut self, node: &Node) -> Result<Option<Grid>, Problem> {
        self.limit(node, 3, 1)?;
        Attributes::of(node).finish()?;
        let mut operands = Vec::with_capacity(3);
        for (at, what) in ["start", "limit", "delta"].into_iter().enumerate() {
            operands.extend(self.sizes(node, at, what)?);
        }
        match operands[..] {
            [Dim::Known(0), Dim::Batches(1), Dim::Known(1)] => Ok(Some(Grid {
                sizes: vec![Dim::Batches(1)],
                elements: vec![Some(Element {
                    images: 1,
                    offset: 0,
                })],
            })),
            [Dim::Known(start), Dim::Known(end), Dim::Known(1)] => {
                let count = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
                self.reserve(count)?;
                let size = Dim::Known(count as i64);
                Ok(Some(Grid::known(vec![size], start..end)))
            }
            _ => Ok(None),
        }
    }

    fn unsqueezed(&self, node: &Node, mut grid: Grid) -> Result<Grid, Problem> {
        let axes = self.axes(node)?.unwrap_or_default();
        let mut axes = positions("axes", &axes, grid.sizes.len() + axes.len())?;
        axes.sort_unstable();
        for axis in axes {
            grid.sizes.insert(axis, Dim::Known(1));
        }
        Ok(grid)
    }

    fn sliced_grid(&self, node: &Node, grid: Grid) -> Result<Option<Grid>, Problem> {
        self.limit(node, 5, 1)?;
        Attributes::of(node).finish()?;
        let one = |at, default| match self.optional_ints(node, at, "bound, axis or step") {
            Ok(None) => Ok(Some(default)),
            Ok(Some(values)) => Ok((values.len() == 1).then(|| values[0])),
            Err(problem) => Err(problem),
        };
        let (Some(start), Some(end), Some(axis), Some(1)) =
            (one(1, 0)?, one(2, i64::MAX)?, one(3, 0)?, one(4, 1)?)
        else {
            return Ok(None);
        };
        let axis = position("axes", axis, grid.sizes.len())?;
        let Dim::Known(size) = grid.sizes[axis] else {
            return Ok(None);
        };
        let clamp = |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(0, size);
        let (start, end) = (clamp(start), clamp(end));
        let count = usize::try_from(end - start).unwrap_or(0);
        Ok(Some(grid.slice(
            axis,
            usize::try_from(start).unwrap_or(0),
            count,
        )))
    }

    /// All operands, one behind the other along a dimension.
    fn joined(&mut self, node: &Node, axis: i64) -> Result<Option<Grid>, Problem> {
        let operands = (0..node.inputs.len()).map(|at| self.grid(node, at));
        let Some(grids) = operands.collect::<Option<Vec<Grid>>>() else {
            return Ok(None);
        };
        let mut sizes = grids[0].sizes.clone();
        let axis = position("axis", axis, sizes.len())?;
        let others = |grid: &Grid| {
            let mut sizes = grid.sizes.clone();
            (axis < sizes.len())
                .then(|| sizes.remove(axis))
                .map(|_| sizes)
        };
        let known = |grid: &Grid| matches!(grid.sizes[axis], Dim::Known(_));
        let fits = |grid: &Grid| others(grid) == others(&grids[0]) && known(grid);
        if !grids.iter().all(fits) {
            return Ok(None);
        }
        self.reserve(grids.iter().map(|grid| grid.elements.len()).sum())?;
        let outer: usize = extents(&sizes[..axis]).iter().product();
        let mut elements = Vec::new();
        for row in 0..outer {
            for grid in &grids {
                let length = grid.elements.len() / outer;
                elements.extend_from_slice(&grid.elements[row * length..][..length]);
            }
        }
        let along = grids.iter().map(|grid| grid.extents()[axis] as i64);
        sizes[axis] = Dim::Known(along.sum());
        Ok(Some(Grid { sizes, elements }))
    }

    fn repeated(&mut self, grid: &Grid, to: &[Dim]) -> Result<Option<Grid>, Problem> {
        let Some(sizes) = broadcast(&grid.sizes, to) else {
            return Ok(None);
        };
        self.spread(sizes, |at, sizes| element(grid, at, sizes))
            .map(Some)
    }

    fn combined(
        &mut self,
        first: &Grid,
        second: &Grid,
        how: Combination,
    ) -> Result<Option<Grid>, Problem> {
        let Some(sizes) = broadcast(&first.sizes, &second.sizes) else {
            return Ok(None);
        };
        let combined = self.spread(sizes, |at, sizes| {
            how(element(first, at, sizes)?, element(second, at, sizes)?)
        });
        combined.map(Some)
    }

    fn spread(
        &mut self,
        sizes: Vec<Dim>,
        element: impl Fn(usize, &[usize]) -> Option<Element>,
    ) -> Result<Grid, Problem> {
        let extents = extents(&sizes);
        let count = extents
            .iter()
            .fold(1_usize, |count, &extent| count.saturating_mul(extent));
        self.reserve(count)?;
        let elements = (0..count).map(|at| element(at, &extents)).collect();
        Ok(Grid { sizes, elements })
    }
}

/// The element of a grid that stands at position `at` of a larger one with these extents.
fn element(grid: &Grid, mut at: usize, extents: &[usize]) -> Option<Element> {
    let own = grid.extents();
    let mut index = 0;
    let mut step = 1;
    for (dim, &extent) in extents.iter().enumerate().rev() {
        let place = at % extent;
        at /= extent;
        if let Some(dim) = (dim + own.len()).checked_sub(extents.len()) {
            if own[dim] > 1 {
                index += place * step;
            }
            step *= own[dim];
        }
    }
    grid.elements[index]
}

type Combination = fn(Element, Element) -> Option<Element>;

fn combination(operator: &str) -> Option<Combination> {
    Some(match operator {
        "Add" => |a, b| a.plus(b, 1),
        "Sub" => |a, b| a.plus(b, -1),
        "Mul" => Element::times,
        "Max" => |a, b| a.compare(b, i64::max),
        "Equal" => |a, b| a.compare(b, |a, b| i64::from(a == b)),
        "GreaterOrEqual" => |a, b| a.compare(b, |a, b| i64::from(a >= b)),
        "And" => |a, b| a.compare(b, |a, b| i64::from(a != 0 && b != 0)),
        _ => return None,
    })
}

fn cast(mut grid: Grid, to: i64) -> Option<Grid> {
    let bool = i64::from(data_type::BOOL);
    let ints = [data_type::INT32, data_type::INT64].map(i64::from);
    if to == bool {
        for element in &mut grid.elements {
            let known = element.filter(|element| element.images == 0);
            *element = known.map(|element| Element::truth(element.offset != 0));
        }
    }
    (to == bool || ints.contains(&to)).then_some(grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_one_position_are_repeated() {
        let (n, one, six) = (Dim::Batches(1), Dim::Known(1), Dim::Known(6));
        let sizes = broadcast(&[n, one, one, one], &[one, six]).unwrap();
        assert_eq!(sizes, [n, one, one, six]);
        assert_eq!(broadcast(&[six], &[Dim::Known(5)]), None);
    }

    #[test]
    fn the_number_of_an_image_is_carried_along_and_never_guessed() {
        let image = Element {
            images: 1,
            offset: 0,
        };
        let place = image.times(Element::known(6)).unwrap();
        let place = place.plus(Element::known(2), 1).unwrap();
        assert_eq!((place.images, place.offset), (6, 2));
        assert_eq!(image.times(image), None);
        assert_eq!(image.compare(Element::known(3), i64::max), None);
        assert_eq!(place.plus(Element::known(i64::MAX), 1), None);
    }

    #[test]
    fn a_slice_is_a_run_of_one_dimension() {
        let sizes = vec![Dim::Known(2), Dim::Known(3)];
        let part = Grid::known(sizes, 0..6).slice(1, 1, 2);
        let values: Vec<i64> = part.elements.iter().map(|e| e.unwrap().offset).collect();
        assert_eq!(values, [1, 2, 4, 5]);
        assert_eq!(part.sizes, [Dim::Known(2), Dim::Known(2)]);
    }
}
