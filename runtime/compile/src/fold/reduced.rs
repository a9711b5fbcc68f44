//! Operators that go along axes: sums, extremes, products of matrices.

use super::arranged::from_attribute_or_operand;
use super::layout::{area, axes, axis, broadcast, repeated};
use super::{BATCH, Folding, INTEGER_WORDS, NO_INTEGER, SIZES, TYPES, known, refuse};
use crate::graph::{Constant, Data};
use crate::integer::{Dim, Integer};
use crate::problem::Problem;

/// Most multiplications of one product of matrices.
const PRODUCTS_MAX: usize = 1 << 30;

pub(crate) fn reduce(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let list = from_attribute_or_operand(folding, 1)?.filter(|list| !list.is_empty());
    let keeps = folding.attributes.int("keepdims", 1)? != 0;
    let all_of_nothing = folding.attributes.int("noop_with_empty_axes", 0)? == 0;
    let rank = operand.dims.len();
    let found = match list {
        Some(list) => axes(&list, rank)?,
        None if all_of_nothing => (0..rank).collect(),
        // What is done to each value is done: a length of one value is its size.
        None => Vec::new(),
    };
    let batch = match operand.batch {
        Some(batch) if found.contains(&batch) => return refuse(BATCH),
        Some(batch) if !keeps => Some(batch - found.iter().filter(|&&at| at < batch).count()),
        batch => batch,
    };
    let mut kept = operand.dims.clone();
    found.iter().for_each(|&at| kept[at] = 1);
    let count = folding.count(&kept)?;
    // Each value goes to the place of the result that the other axes name.
    let places = repeated(&kept, &operand.dims);
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); count];
    folding
        .room
        .take(2 * operand.elements() + INTEGER_WORDS * count)?;
    places
        .enumerate()
        .for_each(|(from, to)| groups[to].push(from));
    let operator = folding.node.operator.as_str();
    let data = match &operand.data {
        Data::Floats(values) => {
            let group = |group: &Vec<usize>| float(operator, group.iter().map(|&at| values[at]));
            Data::Floats(groups.iter().map(group).collect())
        }
        _ => {
            let values = operand
                .integers()
                .ok_or(Problem::Folding { reason: TYPES })?;
            let group = |group: &Vec<usize>| {
                let group: Vec<_> = group.iter().map(|&at| values[at]).collect();
                integer(operator, group.iter().copied())?.of_width(&group)
            };
            let results = groups.iter().map(group).collect::<Option<_>>();
            let results = results.ok_or(Problem::Folding { reason: NO_INTEGER })?;
            operand.data.wrapped(results)
        }
    };
    let dims = if keeps {
        kept
    } else {
        (0..rank)
            .filter(|at| !found.contains(at))
            .map(|at| kept[at])
            .collect()
    };
    Ok(Constant { dims, batch, data })
}

fn float(operator: &str, values: impl ExactSizeIterator<Item = f32>) -> f32 {
    let count = values.len() as f64;
    let wide = values.map(f64::from);
    let result = match operator {
        "ReduceSum" => wide.sum(),
        "ReduceMean" => wide.sum::<f64>() / count,
        "ReduceMax" => wide.fold(f64::NEG_INFINITY, f64::max),
        "ReduceMin" => wide.fold(f64::INFINITY, f64::min),
        "ReduceProd" => wide.product(),
        _ => wide.map(|value| value * value).sum::<f64>().sqrt(),
    };
    result as f32
}

fn integer(operator: &str, mut values: impl ExactSizeIterator<Item = Integer>) -> Option<Integer> {
    let count = values.len();
    match operator {
        "ReduceSum" => values.try_fold(Integer::of(0), |sum, value| sum.plus(value, 1)),
        "ReduceProd" => values.try_fold(Integer::of(1), Integer::times),
        "ReduceMean" => {
            let sum = values.try_fold(Integer::of(0), |sum, value| sum.plus(value, 1))?;
            sum.divided(Integer::of(count as i64))
        }
        "ReduceMax" | "ReduceMin" => {
            let first = values.next()?;
            let max = operator == "ReduceMax";
            let better = |a: Integer, b: Integer| Some(if a.is_larger(b)? == max { a } else { b });
            values.try_fold(first, better)
        }
        _ => None,
    }
}

/// The rows along an axis, as positions of their values.
fn rows(dims: &[usize], at: usize) -> impl Iterator<Item = Vec<usize>> + use<> {
    let (outer, size, inner) = (area(&dims[..at]), dims[at], area(&dims[at + 1..]));
    let starts = (0..outer).flat_map(move |row| (0..inner).map(move |at| row * size * inner + at));
    starts.map(move |start| (0..size).map(|step| start + step * inner).collect())
}

