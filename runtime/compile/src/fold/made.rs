//! Tensors made of little: shapes, ranges, one value everywhere, unit matrices.

use super::layout::{axis, extents, index, picked, product, strides};
use super::{BATCH, Folding, SIZES, TYPES, refuse};
use crate::graph::{Attribute, Attributes, Constant, Data};
use crate::integer::{Dim, Integer};
use crate::problem::Problem;
use crate::schema::data_type;

pub(crate) fn shape(attributes: &mut Attributes<'_>, sizes: &[Dim]) -> Result<Constant, Problem> {
    let count = sizes.len() as i64;
    let clamp = |at: i64| if at < 0 { at.saturating_add(count) } else { at }.clamp(0, count);
    let start = clamp(attributes.int("start", 0)?) as usize;
    let end = clamp(attributes.int("end", count)?) as usize;
    let part: Vec<Integer> = sizes[start..end.max(start)].iter().map(integer).collect();
    Ok(Constant::new(vec![part.len()], Data::of_integers(part)))
}

pub(crate) fn size(_: &mut Attributes<'_>, sizes: &[Dim]) -> Result<Constant, Problem> {
    match product(sizes) {
        Some(size) => Ok(Constant::new(
            vec![],
            Data::of_integers(vec![integer(&size)]),
        )),
        None => refuse(SIZES),
    }
}

fn integer(size: &Dim) -> Integer {
    match *size {
        Dim::Known(size) => Integer::of(size),
        Dim::Batches(batches) => Integer {
            batches,
            ..Integer::default()
        },
    }
}

pub(crate) fn filled(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let (dims, batch) = extents(&folding.sizes(0)?)?;
    let count = folding.count(&dims)?;
    let zero = Constant::new(vec![1], Data::Floats(vec![0.0]));
    let value = match folding.attributes.take("value") {
        None => &zero,
        Some(Attribute::Tensor(value)) if value.elements() == 1 => value,
        Some(other) => {
            return Err(Problem::attribute(
                "value",
                other,
                "a tensor of one element",
            ));
        }
    };
    let data = picked(&[value], (0..count).map(|_| (0, 0)))?;
    Ok(Constant { dims, batch, data })
}

/// The numbers of all images, or constant numbers.
pub(crate) fn range(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    folding.attributes.ignore("stash_type"); // Sums are of f64.
    let operands = [folding.plain(0)?, folding.plain(1)?, folding.plain(2)?];
    if operands.iter().any(|operand| operand.elements() != 1) {
        return refuse("its operands are not one number each");
    }
    if let [Data::Floats(start), Data::Floats(end), Data::Floats(step)] =
        operands.map(|operand| &operand.data)
    {
        let [start, end, step] = [start, end, step].map(|value| f64::from(value[0]));
        // A cast of a float saturates, and takes a NaN to 0.
        let count = folding.count(&[((end - start) / step).ceil() as usize])?;
        let values = (0..count).map(|at| (start + at as f64 * step) as f32);
        return Ok(Constant::new(vec![count], Data::Floats(values.collect())));
    }
    let integers = operands.map(|operand| Some(operand.integers()?[0]));
    let [Some(start), Some(end), Some(step)] = integers else {
        return refuse(TYPES);
    };
    let (zero, one) = (Integer::of(0), Integer::of(1));
    if (start, end.dim(), step) == (zero, Some(Dim::Batches(1)), one) {
        let image = Integer {
            images: 1,
            ..Integer::default()
        };
        return Ok(Constant {
            dims: vec![1],
            batch: Some(0),
            data: Data::Symbols(vec![image]),
        });
    }
    let [Some(start), Some(end), Some(step)] = [start, end, step].map(Integer::known) else {
        return refuse(BATCH);
    };
    let distance = i128::from(end) - i128::from(start);
    let count = match step {
        0 => return refuse("its step is 0"),
        1.. => distance
            .max(0)
            .unsigned_abs()
            .div_ceil(u128::from(step.unsigned_abs())),
        ..0 => distance
            .min(0)
            .unsigned_abs()
            .div_ceil(u128::from(step.unsigned_abs())),
    };
    let count = folding.count(&[usize::try_from(count).unwrap_or(usize::MAX)])?;
    let values = (0..count as i64).map(|at| start.wrapping_add(at.wrapping_mul(step)));
    Ok(Constant::new(vec![count], Data::Ints(values.collect())))
}

pub(crate) fn identity_matrix(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.plain(0)?;
    let is_float = matches!(operand.data, Data::Floats(_));
    let default = if is_float {
        data_type::FLOAT
    } else {
        data_type::INT64
    };
    let kind = folding.attributes.int("dtype", default.into())?;
    let above = folding.attributes.int("k", 0)?;
    let &[rows, columns] = &operand.dims[..] else {
        return refuse(SIZES);
    };
    folding.count(&operand.dims)?;
    let cell = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        i64::from(column as i64 - row as i64 == above)
    };
    let cells = (0..rows * columns).map(cell);
    let integers = [data_type::INT32, data_type::INT64, data_type::BOOL].map(i64::from);
    let data = if integers.contains(&kind) {
        Data::Ints(cells.collect())
    } else {
        Data::Floats(cells.map(|cell| cell as f32).collect())
    };
    Ok(operand.with(data))
}

/// Zeros above or below a diagonal.
pub(crate) fn triangle(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.plain(0)?;
    let upper = folding.attributes.int("upper", 1)? != 0;
    let above = folding.one_integer(1, 0)?;
    let &[.., rows, columns] = &operand.dims[..] else {
        return refuse(SIZES);
    };
    let count = folding.count(&operand.dims)?;
    let kept = |at: usize| {
        let (row, column) = (at / columns % rows, at % columns);
        let beyond = column as i64 - row as i64;
        if upper {
            beyond >= above
        } else {
            beyond <= above
        }
    };
    let zero = match operand.data {
        Data::Floats(_) => Data::Floats(vec![0.0]),
        _ => Data::Ints(vec![0]),
    };
    let zero = Constant::new(vec![1], zero);
    let places = (0..count).map(|at| if kept(at) { (0, at) } else { (1, 0) });
    Ok(operand.with(picked(&[operand, &zero], places)?))
}

/// One value where a class is an index, another elsewhere.
pub(crate) fn one_hot(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let indices = folding.plain(0)?;
    let at = folding.attributes.int("axis", -1)?;
    let at = axis(at, indices.dims.len() + 1)?;
    let (places, depth) = (folding.known(0)?, folding.one_integer(1, 0)?);
    let values = folding.plain(2)?;
    let (Ok(depth), 2) = (usize::try_from(depth), values.elements()) else {
        return refuse(SIZES);
    };
    let mut dims = indices.dims.clone();
    dims.insert(at, depth);
    let count = folding.count(&dims)?;
    let inner = strides(&dims)[at] as usize;
    let is_on = |place: usize| {
        let (outer, class) = (place / (inner * depth), place / inner % depth);
        index(places[outer * inner + place % inner], depth) == Some(class)
    };
    let all = (0..count).map(|place| (0, usize::from(is_on(place))));
    let data = picked(&[values], all)?;
    Ok(Constant::new(dims, data))
}
