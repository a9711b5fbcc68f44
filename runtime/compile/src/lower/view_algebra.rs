//! How a tensor is seen: the dimensions that a value has in the graph, each made of digits of the tensor's axes.
//!
//! A network's tensors have four axes: image of the batch, channel, row, column. Reshapes,
//! transposes, splits and slices only give them other names and orders, so none of them computes
//! anything here: a [`View`] says for each of its dimensions which digits of which axes it counts
//! through. E.g. a shuffle of 48 channels in two groups, seen as (N, 24, 2, H, W):
//!
//! ```text
//! N   channel: step 1, 24 of them   channel: step 24, 2 of them   row   column
//! ```
//!
//! Operators ask for the arrangement that they need; only where a view does not have it values are moved.

use std::ops::Range;

use punctual_model::{Tensor, TensorId};

use crate::integer::Dim;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// The images of the batch; how many is known only when running.
    Batch,
    Channel,
    Row,
    Column,
    /// Nothing: the same values again.
    Repeat,
}

impl Axis {
    /// Its place among channels, rows and columns.
    pub fn index(self) -> Option<usize> {
        match self {
            Self::Channel => Some(0),
            Self::Row => Some(1),
            Self::Column => Some(2),
            Self::Batch | Self::Repeat => None,
        }
    }
}

/// A digit of an axis: it counts `extent` positions, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Factor {
    pub axis: Axis,
    pub step: u64,
    /// Never 1, but for the batch, where it says nothing.
    pub extent: u64,
}

impl Factor {
    /// As devices have it; `None` for the batch.
    pub(super) fn digit(&self) -> Option<punctual_types::Digit> {
        let axis = match self.axis {
            Axis::Channel => punctual_types::Axis::Channel,
            Axis::Row => punctual_types::Axis::Row,
            Axis::Column => punctual_types::Axis::Column,
            Axis::Repeat => punctual_types::Axis::Repeat,
            Axis::Batch => return None,
        };
        Some(punctual_types::Digit {
            axis,
            step: u32::try_from(self.step).ok()?,
            extent: u32::try_from(self.extent).ok()?,
        })
    }
}

pub(super) const BATCH: Factor = Factor {
    axis: Axis::Batch,
    step: 1,
    extent: 1,
};

/// A tensor seen through dimensions. The position on an axis is where the view starts plus the sum
/// of its digits times their steps; within a dimension the last digit counts fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub tensor: TensorId,
    /// First channel, row and column.
    pub start: [u64; 3],
    /// One entry a dimension; without digits it is 1.
    pub dims: Vec<Vec<Factor>>,
}

fn whole(axis: Axis, extent: u32) -> Vec<Factor> {
    let digit = Factor {
        axis,
        step: 1,
        extent: extent.into(),
    };
    if extent == 1 { vec![] } else { vec![digit] }
}

impl View {
    /// (N, channels, rows, columns).
    pub fn image(tensor: TensorId, shape: Tensor) -> Self {
        let dims = vec![
            vec![BATCH],
            whole(Axis::Channel, shape.channels),
            whole(Axis::Row, shape.height),
            whole(Axis::Column, shape.width),
        ];
        Self {
            tensor,
            start: [0; 3],
            dims,
        }
    }

    /// (N, features), in the order channel, row, column.
    pub fn features(tensor: TensorId, shape: Tensor) -> Self {
        let image = Self::image(tensor, shape);
        let dims = vec![image.dims[0].clone(), image.dims[1..].concat()];
        Self { dims, ..image }
    }

    /// One number of each image, in no dimension: as ONNX has what is measured over a batch.
    pub fn number(tensor: TensorId) -> Self {
        Self {
            tensor,
            start: [0; 3],
            dims: Vec::new(),
        }
    }

    /// Of an image of one row, (N, channels, columns).
    pub fn series(tensor: TensorId, shape: Tensor) -> Self {
        let mut image = Self::image(tensor, shape);
        image.dims.remove(2);
        image
    }