pub(crate) fn running_sum(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    let at = axis(folding.one_integer(1, 0)?, operand.dims.len())?;
    let exclusive = folding.attributes.int("exclusive", 0)? != 0;
    let reverse = folding.attributes.int("reverse", 0)? != 0;
    folding.count(&operand.dims)?;
    if operand.batch == Some(at) {
        return refuse(BATCH);
    }
    let mut floats = match &operand.data {
        Data::Floats(values) => Some(values.clone()),
        _ => None,
    };
    let mut integers = operand.integers().map(|list| list.into_owned());
    for mut row in rows(&operand.dims, at) {
        if reverse {
            row.reverse();
        }
        if let Some(values) = &mut floats {
            let mut sum = 0.0;
            for &place in &row {
                let before = sum;
                sum += f64::from(values[place]);
                values[place] = if exclusive { before } else { sum } as f32;
            }
        } else if let Some(values) = &mut integers {
            let mut sum = Integer::of(0);
            for &place in &row {
                let before = sum;
                sum = sum
                    .plus(values[place], 1)
                    .and_then(|after| after.of_width(&[before, values[place]]))
                    .ok_or(Problem::Folding { reason: NO_INTEGER })?;
                values[place] = if exclusive { before } else { sum };
            }
        }
    }
    match (floats, integers) {
        (Some(values), _) => Ok(operand.with(Data::Floats(values))),
        (_, Some(values)) => Ok(operand.with(Data::of_integers(values))),
        _ => refuse(TYPES),
    }
}

/// Values as f64 to be ordered: exact for floats and for integers below 2^53.
fn ordered(operand: &Constant) -> Result<Vec<f64>, Problem> {
    Ok(match &operand.data {
        Data::Floats(values) => values.iter().copied().map(f64::from).collect(),
        _ => known(operand)?
            .into_iter()
            .map(|value| value as f64)
            .collect(),
    })
}

/// Places of a row's values, the first one first; equal ones in the order in which they lie.
fn by_size(values: &[f64], mut row: Vec<usize>, largest: bool) -> Vec<usize> {
    row.sort_by(|&a, &b| {
        if largest {
            values[b].total_cmp(&values[a])
        } else {
            values[a].total_cmp(&values[b])
        }
    });
    row
}

pub(crate) fn extreme(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.plain(0)?;
    let at = axis(folding.attributes.int("axis", 0)?, operand.dims.len())?;
    let keeps = folding.attributes.int("keepdims", 1)? != 0;
    folding.attributes.only("select_last_index", 0, "0")?;
    folding.count(&operand.dims)?;
    let values = ordered(operand)?;
    let largest = folding.node.operator == "ArgMax";
    let mut found = Vec::new();
    for row in rows(&operand.dims, at) {
        let best = by_size(&values, row.clone(), largest);
        let Some(best) = best.first() else {
            return refuse(SIZES);
        };
        found.push(row.iter().position(|place| place == best).unwrap_or(0) as i64);
    }
    let mut dims = operand.dims.clone();
    if keeps {
        dims[at] = 1;
    } else {
        dims.remove(at);
    }
    Ok(Constant::new(dims, Data::Ints(found)))
}

/// The largest or smallest values along an axis and their places, in order whether asked for or not.
pub(crate) fn largest(folding: &mut Folding<'_>) -> Result<Vec<Constant>, Problem> {
    let operand = folding.plain(0)?;
    let at = axis(folding.attributes.int("axis", -1)?, operand.dims.len())?;
    let largest = folding.attributes.int("largest", 1)? != 0;
    folding.attributes.ignore("sorted");
    let count = usize::try_from(folding.one_integer(1, 0)?);
    let Ok(count) = count else {
        return refuse(SIZES);
    };
    if count > operand.dims[at] {
        return refuse("it takes more values than there are");
    }
    folding.count(&operand.dims)?;
    let values = ordered(operand)?;
    let mut dims = operand.dims.clone();
    dims[at] = count;
    let total = folding.count(&dims)?;
    let mut places = vec![0; total];
    let mut indices = vec![0; total];
    for (row, to) in rows(&operand.dims, at).zip(rows(&dims, at)) {
        let best = by_size(&values, row.clone(), largest);
        for (best, to) in best.into_iter().zip(to) {
            places[to] = best;
            indices[to] = row.iter().position(|&place| place == best).unwrap_or(0) as i64;
        }
    }
    let data = super::layout::picked(&[operand], places.into_iter().map(|place| (0, place)))?;
    let values = Constant::new(dims.clone(), data);
    Ok(vec![values, Constant::new(dims, Data::Ints(indices))])
}

