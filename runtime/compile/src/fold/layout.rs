//! Dimensions, and where the values of one tensor lie in another.

use super::{BATCH, OUTSIDE, SIZES, TYPES, refuse};
use crate::graph::{Constant, Data};
use crate::integer::Dim;
use crate::problem::Problem;

/// The sizes of two tensors combined element by element, as ONNX repeats dimensions of one position.
pub(crate) fn broadcast(first: &[Dim], second: &[Dim]) -> Option<Vec<Dim>> {
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
    (0..rank).map(both).collect()
}

pub(crate) fn product(sizes: &[Dim]) -> Option<Dim> {
    let times = |product: Dim, size: &Dim| match (product, *size) {
        (Dim::Known(a), Dim::Known(b)) => a.checked_mul(b).map(Dim::Known),
        (Dim::Known(a), Dim::Batches(b)) | (Dim::Batches(a), Dim::Known(b)) => {
            a.checked_mul(b).map(Dim::Batches)
        }
        (Dim::Batches(_), Dim::Batches(_)) => None,
    };
    sizes.iter().try_fold(Dim::Known(1), times)
}

/// The sizes of a reshape with -1 replaced by what is left, the batch included if no other size has it.
pub(crate) fn resolved(from: &[Dim], to: &[Dim], fixed: Option<u64>) -> Option<Vec<Dim>> {
    let total = product(from)?;
    let inferred = |dim: &&Dim| **dim == Dim::Known(-1);
    let known: Vec<Dim> = to.iter().filter(|dim| !inferred(dim)).copied().collect();
    let open = to.len() - known.len();
    let rest = match (total, product(&known)?) {
        (Dim::Batches(all), Dim::Batches(named)) | (Dim::Known(all), Dim::Known(named)) => {
            divided(all, named).map(Dim::Known)
        }
        (Dim::Batches(all), Dim::Known(named)) => match fixed.and_then(|n| i64::try_from(n).ok()) {
            // Among the named sizes there may be the fixed batch: then all of it is named.
            Some(fixed) => divided(all.checked_mul(fixed)?, named).map(Dim::Known),
            None => divided(all, named).map(Dim::Batches),
        },
        (Dim::Known(_), Dim::Batches(_)) => None,
    };
    let replaced = |dim: &Dim| if inferred(&dim) { rest } else { Some(*dim) };
    let sizes: Vec<Dim> = to.iter().map(replaced).collect::<Option<_>>()?;
    (open <= 1).then_some(sizes)
}

fn divided(all: i64, by: i64) -> Option<i64> {
    (by > 0 && all % by == 0).then(|| all / by)
}

/// The positions of each dimension, and which of them is the batch, of a constant of these sizes.
pub(super) fn extents(sizes: &[Dim]) -> Result<(Vec<usize>, Option<usize>), Problem> {
    let mut batch = None;
    let mut dims = Vec::with_capacity(sizes.len());
    for (at, size) in sizes.iter().enumerate() {
        dims.push(match *size {
            Dim::Known(size) => match usize::try_from(size) {
                Ok(size) => size,
                Err(_) => return refuse(SIZES),
            },
            Dim::Batches(each @ 1..) if batch.is_none() => {
                batch = Some(at);
                each as usize
            }
            Dim::Batches(_) => return refuse(BATCH),
        });
    }
    Ok((dims, batch))
}

/// How far apart neighbours in each dimension lie.
pub(super) fn strides(dims: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; dims.len()];
    for at in (1..dims.len()).rev() {
        strides[at - 1] = strides[at] * dims[at].max(1) as isize;
    }
    strides
}

/// `start` plus each index times its stride, for all indices below `extents`, the last one counting fastest.
pub(super) fn strided(
    extents: &[usize],
    strides: &[isize],
    start: isize,
) -> impl Iterator<Item = usize> + use<> {
    let digits: Vec<(usize, isize)> = extents
        .iter()
        .copied()
        .zip(strides.iter().copied())
        .collect();
    let count = extents.iter().product();
    (0..count).map(move |mut at: usize| {
        let mut place = start;
        for &(extent, stride) in digits.iter().rev() {
            place += (at % extent) as isize * stride;
            at /= extent;
        }
        place as usize
    })
}

