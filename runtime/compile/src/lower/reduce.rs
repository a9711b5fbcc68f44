//! Means, sums, norms and extremes over any dimensions but the batch.
//!
//! A mean over all rows and columns is an operator. Otherwise what is summed becomes the channels of a tensor, of which
//! a convolution of one pixel makes one; of what is compared, which becomes its columns, pooling does.

use punctual_model::{Binary, KERNEL_MAX, Pool, TensorId};
use punctual_types::{BinaryFunction, Extent, Padding, PoolKind, UnaryFunction, Window};

use super::arithmetic::Operand;
use super::lowering::Lowering;
use super::numbers::Numbers;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, Factor, View};
use super::views::{position, positions};
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attribute, Attributes, Floats, Node};
use crate::integer::Dim;
use crate::problem::Problem;

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "CumSum" => lower running_sum() fold reduced::running_sum,
    "ReduceL1" => lower reduce(),
    "ReduceL2" => lower reduce() fold reduced::reduce,
    "ReduceLogSum" => lower reduce(),
    "ReduceLogSumExp" => lower reduce(),
    "ReduceMax" => lower reduce() fold reduced::reduce,
    "ReduceMean" => lower reduce() fold reduced::reduce,
    "ReduceMin" => lower reduce() fold reduced::reduce,
    "ReduceProd" => lower reduce() fold reduced::reduce,
    "ReduceSum" => lower reduce() fold reduced::reduce,
    "ReduceSumSquare" => lower reduce(),
};

/// Most positions of a dimension for a product over it, and for running sums along it.
const FACTORS_MAX: i64 = 64;
const SUMMED_MAX: i64 = 4096;

