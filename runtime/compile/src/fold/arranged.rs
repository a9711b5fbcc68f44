//! Operators that arrange values anew: other dimensions, parts, joins, repetitions.

use super::layout::{
    area, axes, axis, broadcast, extents, index, picked, product, repeated, resolved, strided,
    strides,
};
use super::{BATCH, Folding, SIZES, refuse};
use crate::graph::{Constant, Data};
use crate::integer::Dim;
use crate::problem::Problem;

pub(crate) fn reshape(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let zero_is_zero = folding.attributes.int("allowzero", 0)? != 0;
    let from = folding.operand(0)?.sizes();
    let mut to = folding.sizes(1)?;
    for (at, size) in to.iter_mut().enumerate() {
        if *size == Dim::Known(0) && !zero_is_zero {
            *size = from.get(at).copied().unwrap_or(*size);
        }
    }
    reshaped(folding, &to)
}

pub(crate) fn flatten(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let from = folding.operand(0)?.sizes();
    let at = folding.attributes.int("axis", 1)?;
    let at = match at {
        _ if at == from.len() as i64 => from.len(),
        _ => axis(at, from.len())?,
    };
    let halves = [&from[..at], &from[at..]].map(product);
    match halves {
        [Some(first), Some(second)] => reshaped(folding, &[first, second]),
        _ => refuse(SIZES),
    }
}

pub(crate) fn squeeze(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let mut sizes = folding.operand(0)?.sizes();
    let list = from_attribute_or_operand(folding, 1)?;
    let found = match list {
        Some(list) => axes(&list, sizes.len())?,
        None => (0..sizes.len())
            .filter(|&at| sizes[at] == Dim::Known(1))
            .collect(),
    };
    for &at in found.iter().rev() {
        if sizes.remove(at) != Dim::Known(1) {
            return refuse("it squeezes a dimension of more than one position");
        }
    }
    reshaped(folding, &sizes)
}

pub(crate) fn unsqueeze(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let mut sizes = folding.operand(0)?.sizes();
    let list = from_attribute_or_operand(folding, 1)?.unwrap_or_default();
    for at in axes(&list, sizes.len() + list.len())? {
        sizes.insert(at, Dim::Known(1));
    }
    reshaped(folding, &sizes)
}

/// Axes were an attribute before opset 13 (of some operators 18), and are an operand since.
pub(super) fn from_attribute_or_operand(
    folding: &mut Folding<'_>,
    at: usize,
) -> Result<Option<Vec<i64>>, Problem> {
    let attribute = folding.attributes.ints("axes")?.map(<[i64]>::to_vec);
    Ok(folding.list(at)?.or(attribute))
}

fn reshaped(folding: &mut Folding<'_>, to: &[Dim]) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let from = operand.sizes();
    let (Some(to), Some(all)) = (resolved(&from, to, None), product(&from)) else {
        return refuse(SIZES);
    };
    if product(&to) != Some(all) {
        return refuse(SIZES);
    }
    let (dims, batch) = extents(&to)?;
    // What lies before the batch must stay there.
    let before = |dims: &[usize], batch: Option<usize>| area(&dims[..batch.unwrap_or(0)]);
    if before(&dims, batch) != before(&operand.dims, operand.batch) {
        return refuse(BATCH);
    }
    folding.count(&dims)?;
    let data = operand.data.clone();
    Ok(Constant { dims, batch, data })
}

pub(crate) fn transpose(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let rank = operand.dims.len();
    let order: Vec<usize> = match folding.attributes.ints("perm")? {
        None => (0..rank).rev().collect(),
        Some(order) if axes(order, rank)?.len() == rank => {
            let order = order.iter().map(|&at| axis(at, rank));
            order.collect::<Result<_, _>>()?
        }
        Some(_) => return refuse("its attribute perm does not name each dimension once"),
    };
    let dims: Vec<usize> = order.iter().map(|&at| operand.dims[at]).collect();
    let steps = strides(&operand.dims);
    let steps: Vec<isize> = order.iter().map(|&at| steps[at]).collect();
    folding.count(&dims)?;
    let data = one(operand, strided(&dims, &steps, 0))?;
    let batch = order.iter().position(|&at| operand.batch == Some(at));
    Ok(Constant { dims, batch, data })
}

/// Values of one operand.
fn one(operand: &Constant, places: impl Iterator<Item = usize>) -> Result<Data, Problem> {
    picked(&[operand], places.map(|place| (0, place)))
}

pub(crate) fn expand(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let Some(sizes) = broadcast(&operand.sizes(), &folding.sizes(1)?) else {
        return refuse(SIZES);
    };
    let (dims, batch) = extents(&sizes)?;
    folding.count(&dims)?;
    let data = one(operand, repeated(&operand.dims, &dims))?;
    Ok(Constant { dims, batch, data })
}