    /// Of an image of one row, (N, columns) of one of its channels.
    pub fn tokens_of_channel(self, channel: u64) -> Self {
        let [batch, _, _, columns] = [0, 1, 2, 3].map(|at| self.dims[at].clone());
        Self {
            start: [channel, 0, 0],
            dims: vec![batch, columns],
            ..self
        }
    }

    /// The same dimensions of another tensor of the same shape.
    pub fn of(&self, tensor: TensorId) -> Self {
        Self {
            tensor,
            ..self.clone()
        }
    }

    /// The number of positions of each dimension.
    pub fn sizes(&self) -> Vec<Dim> {
        self.dims.iter().map(|dim| size(dim)).collect()
    }

    /// Whether it goes through each value of a tensor of this shape once, in dimensions or by itself.
    pub fn covers(&self, shape: Tensor) -> bool {
        let digits = self.dims.iter().flatten();
        let elements = digits.clone().map(|digit| digit.extent).product::<u64>();
        let repeats = digits.clone().any(|digit| digit.axis == Axis::Repeat);
        let batch = digits.filter(|digit| digit.axis == Axis::Batch).count();
        // Digits never overlap, so counting them is enough.
        batch <= 1 && !repeats && elements == shape.elements()
    }

    /// Whether a dimension is all of an axis, in order.
    pub fn is_whole(&self, dim: usize, axis: Axis, extent: u32) -> bool {
        let at = match axis {
            Axis::Channel => self.start[0],
            Axis::Row => self.start[1],
            Axis::Column => self.start[2],
            Axis::Batch | Axis::Repeat => 0,
        };
        at == 0 && self.dims[dim] == whole(axis, extent)
    }

    /// Whether a dimension is the batch.
    pub fn is_batch(&self, dim: usize) -> bool {
        self.dims.get(dim).is_some_and(|dim| *dim == [BATCH])
    }

    /// Whether it is (N, all rows, all columns) but for the channels, which are dimension 1.
    fn keeps_pixels(&self, shape: Tensor) -> bool {
        let Tensor { height, width, .. } = shape;
        let rows_and_columns = match self.dims.len() {
            // Features of a tensor of one pixel.
            2 => height == 1 && width == 1 && self.start[1..] == [0; 2],
            4 => self.is_whole(2, Axis::Row, height) && self.is_whole(3, Axis::Column, width),
            _ => false,
        };
        rows_and_columns && self.is_batch(0)
    }

    /// The tensor's channels in the order in which the view has them, if it is (N, channels, rows,
    /// columns) or (N, channels) and differs from the tensor in its channels only.
    pub fn channel_runs(&self, shape: Tensor) -> Option<Vec<Range<u32>>> {
        let digits = self.dims.get(1)?;
        let only_channels = digits.iter().all(|digit| digit.axis == Axis::Channel);
        if !only_channels || !self.keeps_pixels(shape) {
            return None;
        }
        Some(runs(self.start[0], digits))
    }

    /// Whether the batch is in one of its dimensions.
    pub fn has_one_batch(&self) -> bool {
        let digits = self.dims.iter().flatten();
        digits.filter(|digit| digit.axis == Axis::Batch).count() == 1
    }

    /// In which order it goes through the values of one image, if its first dimension is the batch and nothing else of it.
    pub fn of_one_image(&self) -> Option<punctual_types::View> {
        if !self.is_batch(0) || !self.has_one_batch() {
            return None;
        }
        Some(punctual_types::View {
            start: self.first()?,
            digits: self.digits(1..self.dims.len())?,
        })
    }

    /// The first channel, row and column.
    pub(super) fn first(&self) -> Option<[u32; 3]> {
        let [channel, row, column] = self.start.map(|at| u32::try_from(at).ok());
        Some([channel?, row?, column?])
    }

