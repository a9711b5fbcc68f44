//! Values taken from, or put to, places that integers name.

use super::layout::{area, axis, extents, index, picked, strided, strides};
use super::{BATCH, Folding, IMAGE, NO_INTEGER, OUTSIDE, SIZES, TYPES, known, refuse};
use crate::graph::{Constant, Data};
use crate::integer::{Dim, Integer};
use crate::problem::Problem;

const OUT: Problem = Problem::Folding { reason: OUTSIDE };

pub(crate) fn gather(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let (data, indices) = (folding.operand(0)?, folding.operand(1)?);
    let at = axis(folding.attributes.int("axis", 0)?, data.dims.len())?;
    let places = if data.batch == Some(at) {
        of_own_image(indices, data.dims[at])?
    } else {
        known(indices)?
    };
    let batch = match (data.batch, indices.batch) {
        (Some(own), Some(other)) if own == at => Some(at + other),
        (Some(own), None) if own < at => Some(own),
        (Some(own), None) if own > at => Some(own + indices.dims.len() - 1),
        (None, Some(own)) => Some(at + own),
        (None, None) => None,
        _ => return refuse(BATCH),
    };
    let dims = [&data.dims[..at], &indices.dims[..], &data.dims[at + 1..]].concat();
    folding.count(&dims)?;
    let size = data.dims[at];
    let rows = places.iter().map(|&place| index(place, size));
    let rows: Vec<usize> = rows.collect::<Option<_>>().ok_or(OUT)?;
    let (outer, inner) = (area(&data.dims[..at]), area(&data.dims[at + 1..]));
    let rows = &rows[..];
    let all = (0..outer).flat_map(|row| {
        let starts = rows.iter().map(move |place| (row * size + place) * inner);
        starts.flat_map(move |start| (start..start + inner).map(|at| (0, at)))
    });
    let data = picked(&[data], all)?;
    Ok(Constant { dims, batch, data })
}

/// The positions that indices name along a batch of `each` positions for each image, if each index is one of its own image.
fn of_own_image(indices: &Constant, each: usize) -> Result<Vec<i64>, Problem> {
    let Some(integers) = indices.integers() else {
        return refuse(TYPES);
    };
    let own = |index: &Integer| {
        let first = Integer {
            images: each as i64,
            ..Integer::default()
        };
        index.plus(first, -1)?.known().filter(|&place| place >= 0)
    };
    let places = integers.iter().map(own).collect::<Option<_>>();
    places.ok_or(Problem::Folding { reason: IMAGE })
}

/// Of each index the place along `axis` that it names, where all else is as in the indices.
fn along(data: &Constant, indices: &Constant, at: usize) -> Result<Vec<usize>, Problem> {
    let mut pairs = indices.dims.iter().zip(&data.dims).enumerate();
    let fits = pairs.all(|(d, (own, all))| d == at || own <= all);
    if indices.dims.len() != data.dims.len() || !fits {
        return refuse(SIZES);
    }
    let steps = strides(&data.dims);
    let mut digits = steps.clone();
    digits[at] = 0;
    let others = strided(&indices.dims, &digits, 0);
    let place = |(&named, other): (&i64, usize)| {
        Some(other + index(named, data.dims[at])? * steps[at] as usize)
    };
    let named = known(indices)?;
    let places = named.iter().zip(others).map(place);
    places.collect::<Option<_>>().ok_or(OUT)
}

pub(crate) fn gather_elements(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let (data, indices) = (folding.plain(0)?, folding.plain(1)?);
    let at = axis(folding.attributes.int("axis", 0)?, data.dims.len())?;
    folding.count(&indices.dims)?;
    let places = along(data, indices, at)?;
    let data = picked(&[data], places.into_iter().map(|place| (0, place)))?;
    Ok(Constant::new(indices.dims.clone(), data))
}

pub(crate) fn scatter_elements(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let (data, indices) = (folding.plain(0)?, folding.plain(1)?);
    let at = axis(folding.attributes.int("axis", 0)?, data.dims.len())?;
    folding.count(&indices.dims)?;
    let places = along(data, indices, at)?;
    let updates = folding.plain(2)?;
    if updates.dims != indices.dims {
        return refuse(SIZES);
    }
    reduced(folding, data, updates, places.into_iter().zip(0..))
}

/// `data` with updates at places, combined as the attribute says.
fn reduced(
    folding: &mut Folding<'_>,
    data: &Constant,
    updates: &Constant,
    places: impl Iterator<Item = (usize, usize)>,
) -> Result<Constant, Problem> {
    match folding.attributes.text("reduction", "none")? {
        "none" => scattered(folding, data, updates, places),
        reduction => combined(folding, data, updates, places, reduction),
    }
}

/// `data` and the updates at places, as a reduction has it.
fn combined(
    folding: &mut Folding<'_>,
    data: &Constant,
    updates: &Constant,
    places: impl Iterator<Item = (usize, usize)>,
    reduction: &str,
) -> Result<Constant, Problem> {
    folding.count(&data.dims)?;
    let floats: fn(f32, f32) -> f32 = match reduction {
        "add" => |own, new| own + new,
        "mul" => |own, new| own * new,
        "max" => |own, new| if own.is_nan() || own >= new { own } else { new },
        "min" => |own, new| if own.is_nan() || own <= new { own } else { new },
        _ => return refuse("its attribute reduction is not one of none, add, mul, max and min"),
    };
    let integers: fn(i64, i64) -> Option<i64> = match reduction {
        "add" => i64::checked_add,
        "mul" => i64::checked_mul,
        "max" => |own, new| Some(own.max(new)),
        _ => |own, new| Some(own.min(new)),
    };
    let mut result = data.clone();
    match (&mut result.data, &updates.data) {
        (Data::Floats(all), Data::Floats(new)) => {
            for (place, update) in places {
                let own = all.get_mut(place).ok_or(OUT)?;
                *own = floats(*own, *new.get(update).ok_or(OUT)?);
            }
        }
        (Data::Ints(all), Data::Ints(new)) => {
            for (place, update) in places {
                let own = all.get_mut(place).ok_or(OUT)?;
                let both = integers(*own, *new.get(update).ok_or(OUT)?);
                *own = both.ok_or(Problem::Folding { reason: NO_INTEGER })?;
            }
        }
        _ => return refuse(TYPES),
    }
    Ok(result)
}