impl Lowering<'_> {
    pub(super) fn reduce(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        // From opset 18 on, of sums from 13 on, the axes are an operand.
        let from_attribute = attributes.ints("axes")?.map(<[i64]>::to_vec);
        let from_operand = self.optional_ints(node, 1, "axes")?;
        let axes = from_operand.or(from_attribute).unwrap_or_default();
        let keeps = attributes.int("keepdims", 1)? != 0;
        // It decides what a reduction of no axes is, which is refused.
        attributes.int("noop_with_empty_axes", 0)?;
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let mut dims = positions("axes", &axes, view.dims.len())?;
        dims.sort_unstable();
        dims.dedup();
        let of_batch = |&dim: &usize| view.dims[dim].contains(&BATCH);
        if dims.is_empty() || dims.iter().any(of_batch) || !view.has_one_batch() {
            let found = Attribute::Ints(axes);
            let supported = "some dimensions, none of them the batch";
            return Err(Problem::attribute("axes", &found, supported));
        }
        let integers = self.numbers(node, 0) != Numbers::Floats;
        let mut result = match node.operator.as_str() {
            "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" if integers => {
                return Err(self.no_integers(0, "data"));
            }
            "ReduceMean" if integers => self.whole_mean(node, &view, &dims)?,
            "ReduceSum" if integers => self.weighted_sum(node, &view, &dims, 1.0)?,
            "ReduceSumSquare" if integers => {
                let squares = self.squares(node, &view)?;
                self.weighted_sum(node, &squares, &dims, 1.0)?
            }
            "ReduceMax" => self.largest(node, &view, &dims)?,
            "ReduceMin" => {
                let turned = self.scaled(node, &view, -1.0)?;
                let largest = self.largest(node, &turned, &dims)?;
                self.scaled(node, &largest, -1.0)?
            }
            "ReduceMean" => self.mean(node, &view, &dims)?,
            "ReduceSum" => self.sum(node, &view, &dims)?,
            "ReduceSumSquare" => {
                let squares = self.squares(node, &view)?;
                self.sum(node, &squares, &dims)?
            }
            "ReduceL1" => {
                let view = self.covering(node, &view)?;
                let sizes = self.unary_of(node, &view, UnaryFunction::Absolute)?;
                // A mean times the number of values may miss an integer.
                if integers {
                    self.weighted_sum(node, &sizes, &dims, 1.0)?
                } else {
                    self.sum(node, &sizes, &dims)?
                }
            }
            "ReduceLogSum" => {
                let sum = self.sum(node, &view, &dims)?;
                self.unary_of(node, &sum, UnaryFunction::Logarithm)?
            }
            "ReduceLogSumExp" => self.logarithm_of_powers(node, &view, &dims)?,
            "ReduceProd" => self.product_over(node, &view, &dims)?,
            _ => self.length(node, &view, &dims)?,
        };
        if !keeps {
            dims.iter()
                .rev()
                .for_each(|&dim| drop(result.dims.remove(dim)));
        }
        self.set(node, Value::View(result))
    }

    pub(super) fn mean(
        &mut self,
        node: &Node,
        view: &View,
        dims: &[usize],
    ) -> Result<View, Problem> {
        if self.are_rows_and_columns(view, dims) {
            let mean = self.global_average(node, view.tensor)?;
            return Ok(reduced(view.of(mean), dims));
        }
        if let Some(line) = self.line(view, dims) {
            let kind = PoolKind::Average {
                counts_padding: false,
            };
            return self.pooled(node, view, dims, kind, line);
        }
        let factor = 1.0 / extent(view, dims) as f32;
        self.weighted_sum(node, view, dims, factor)
    }

    /// Of integers: their sum divided, and cut. A mean of reals may lie just below an integer.
    fn whole_mean(&mut self, node: &Node, view: &View, dims: &[usize]) -> Result<View, Problem> {
        let sum = self.weighted_sum(node, view, dims, 1.0)?;
        let sum = self.covering(node, &sum)?;
        let count = Floats {
            dims: Vec::new(),
            data: vec![extent(view, dims) as f32],
        };
        let quotient = self.with_table(node, BinaryFunction::Divide, &sum, &count, false)?;
        self.unary_of(node, &quotient, UnaryFunction::Truncate)
    }

    pub(super) fn sum(
        &mut self,
        node: &Node,
        view: &View,
        dims: &[usize],
    ) -> Result<View, Problem> {
        if self.are_rows_and_columns(view, dims) || self.line(view, dims).is_some() {
            let mean = self.mean(node, view, dims)?;
            return self.scaled(node, &mean, extent(view, dims) as f32);
        }
        self.weighted_sum(node, view, dims, 1.0)
    }

    /// The square root of the sum of squares.
    pub(super) fn length(
        &mut self,
        node: &Node,
        view: &View,
        dims: &[usize],
    ) -> Result<View, Problem> {
        let squares = self.squares(node, view)?;
        let sum = self.sum(node, &squares, dims)?;
        self.unary_of(node, &sum, UnaryFunction::SquareRoot)
    }

    pub(super) fn squares(&mut self, node: &Node, view: &View) -> Result<View, Problem> {
        let view = self.covering(node, view)?;
        let square = Binary::new(BinaryFunction::Multiply);
        let squares = self.emit(node, square, view.tensor, &[view.tensor])?;
        Ok(view.of(squares))
    }

    /// `ln(sum e^x)`, computed of the differences to the largest value, which is added again.
    fn logarithm_of_powers(
        &mut self,
        node: &Node,
        view: &View,
        dims: &[usize],
    ) -> Result<View, Problem> {
        let largest = self.largest(node, view, dims)?;
        let operands = [view.clone(), largest.clone()].map(Operand::Tensor);
        let below = self.combined(node, BinaryFunction::Subtract, operands)?;
        let powers = self.unary_of(node, &below, UnaryFunction::Exponential)?;
        let sum = self.sum(node, &powers, dims)?;
        let logarithm = self.unary_of(node, &sum, UnaryFunction::Logarithm)?;
        let operands = [logarithm, largest].map(Operand::Tensor);
        self.combined(node, BinaryFunction::Add, operands)
    }

    /// The product over a dimension, position by position.
    fn product_over(&mut self, node: &Node, view: &View, dims: &[usize]) -> Result<View, Problem> {
        let mut result = view.clone();
        for &dim in dims {
            let Dim::Known(size @ 1..=FACTORS_MAX) = result.sizes()[dim] else {
                let expected = "a tensor of at most 64 positions along each dimension of a product";
                return Err(self.wrong(0, "data", &Value::View(view.clone()), expected));
            };
            let whole = result.clone();
            result = self.sliced(node, &whole, dim, [0, 1, 1])?;
            for at in 1..size {
                let next = self.sliced(node, &whole, dim, [at, at + 1, 1])?;
                let operands = [result, next].map(Operand::Tensor);
                result = self.combined(node, BinaryFunction::Multiply, operands)?;
            }
        }
        Ok(result)
    }

    /// The sum up to each position of a dimension: a product with a triangular matrix of ones.
    pub(super) fn running_sum(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        let mut attributes = Attributes::of(node);
        let exclusive = attributes.int("exclusive", 0)? != 0;
        let reverse = attributes.int("reverse", 0)? != 0;
        attributes.finish()?;
        let view = self.view(node, 0)?.clone();
        let axis = match self.optional_ints(node, 1, "axis")?.as_deref() {
            Some(&[axis]) => position("axis", axis, view.dims.len())?,
            _ => {
                let found = self.required(node, 1, "axis")?;
                return Err(self.wrong(1, "axis", found, "one dimension"));
            }
        };
        let size = match view.sizes()[axis] {
            Dim::Known(size @ 1..=SUMMED_MAX) if view.has_one_batch() => size as usize,
            _ => {
                let expected = "a tensor of at most 4096 positions along the dimension";
                return Err(self.wrong(0, "data", &Value::View(view), expected));
            }
        };
        let last = view.dims.len() - 1;
        let mut order: Vec<usize> = (0..view.dims.len()).collect();
        order.swap(axis, last);
        let tokens = self.copied_as_tokens(node, &view.permute(&order))?;
        let counts = |to: usize, from: usize| match (reverse, exclusive) {
            (false, false) => from <= to,
            (false, true) => from < to,
            (true, false) => from >= to,
            (true, true) => from > to,
        };
        let row = |to| (0..size).map(move |from| f32::from(u8::from(counts(to, from))));
        let weights = (0..size).flat_map(row).collect();
        self.each_token(node, &tokens, weights, vec![0.0; size])?;
        let found = node.outputs.first().copied().flatten();
        let sums = found.map(|found| self.value(found).clone());
        match sums {
            Some(Value::View(sums)) => self.set(node, Value::View(sums.permute(&order))),
            _ => Err(Problem::MissingOutput),
        }
    }

    /// The sum of the values of some dimensions, each times the factor.
    fn weighted_sum(
        &mut self,
        node: &Node,
        view: &View,
        dims: &[usize],
        factor: f32,
    ) -> Result<View, Problem> {
        let is_channels = |(dim, digits): (usize, &Vec<Factor>)| {
            let mut digits = digits.iter().filter(|digit| **digit != BATCH);
            if dims.contains(&dim) {
                digits.all(|digit| digit.axis == Axis::Channel)
            } else {
                digits.all(|digit| digit.axis != Axis::Channel)
            }
        };
        let covers = view.covers(self.shape(view.tensor));
        let view = if covers && view.dims.iter().enumerate().all(is_channels) {
            view.clone()
        } else {
            let axes = spread(view, dims, [Axis::Channel, Axis::Row, Axis::Column]);
            self.copied_on(node, view, &axes)?
        };
        let weights = vec![factor; self.shape(view.tensor).channels as usize];
        let pixel = Window::whole(Extent::square(1));
        let sum = Computation::convolution(pixel, 1, weights, vec![0.0]);
        let output = self.emit(node, sum, view.tensor, &[])?;
        Ok(reduced(view.of(output), dims))
    }

    pub(super) fn largest(
        &mut self,
        node: &Node,
        view: &View,
        dims: &[usize],
    ) -> Result<View, Problem> {
        let shape = self.shape(view.tensor);
        let fits = shape.height.max(shape.width) <= KERNEL_MAX;
        let whole = (fits && self.are_rows_and_columns(view, dims)).then(|| shape.extent());
        if let Some(kernel) = whole.or_else(|| self.line(view, dims)) {
            return self.pooled(node, view, dims, PoolKind::Max, kernel);
        }
        let axes = spread(view, dims, [Axis::Column, Axis::Row, Axis::Channel]);
        let mut view = self.copied_on(node, view, &axes)?;
        while self.shape(view.tensor).width > KERNEL_MAX {
            view = view.of(self.largest_of_parts(node, view.tensor)?);
        }
        let line = Extent {
            height: 1,
            width: self.shape(view.tensor).width,
        };
        self.pooled(node, &view, dims, PoolKind::Max, line)
    }

    /// Of each row about as many maxima as values that each is of: what a row has too many of for one window.
    fn largest_of_parts(&mut self, node: &Node, rows: TensorId) -> Result<TensorId, Problem> {
        let width = self.shape(rows).width;
        let values = (width.isqrt() + 1).min(KERNEL_MAX);
        let kernel = Extent {
            height: 1,
            width: values,
        };
        let pool = Pool {
            kind: PoolKind::Max,
            kernel,
            stride: kernel,
            padding: Padding {
                right: width.next_multiple_of(values) - width,
                ..Padding::default()
            },
        };
        self.emit(node, pool, rows, &[])
    }

    /// Pools a tensor with a kernel that covers some of the view's dimensions: one position is left of each.
    fn pooled(
        &mut self,
        node: &Node,
        view: &View,
        dims: &[usize],
        kind: PoolKind,
        kernel: Extent,
    ) -> Result<View, Problem> {
        let window = Window::whole(kernel);
        let pool = Pool {
            kind,
            kernel,
            stride: window.stride,
            padding: window.padding,
        };
        let output = self.emit(node, pool, view.tensor, &[])?;
        Ok(reduced(view.of(output), dims))
    }

    /// The kernel that pools all rows or all columns of a tensor, if the dimensions are these.
    fn line(&self, view: &View, dims: &[usize]) -> Option<Extent> {
        let shape = self.shape(view.tensor);
        let &[dim] = dims else { return None };
        let of = |axis, extent: u32| {
            (2..=KERNEL_MAX).contains(&extent) && view.is_whole(dim, axis, extent)
        };
        let (height, width) = match () {
            () if of(Axis::Column, shape.width) => (1, shape.width),
            () if of(Axis::Row, shape.height) => (shape.height, 1),
            () => return None,
        };
        view.covers(shape).then_some(Extent { height, width })
    }

    /// Each value times a factor.
    pub(super) fn scaled(
        &mut self,
        node: &Node,
        view: &View,
        factor: f32,
    ) -> Result<View, Problem> {
        let view = self.covering(node, view)?;
        let channels = self.shape(view.tensor).channels as usize;
        let affine = Computation::affine(vec![factor; channels], vec![0.0; channels]);
        let output = self.emit(node, affine, view.tensor, &[])?;
        Ok(view.of(output))
    }

    /// Whether dimensions are all rows and columns of a tensor and nothing else is left out.
    fn are_rows_and_columns(&self, view: &View, dims: &[usize]) -> bool {
        let digits = dims.iter().flat_map(|&dim| &view.dims[dim]);
        let pixels = digits.map(|digit| match digit.axis {
            Axis::Row | Axis::Column => Some(digit.extent),
            _ => None,
        });
        let shape = self.shape(view.tensor);
        let all = u64::from(shape.height) * u64::from(shape.width);
        view.covers(shape) && pixels.product::<Option<u64>>() == Some(all)
    }
}

/// Dimensions brought to one position.
fn reduced(mut view: View, dims: &[usize]) -> View {
    dims.iter().for_each(|&dim| view.dims[dim].clear());
    view
}

fn extent(view: &View, dims: &[usize]) -> u64 {
    let digits = dims.iter().flat_map(|&dim| &view.dims[dim]);
    digits.map(|digit| digit.extent).product()
}

/// The first axis for some dimensions, the last one for the last of the others, the second for the rest.
pub(super) fn spread(view: &View, dims: &[usize], [own, rest, last]: [Axis; 3]) -> Vec<Axis> {
    let other = |dim: &usize| !dims.contains(dim) && *view.dims[*dim] != [BATCH];
    let last_other = (0..view.dims.len()).rfind(other);
    let axis = |dim: usize| {
        if dims.contains(&dim) {
            own
        } else if Some(dim) == last_other {
            last
        } else {
            rest
        }
    };
    (0..view.dims.len()).map(axis).collect()
}