fn sizes(dims: &[usize]) -> Vec<Dim> {
    dims.iter().map(|&size| Dim::Known(size as i64)).collect()
}

/// As numpy has it: matrices in the last two dimensions, those before repeated.
pub(crate) fn product_of_matrices(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let (x, y) = (folding.floats(0)?, folding.floats(1)?);
    let (mut first, mut second) = (
        folding.plain(0)?.dims.clone(),
        folding.plain(1)?.dims.clone(),
    );
    let vectors = (first.len() == 1, second.len() == 1);
    if vectors.0 {
        first.insert(0, 1);
    }
    if vectors.1 {
        second.push(1);
    }
    let ([before @ .., rows, shared], [other @ .., inputs, columns]) = (&first[..], &second[..])
    else {
        return refuse(SIZES);
    };
    let (rows, shared, inputs, columns) = (*rows, *shared, *inputs, *columns);
    let outer = broadcast(&sizes(before), &sizes(other)).filter(|_| shared == inputs);
    let Some(outer) = outer else {
        return refuse(SIZES);
    };
    let (outer, _) = super::layout::extents(&outer)?;
    let mut dims = [&outer[..], &[rows, columns]].concat();
    let count = folding.count(&dims)?;
    if count.saturating_mul(shared) > PRODUCTS_MAX {
        return refuse("it has too many multiplications");
    }
    let mut data = Vec::with_capacity(count);
    for (a, b) in repeated(before, &outer).zip(repeated(other, &outer)) {
        let (a, b) = (&x[a * rows * shared..], &y[b * shared * columns..]);
        for row in 0..rows {
            for column in 0..columns {
                let products = (0..shared)
                    .map(|k| f64::from(a[row * shared + k]) * f64::from(b[k * columns + column]));
                data.push(products.sum::<f64>() as f32);
            }
        }
    }
    if vectors.1 {
        dims.pop();
    }
    if vectors.0 {
        dims.remove(outer.len());
    }
    Ok(Constant::new(dims, Data::Floats(data)))
}

/// A matrix that may lie transposed.
struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<'a> Matrix<'a> {
    fn of(folding: &mut Folding<'a>, at: usize, transposed: &'static str) -> Result<Self, Problem> {
        let transposed = folding.attributes.int(transposed, 0)? != 0;
        match folding.plain(at)?.dims[..] {
            [rows, columns] => Ok(Self {
                data: folding.floats(at)?,
                rows: if transposed { columns } else { rows },
                columns: if transposed { rows } else { columns },
                transposed,
            }),
            _ => refuse(SIZES),
        }
    }

    fn value(&self, row: usize, column: usize) -> f64 {
        let at = if self.transposed {
            column * self.rows + row
        } else {
            row * self.columns + column
        };
        self.data[at].into()
    }
}

/// `alpha * A * B + beta * C`.
pub(crate) fn general_product(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let alpha = f64::from(folding.attributes.float("alpha", 1.0)?);
    let beta = f64::from(folding.attributes.float("beta", 1.0)?);
    let a = Matrix::of(folding, 0, "transA")?;
    let b = Matrix::of(folding, 1, "transB")?;
    if a.columns != b.rows {
        return refuse(SIZES);
    }
    let dims = vec![a.rows, b.columns];
    let count = folding.count(&dims)?;
    if count.saturating_mul(a.columns) > PRODUCTS_MAX {
        return refuse("it has too many multiplications");
    }
    let mut sums = vec![0.0; count];
    if folding.optional(2).is_some() {
        let (c, own) = (folding.floats(2)?, &folding.plain(2)?.dims);
        if broadcast(&sizes(own), &sizes(&dims)) != Some(sizes(&dims)) {
            return refuse(SIZES);
        }
        let repeated = repeated(own, &dims).zip(&mut sums);
        repeated.for_each(|(from, sum)| *sum = beta * f64::from(c[from]));
    }
    for (at, sum) in sums.iter_mut().enumerate() {
        let (row, column) = (at / b.columns, at % b.columns);
        let products = (0..a.columns).map(|k| a.value(row, k) * b.value(k, column));
        *sum += alpha * products.sum::<f64>();
    }
    let data = sums.into_iter().map(|sum| sum as f32).collect();
    Ok(Constant::new(dims, Data::Floats(data)))
}