/// `data` with updates at places; of several at one place the last.
fn scattered(
    folding: &mut Folding<'_>,
    data: &Constant,
    updates: &Constant,
    places: impl Iterator<Item = (usize, usize)>,
) -> Result<Constant, Problem> {
    let count = folding.count(&data.dims)?;
    let mut all: Vec<(usize, usize)> = (0..count).map(|at| (0, at)).collect();
    for (place, update) in places {
        *all.get_mut(place).ok_or(OUT)? = (1, update);
    }
    Ok(data.with(picked(&[data, updates], all.into_iter())?))
}

/// Where the slices that tuples of indices name begin in `data`, and how long they are. The first dimensions of both
/// may be batches of tensors.
fn slices(
    data: &Constant,
    indices: &Constant,
    batches: usize,
) -> Result<(Vec<usize>, usize), Problem> {
    let Some((&length, outer)) = indices.dims.split_last() else {
        return refuse(SIZES);
    };
    let depth = batches + length;
    if batches > outer.len() || depth > data.dims.len() || length == 0 {
        return refuse(SIZES);
    }
    if outer[..batches] != data.dims[..batches] {
        return refuse(SIZES);
    }
    let steps = strides(&data.dims);
    let named = known(indices)?;
    let each = area(&outer[batches..]);
    let tensor = area(&data.dims[batches..]);
    let start = |(at, tuple): (usize, &[i64])| {
        let mut start = at / each.max(1) * tensor;
        for (&named, axis) in tuple.iter().zip(batches..) {
            start += index(named, data.dims[axis])? * steps[axis] as usize;
        }
        Some(start)
    };
    let starts = named.chunks_exact(length).enumerate().map(start);
    let starts = starts.collect::<Option<_>>().ok_or(OUT)?;
    Ok((starts, area(&data.dims[depth..])))
}

pub(crate) fn gather_nd(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let batches = folding.attributes.int("batch_dims", 0)?;
    if batches == 0
        && let Some(same) = gathered_of_equals(folding)?
    {
        return Ok(same);
    }
    let (data, indices) = (folding.plain(0)?, folding.plain(1)?);
    let Ok(batches) = usize::try_from(batches) else {
        return refuse(SIZES);
    };
    let (starts, length) = slices(data, indices, batches)?;
    let outer = &indices.dims[..indices.dims.len() - 1];
    let depth = batches + indices.dims[outer.len()];
    let dims = [outer, &data.dims[depth..]].concat();
    folding.count(&dims)?;
    let places = starts
        .iter()
        .flat_map(|&start| (start..start + length).map(|at| (0, at)));
    let data = picked(&[data], places)?;
    Ok(Constant::new(dims, data))
}

/// Equal values picked by a position on every dimension, whatever the positions and the batch: a mask of ones.
fn gathered_of_equals(folding: &mut Folding<'_>) -> Result<Option<Constant>, Problem> {
    let (data, indices) = (folding.operand(0)?, folding.operand(1)?);
    let equal = match &data.data {
        Data::Ints(values) => values.windows(2).all(|pair| pair[0] == pair[1]),
        Data::Floats(values) => values.windows(2).all(|pair| pair[0] == pair[1]),
        _ => false,
    };
    let sizes = indices.sizes();
    let outer = match sizes.split_last() {
        Some((Dim::Known(depth), outer)) if *depth == data.dims.len() as i64 => outer,
        _ => return Ok(None),
    };
    if !equal || data.data.len() == 0 {
        return Ok(None);
    }
    let (dims, batch) = extents(outer)?;
    let count = folding.count(&dims)?;
    let data = match &data.data {
        Data::Ints(values) => Data::Ints(vec![values[0]; count]),
        Data::Floats(values) => Data::Floats(vec![values[0]; count]),
        _ => return Ok(None),
    };
    Ok(Some(Constant { dims, batch, data }))
}

pub(crate) fn scatter_nd(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let [data, indices, updates] = [folding.plain(0)?, folding.plain(1)?, folding.plain(2)?];
    let (starts, length) = slices(data, indices, 0)?;
    if updates.elements() != starts.len().saturating_mul(length) {
        return refuse(SIZES);
    }
    let places = starts.iter().flat_map(|&start| start..start + length);
    reduced(folding, data, updates, places.zip(0..))
}

/// The places of all values that are not 0, one column each.
pub(crate) fn non_zero(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.plain(0)?;
    let is_set: Vec<bool> = match &operand.data {
        Data::Floats(values) => values.iter().map(|value| *value != 0.0).collect(),
        _ => known(operand)?.iter().map(|value| *value != 0).collect(),
    };
    let places: Vec<usize> = (0..is_set.len()).filter(|&at| is_set[at]).collect();
    let dims = vec![operand.dims.len(), places.len()];
    folding.count(&dims)?;
    let digit = |(size, step): (&usize, isize)| {
        let places = places.iter().map(move |place| place / step as usize % size);
        places.map(|place| place as i64).collect::<Vec<i64>>()
    };
    let digits = operand.dims.iter().zip(strides(&operand.dims)).map(digit);
    let data = Data::Ints(digits.collect::<Vec<_>>().concat());
    Ok(Constant::new(dims, data))
}