/// For each position of the larger `dims` the place in a tensor of `own` dimensions that is repeated to them.
pub(super) fn repeated(own: &[usize], dims: &[usize]) -> impl Iterator<Item = usize> + use<> {
    let before = dims.len() - own.len();
    let mut all = vec![0; dims.len()];
    for (at, stride) in strides(own).into_iter().enumerate() {
        let stays = own[at] == dims[before + at];
        all[before + at] = if stays { stride } else { 0 };
    }
    strided(dims, &all, 0)
}

/// The values that lie at these places, each an operand and a position in it. Operands are of one type.
pub(super) fn picked(
    operands: &[&Constant],
    places: impl Iterator<Item = (usize, usize)>,
) -> Result<Data, Problem> {
    fn take<T: Copy>(
        from: Vec<&[T]>,
        places: impl Iterator<Item = (usize, usize)>,
    ) -> Result<Vec<T>, Problem> {
        let values = places.map(|(operand, at)| from[operand].get(at).copied());
        let values = values.collect::<Option<Vec<T>>>();
        values.ok_or(Problem::Folding { reason: OUTSIDE })
    }
    macro_rules! all {
        ($kind:ident) => {{
            let lists = operands.iter().map(|operand| match &operand.data {
                Data::$kind(values) => Some(&values[..]),
                _ => None,
            });
            lists.collect::<Option<Vec<_>>>()
        }};
    }
    if let Some(floats) = all!(Floats) {
        return take(floats, places).map(Data::Floats);
    }
    if let Some(integers) = all!(Ints) {
        return take(integers, places).map(Data::Ints);
    }
    if let Some(bytes) = all!(Signed) {
        return take(bytes, places).map(Data::Signed);
    }
    if let Some(bytes) = all!(Unsigned) {
        return take(bytes, places).map(Data::Unsigned);
    }
    let mixed = operands.iter().map(|operand| operand.integers());
    let Some(mixed) = mixed.collect::<Option<Vec<_>>>() else {
        return refuse(TYPES);
    };
    let mixed = mixed.iter().map(|list| &list[..]).collect();
    take(mixed, places).map(Data::of_integers)
}

/// An axis, which may count from the end.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, Problem> {
    index(axis, rank).ok_or(Problem::Folding {
        reason: "an axis is none of the dimensions",
    })
}

/// Axes, each once, in ascending order.
pub(super) fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>, Problem> {
    let mut found = list
        .iter()
        .map(|&at| axis(at, rank))
        .collect::<Result<Vec<_>, _>>()?;
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse("an axis is named twice");
    }
    Ok(found)
}

/// An index below `count`, which may count from the end.
pub(super) fn index(index: i64, count: usize) -> Option<usize> {
    let from_start = match index {
        ..0 => index.checked_add(i64::try_from(count).ok()?)?,
        _ => index,
    };
    usize::try_from(from_start).ok().filter(|&at| at < count)
}

/// The product of dimensions.
pub(super) fn area(dims: &[usize]) -> usize {
    dims.iter().product()
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
        let places: Vec<usize> = repeated(&[2, 1], &[2, 2, 3]).collect();
        assert_eq!(places, [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn strides_may_run_backwards_and_nothing_is_counted_for_nothing() {
        let places: Vec<usize> = strided(&[2, 2], &[-2, 1], 2).collect();
        assert_eq!(places, [2, 3, 0, 1]);
        assert_eq!(strided(&[3, 0, 2], &[0, 0, 1], 0).count(), 0);
        assert_eq!(strided(&[], &[], 5).collect::<Vec<_>>(), [5]);
    }
}