pub(crate) fn tile(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let times = folding.sizes(1)?;
    let mut sizes = operand.sizes();
    if times.len() != sizes.len() {
        return refuse(SIZES);
    }
    for (at, (size, times)) in sizes.iter_mut().zip(&times).enumerate() {
        // The images' order is lost if all of them are repeated.
        if operand.batch == Some(at) && *times != Dim::Known(1) {
            return refuse(BATCH);
        }
        *size = product(&[*size, *times]).ok_or(Problem::Folding { reason: SIZES })?;
    }
    let (dims, batch) = extents(&sizes)?;
    folding.count(&dims)?;
    let own = strides(&operand.dims);
    // Each dimension is two: which repetition, and the place in it.
    let digits = (0..dims.len()).flat_map(|at| {
        let times = dims[at].checked_div(operand.dims[at]).unwrap_or(0);
        [(times, 0), (operand.dims[at], own[at])]
    });
    let (counts, steps): (Vec<usize>, Vec<isize>) = digits.unzip();
    let data = one(operand, strided(&counts, &steps, 0))?;
    Ok(Constant { dims, batch, data })
}

pub(crate) fn concat(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let first = folding.operand(0)?;
    let at = axis(folding.attributes.int("axis", 1)?, first.dims.len())?;
    let mut parts = Vec::with_capacity(folding.operands.len());
    let others = |part: &Constant| [&part.dims[..at], &part.dims[at + 1..]].concat();
    let mut along = 0_usize;
    for position in 0..folding.operands.len() {
        let part = folding.operand(position)?;
        let fits = part.dims.len() == first.dims.len() && others(part) == others(first);
        if !fits || part.batch != first.batch || part.batch == Some(at) {
            return refuse(SIZES);
        }
        along = along.saturating_add(part.dims[at]);
        parts.push(part);
    }
    let mut dims = first.dims.clone();
    dims[at] = along;
    folding.count(&dims)?;
    let (outer, inner) = (area(&dims[..at]), area(&dims[at + 1..]));
    let rows: Vec<usize> = parts.iter().map(|part| part.dims[at] * inner).collect();
    let places = (0..outer).flat_map(|row| {
        let lengths = rows.iter().enumerate();
        lengths
            .flat_map(move |(part, &length)| (0..length).map(move |at| (part, row * length + at)))
    });
    let data = picked(&parts, places)?;
    let batch = first.batch;
    Ok(Constant { dims, batch, data })
}

pub(crate) fn split(folding: &mut Folding<'_>) -> Result<Vec<Constant>, Problem> {
    let operand = folding.operand(0)?;
    let at = axis(folding.attributes.int("axis", 0)?, operand.dims.len())?;
    let attribute = folding.attributes.ints("split")?.map(<[i64]>::to_vec);
    let results = folding.node.outputs.len() as i64;
    folding
        .attributes
        .only("num_outputs", results, "the number of its results")?;
    if operand.batch == Some(at) {
        return refuse(BATCH);
    }
    let (size, results) = (operand.dims[at], folding.node.outputs.len().max(1));
    let each = size.div_ceil(results);
    let equal = (0..results).map(|part| each.min(size.saturating_sub(part * each)) as i64);
    let lengths = folding.list(1)?.or(attribute);
    let lengths = lengths.unwrap_or_else(|| equal.collect());
    let mut start = 0;
    let mut parts = Vec::with_capacity(results);
    for length in lengths {
        let Some(length) = usize::try_from(length).ok().filter(|&l| l <= size - start) else {
            return refuse(SIZES);
        };
        parts.push(part(folding, operand, &[(at, start as i64, length, 1)])?);
        start += length;
    }
    if start == size && parts.len() == results {
        Ok(parts)
    } else {
        refuse(SIZES)
    }
}