    /// The channels of one dimension in their order, if the others are all pixels and none of them has channels.
    pub fn runs_of(&self, dim: usize, shape: Tensor) -> Option<Vec<Range<u32>>> {
        let others = || {
            let dims = self.dims.iter().enumerate();
            dims.filter(|(at, _)| *at != dim).flat_map(|(_, dim)| dim)
        };
        let pixels = others().map(|digit| match digit.axis {
            Axis::Channel | Axis::Repeat => None,
            Axis::Batch | Axis::Row | Axis::Column => Some(digit.extent),
        });
        let all = u64::from(shape.height) * u64::from(shape.width);
        let batches = others().filter(|digit| digit.axis == Axis::Batch).count();
        let whole = pixels.product::<Option<u64>>() == Some(all) && self.start[1..] == [0; 2];
        let digits = &self.dims[dim];
        let only_channels = digits.iter().all(|digit| digit.axis == Axis::Channel);
        (whole && batches == 1 && only_channels).then(|| runs(self.start[0], digits))
    }

    /// Whether it is the tensor as it is: (N, channels, rows, columns).
    pub fn is_image(&self, shape: Tensor) -> bool {
        self.dims.len() == 4
            && self.is_whole(1, Axis::Channel, shape.channels)
            && self.keeps_pixels(shape)
    }

    /// Whether it is (N, features) with all values of the tensor in order.
    pub fn is_features(&self, shape: Tensor) -> bool {
        *self == Self::features(self.tensor, shape)
    }

    /// The dimensions in another order: dimension `i` of the result is dimension `order[i]`.
    pub fn permute(&self, order: &[usize]) -> Self {
        let dims = order.iter().map(|&at| self.dims[at].clone()).collect();
        Self {
            dims,
            ..self.clone()
        }
    }

    /// Without a dimension of one position.
    pub fn squeeze(&self, dim: usize) -> Option<Self> {
        let is_one = self.dims.get(dim)?.is_empty();
        let mut view = self.clone();
        view.dims.remove(dim);
        is_one.then_some(view)
    }

    /// With a further dimension of one position before `dim`.
    pub fn unsqueeze(&self, dim: usize) -> Self {
        let mut view = self.clone();
        view.dims.insert(dim, vec![]);
        view
    }

    /// With a dimension of one position repeated.
    pub fn repeat(&self, dim: usize, times: u64) -> Option<Self> {
        let mut view = self.clone();
        if !view.dims[dim].is_empty() {
            return None;
        }
        let digit = Factor {
            axis: Axis::Repeat,
            step: 0,
            extent: times,
        };
        view.dims[dim] = normal(vec![digit]);
        Some(view)
    }

    /// `count` positions of a dimension from `first` on, `step` apart. `None` where digits cannot tell them.
    pub fn slice(&self, dim: usize, first: u64, count: u64, step: u64) -> Option<Self> {
        let mut view = self.clone();
        let (mut first, mut count) = (first, count);
        let mut kept = Vec::new();
        let mut digits = self.dims[dim].iter().rev();
        for digit in digits.by_ref() {
            if digit.axis == Axis::Batch {
                return None;
            }
            let whole = step == 1 && first.is_multiple_of(digit.extent);
            if count > 1 && whole && count.is_multiple_of(digit.extent) {
                // The slice takes this digit whole; the outer ones decide.
                kept.push(*digit);
                (first, count) = (first / digit.extent, count / digit.extent);
                continue;
            }
            let begin = first % digit.extent;
            if begin + (count - 1) * step >= digit.extent {
                return None;
            }
            view.advance(digit.axis, begin * digit.step);
            kept.push(Factor {
                step: digit.step * step,
                extent: count,
                ..*digit
            });
            (first, count) = (first / digit.extent, 1);
        }
        kept.reverse();
        view.dims[dim] = normal(kept);
        (first == 0 && count == 1).then_some(view)
    }

    /// Positions of a dimension as few slices: those that its digits cannot tell at once begin or end inside a digit.
    pub fn slices(&self, dim: usize, first: u64, count: u64) -> Vec<Range<u64>> {
        let (end, mut slices) = (first + count, Vec::new());
        let mut at = first;
        while at < end {
            // The whole of the inner digits, of as many as fit here, and what is left of the next.
            let (mut inner, mut count) = (1, 1);
            for digit in self.dims[dim].iter().rev() {
                let left = digit.extent - at / inner % digit.extent;
                count = inner * left.min((end - at) / inner);
                if left < digit.extent || count < inner * left {
                    break;
                }
                inner *= digit.extent;
            }
            slices.push(at..at + count);
            at += count;
        }
        slices
    }

    fn advance(&mut self, axis: Axis, by: u64) {
        match axis {
            Axis::Channel => self.start[0] += by,
            Axis::Row => self.start[1] += by,
            Axis::Column => self.start[2] += by,
            Axis::Batch | Axis::Repeat => {}
        }
    }

    /// The same values in the same order under other dimensions. `sizes` has no -1. `fixed`: the
    /// batch size that the file was made for, where sizes may name it as a number.
    pub fn reshape(&self, sizes: &[Dim], fixed: Option<u64>) -> Option<Self> {
        // Positions that a dimension counts within each image stay with the image.
        let leads = self
            .dims
            .iter()
            .any(|dim| dim.contains(&BATCH) && dim.last() != Some(&BATCH));
        // The outermost digit last, as they are taken from there.
        let mut left = normal(self.dims.concat());
        left.reverse();
        let mut dims: Vec<Vec<Factor>> = Vec::with_capacity(sizes.len());
        for (at, size) in sizes.iter().enumerate() {
            let is_last = at + 1 == sizes.len();
            let (mut need, mut batch) = match *size {
                Dim::Known(size) => (u64::try_from(size).ok().filter(|&size| size > 0)?, false),
                Dim::Batches(times) => (u64::try_from(times).ok()?, true),
            };
            if let (Some(&BATCH), Some(fixed), false) = (left.last(), fixed, batch) {
                match dims.last_mut() {
                    // A batch of one leaves no trace: it belongs to a size of one; with the tokens before it where only
                    // their values follow; or to what follows, as the heads that it is folded with.
                    Some(before) if fixed == 1 && need > 1 && is_last && !leads => {
                        before.extend(left.pop());
                    }
                    _ if need.is_multiple_of(fixed) => (need, batch) = (need / fixed, true),
                    _ => {}
                }
            }
            let mut dim = Vec::new();
            while need > 1 || batch {
                let digit = left.pop()?;
                if digit.axis == Axis::Batch {
                    match fixed {
                        _ if batch => batch = false,
                        Some(fixed) if need.is_multiple_of(fixed) => need /= fixed,
                        _ => return None,
                    }
                    dim.push(digit);
                } else if need.is_multiple_of(digit.extent) {
                    need /= digit.extent;
                    dim.push(digit);
                } else if digit.extent.is_multiple_of(need) && !batch {
                    let inner = digit.extent / need;
                    let (extent, step) = (need, digit.step * inner);
                    dim.push(Factor {
                        extent,
                        step,
                        ..digit
                    });
                    left.push(Factor {
                        extent: inner,
                        ..digit
                    });
                    need = 1;
                } else {
                    return None;
                }
            }
            dims.push(dim);
        }
        if fixed == Some(1) && left == [BATCH] {
            dims.last_mut()?.extend(left.pop());
        }
        let dims = dims.into_iter().map(normal).collect();
        left.is_empty().then(|| Self {
            dims,
            ..self.clone()
        })
    }
}

fn size(dim: &[Factor]) -> Dim {
    let positions = dim.iter().map(|digit| digit.extent).product::<u64>();
    let positions = i64::try_from(positions).unwrap_or(i64::MAX);
    if dim.contains(&BATCH) {
        Dim::Batches(positions)
    } else {
        Dim::Known(positions)
    }
}