pub(crate) fn slice(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let rank = operand.dims.len();
    let missing = Problem::Folding {
        reason: "it has no starts or ends",
    };
    let (Some(starts), Some(ends)) = (folding.list(1)?, folding.list(2)?) else {
        return Err(missing);
    };
    let list = folding.list(3)?;
    let list = list.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = folding.list(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    axes(&list, rank)?;
    if [ends.len(), list.len(), steps.len()] != [starts.len(); 3] {
        return refuse("its lists have different lengths");
    }
    let mut spans = Vec::with_capacity(starts.len());
    for (at, &named) in list.iter().enumerate() {
        let named = axis(named, rank)?;
        let (start, end, step) = (starts[at], ends[at], steps[at]);
        if operand.batch == Some(named) {
            // All images are the only slice of them.
            if (start, step) != (0, 1) || end < i64::from(i32::MAX) {
                return refuse(BATCH);
            }
            continue;
        }
        let (first, count) = span(operand.dims[named], start, end, step)?;
        spans.push((named, first, count, step));
    }
    part(folding, operand, &spans)
}

/// The first position and the number of positions of a slice, as ONNX clamps it.
fn span(size: usize, start: i64, end: i64, step: i64) -> Result<(i64, usize), Problem> {
    let size = i64::try_from(size).map_err(|_| Problem::Folding { reason: SIZES })?;
    let from_start = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
    let (start, end) = (from_start(start), from_start(end));
    let (start, distance) = match step {
        1.. => (
            start.clamp(0, size),
            end.clamp(0, size) - start.clamp(0, size),
        ),
        ..0 if size == 0 => (0, 0),
        ..0 => {
            let start = start.clamp(0, size - 1);
            (start, start - end.clamp(-1, size - 1))
        }
        0 => return refuse("its step is 0"),
    };
    let count = distance.max(0).unsigned_abs().div_ceil(step.unsigned_abs());
    Ok((start, count as usize))
}

/// Positions of some dimensions: axis, first position, how many, how far apart.
fn part(
    folding: &mut Folding<'_>,
    operand: &Constant,
    spans: &[(usize, i64, usize, i64)],
) -> Result<Constant, Problem> {
    let (mut dims, mut steps) = (operand.dims.clone(), strides(&operand.dims));
    let mut start = 0;
    for &(axis, first, count, step) in spans {
        // With fewer than two positions the step counts for nothing, and may be any number.
        start += if count > 0 {
            first as isize * steps[axis]
        } else {
            0
        };
        steps[axis] *= if count > 1 { step as isize } else { 0 };
        dims[axis] = count;
    }
    folding.count(&dims)?;
    let data = one(operand, strided(&dims, &steps, start))?;
    let batch = operand.batch;
    Ok(Constant { dims, batch, data })
}

pub(crate) fn pad(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.plain(0)?;
    let mode = folding.attributes.text("mode", "constant")?;
    let rank = operand.dims.len();
    let padding = folding.list(1)?.unwrap_or_default();
    let list = folding.list(3)?;
    let list = list.unwrap_or_else(|| (0..rank as i64).collect());
    axes(&list, rank)?;
    if padding.len() != 2 * list.len() {
        return refuse("its pads are not two for each axis");
    }
    let mut dims = operand.dims.clone();
    let mut before = vec![0; rank];
    for (at, &named) in list.iter().enumerate() {
        let named = axis(named, rank)?;
        let size = padding[at].checked_add(padding[at + list.len()]);
        let size = size.and_then(|both| both.checked_add_unsigned(dims[named] as u64));
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
            return refuse(SIZES);
        };
        (dims[named], before[named]) = (size, padding[at]);
    }
    folding.count(&dims)?;
    let zero = Constant::new(vec![], zero_like(&operand.data));
    let fill = folding.optional(2).unwrap_or(&zero);
    let own = strides(&operand.dims);
    let place = |mut at: usize| -> Option<usize> {
        let mut place = 0;
        for axis in (0..rank).rev() {
            let position = ((at % dims[axis]) as i64).saturating_sub(before[axis]);
            at /= dims[axis];
            place += inside(position, operand.dims[axis], mode)? * own[axis] as usize;
        }
        Some(place)
    };
    if !["constant", "reflect", "edge", "wrap"].contains(&mode) {
        return refuse("its attribute mode is none of constant, reflect, edge and wrap");
    }
    let places = (0..area(&dims)).map(|at| place(at).map_or((1, 0), |place| (0, place)));
    let data = picked(&[operand, fill], places)?;
    Ok(Constant::new(dims, data))
}

/// Where a position that may lie in the padding comes from; nothing for the constant.
fn inside(position: i64, size: usize, mode: &str) -> Option<usize> {
    let last = i64::try_from(size).ok()? - 1;
    let from = match mode {
        _ if (0..=last).contains(&position) => position,
        "edge" => position.clamp(0, last.max(0)),
        "wrap" => position.checked_rem_euclid(last + 1)?,
        "reflect" if last > 0 => {
            let place = position.rem_euclid(2 * last);
            place.min(2 * last - place)
        }
        _ => return None,
    };
    index(from, size)
}

fn zero_like(data: &Data) -> Data {
    match data {
        Data::Floats(_) => Data::Floats(vec![0.0]),
        Data::Signed(_) => Data::Signed(vec![0]),
        Data::Unsigned(_) => Data::Unsigned(vec![0]),
        _ => Data::Ints(vec![0]),
    }
}