/// The same digits, as few as possible.
pub(super) fn normal(digits: Vec<Factor>) -> Vec<Factor> {
    let mut kept: Vec<Factor> = Vec::with_capacity(digits.len());
    for digit in digits {
        if digit.extent == 1 && digit.axis != Axis::Batch {
            continue;
        }
        match kept.last_mut() {
            Some(outer)
                if outer.axis == digit.axis
                    && digit.axis != Axis::Batch
                    && outer.step == digit.step * digit.extent =>
            {
                outer.extent *= digit.extent;
                outer.step = digit.step;
            }
            _ => kept.push(digit),
        }
    }
    kept
}

/// The channels that digits count through, neighbours together.
fn runs(start: u64, digits: &[Factor]) -> Vec<Range<u32>> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for channel in positions(start, digits) {
        let channel = u32::try_from(channel).expect("a tensor's channels fit 32 bits");
        match runs.last_mut() {
            Some(run) if run.end == channel => run.end += 1,
            _ => runs.push(channel..channel + 1),
        }
    }
    runs
}

/// The positions on an axis that digits count through.
fn positions(start: u64, digits: &[Factor]) -> Vec<u64> {
    let mut found = vec![start];
    for digit in digits {
        let steps = |&at: &u64| (0..digit.extent).map(move |i| at + i * digit.step);
        found = found.iter().flat_map(steps).collect();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Tensor = Tensor {
        channels: 48,
        height: 4,
        width: 6,
    };

    fn image() -> View {
        View::image(TensorId(7), SHAPE)
    }

    fn reshaped(view: &View, known: &[i64]) -> Option<View> {
        let known = known.iter().map(|&size| Dim::Known(size));
        let sizes: Vec<Dim> = std::iter::once(Dim::Batches(1)).chain(known).collect();
        view.reshape(&sizes, None)
    }

    fn channels(view: &View) -> Vec<u32> {
        let runs = view.channel_runs(SHAPE).unwrap();
        runs.into_iter().flatten().collect()
    }

    #[test]
    fn a_shuffle_interleaves_the_groups() {
        let groups = reshaped(&image(), &[2, 24, 4, 6]).unwrap();
        let swapped = groups.permute(&[0, 2, 1, 3, 4]);
        let shuffled = reshaped(&swapped, &[48, 4, 6]).unwrap();
        assert_eq!(channels(&shuffled)[..5], [0, 24, 1, 25, 2]);
        let half = shuffled.slice(1, 24, 24, 1).unwrap();
        assert_eq!(channels(&half)[..3], [12, 36, 13]);
        // The same again with two groups of 24 restores nothing; with 24 groups of two it does.
        let back = reshaped(&shuffled, &[24, 2, 4, 6]).unwrap();
        let back = reshaped(&back.permute(&[0, 2, 1, 3, 4]), &[48, 4, 6]).unwrap();
        assert_eq!(back, image());
    }

    #[test]
    fn flattening_and_back_changes_nothing() {
        let flat = reshaped(&image(), &[48 * 4 * 6]).unwrap();
        assert!(flat.is_features(SHAPE) && flat.covers(SHAPE));
        assert_eq!(reshaped(&flat, &[48, 4, 6]).unwrap(), image());
        assert_eq!(reshaped(&flat, &[48, 24]).unwrap().dims[2].len(), 2);
    }

    #[test]
    fn digits_that_do_not_divide_are_refused() {
        assert_eq!(reshaped(&image(), &[36, 32]), None);
        assert_eq!(reshaped(&image(), &[48, 4, 5]), None);
        assert_eq!(reshaped(&image(), &[48, 4]), None);
    }

    #[test]
    fn heads_move_before_the_batch_and_back() {
        // (N, 48, 4, 6) as 24 tokens of 48, as four heads of 12, as (4 N, 24, 12).
        let tokens = reshaped(&image(), &[48, 24]).unwrap().permute(&[0, 2, 1]);
        let heads = reshaped(&tokens, &[24, 4, 12])
            .unwrap()
            .permute(&[0, 2, 1, 3]);
        let merged = [Dim::Batches(4), Dim::Known(24), Dim::Known(12)];
        let merged = heads.reshape(&merged, None).unwrap();
        assert_eq!(merged.sizes()[0], Dim::Batches(4));
        assert!(merged.covers(SHAPE));
        let back = [1, 4, 24, 12].map(Dim::Known);
        let back = [&[Dim::Batches(1)], &back[1..]].concat();
        assert_eq!(merged.reshape(&back, None).unwrap(), heads);
        // Tokens before images are no images of tokens.
        let torn = [Dim::Batches(1), Dim::Known(24), Dim::Known(48)];
        assert_eq!(merged.permute(&[1, 0, 2]).reshape(&torn, None), None);
    }

    #[test]
    fn a_fixed_batch_is_found_by_its_size() {
        let sizes = [1, 48, 24].map(Dim::Known);
        let view = image().reshape(&sizes, Some(1)).unwrap();
        assert!(view.is_batch(0) && view.is_whole(1, Axis::Channel, 48));
        let sizes = [6, 48, 24].map(Dim::Known);
        let view = image().reshape(&[sizes[1], sizes[2]], Some(1)).unwrap();
        assert_eq!(view.sizes(), [Dim::Batches(48), Dim::Known(24)]);
        let tokens = image().permute(&[2, 3, 0, 1]);
        let tokens = tokens
            .reshape(&[Dim::Known(24), Dim::Known(48)], Some(1))
            .unwrap();
        assert_eq!(tokens.sizes(), [Dim::Batches(24), Dim::Known(48)]);
        let heads = image().permute(&[2, 3, 0, 1]);
        let heads = heads
            .reshape(&[24, 4, 12].map(Dim::Known), Some(1))
            .unwrap();
        let folded = [Dim::Known(24), Dim::Batches(4), Dim::Known(12)];
        assert_eq!(heads.sizes(), folded);
        assert_eq!(image().reshape(&sizes, Some(2)), None);
        assert_eq!(image().reshape(&sizes, None), None);
    }

    #[test]
    fn slices_of_two_digits_take_whole_rows_or_parts_of_one() {
        let pixels = reshaped(&image(), &[48, 24]).unwrap();
        let rows = pixels.slice(2, 6, 12, 1).unwrap();
        assert_eq!((rows.start, rows.sizes()[2]), ([0, 1, 0], Dim::Known(12)));
        let part = pixels.slice(2, 14, 3, 1).unwrap();
        assert_eq!((part.start, part.sizes()[2]), ([0, 2, 2], Dim::Known(3)));
        let one = pixels.slice(2, 23, 1, 1).unwrap();
        assert_eq!((one.start, one.dims[2].len()), ([0, 3, 5], 0));
        assert_eq!(pixels.slice(2, 4, 4, 1), None);
        let odd = image().slice(1, 1, 24, 2).unwrap();
        assert_eq!(channels(&odd)[..3], [1, 3, 5]);
        assert_eq!(image().slice(0, 0, 1, 1), None);
    }

    #[test]
    fn positions_across_digits_are_few_slices() {
        let pixels = reshaped(&image(), &[48, 24]).unwrap();
        assert_eq!(pixels.slices(2, 6, 12).first(), Some(&(6..18)));
        assert_eq!(pixels.slices(2, 4, 4), [4..6, 6..8]);
        assert_eq!(pixels.slices(2, 5, 18), [5..6, 6..18, 18..23]);
    }

    #[test]
    fn what_repeats_does_not_cover() {
        let one = View::image(TensorId(7), Tensor::features(48));
        let repeated = one.repeat(2, 5).unwrap();
        assert_eq!(repeated.sizes()[2], Dim::Known(5));
        assert!(one.covers(Tensor::features(48)) && !repeated.covers(Tensor::features(48)));
        assert_eq!(image().repeat(2, 5), None);
    }
}
