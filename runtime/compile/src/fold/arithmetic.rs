//! Operators that treat each element alone, their operands repeated to common dimensions.

use punctual_types::UnaryFunction;

use super::layout::{broadcast, extents, picked, repeated};
use super::{BATCH, Folding, NO_INTEGER, SIZES, TYPES, known, refuse};
use crate::graph::{Attribute, Constant, Data};
use crate::integer::Integer;
use crate::problem::Problem;
use crate::schema::data_type;

const RANGE: &str = "a value lies outside of the integers that it is converted to";

pub(crate) fn unary(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.operand(0)?;
    folding.count(&operand.dims)?;
    let operator = folding.node.operator.as_str();
    let data = match &operand.data {
        Data::Floats(values) => match (float_function(operator), operator) {
            (_, "IsNaN") => truths(values.iter().map(|value| value.is_nan())),
            (Some(function), _) => Data::Floats(values.iter().copied().map(function).collect()),
            (None, _) => return refuse(TYPES),
        },
        _ => {
            let integers = operand
                .integers()
                .ok_or(Problem::Folding { reason: TYPES })?;
            let results = integers
                .iter()
                .map(|&value| integer_function(operator, value));
            let results = results.collect::<Option<_>>();
            operand
                .data
                .wrapped(results.ok_or(Problem::Folding { reason: BATCH })?)
        }
    };
    Ok(operand.with(data))
}

pub(crate) fn is_infinite(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operand = folding.plain(0)?;
    let negative = folding.attributes.int("detect_negative", 1)? != 0;
    let positive = folding.attributes.int("detect_positive", 1)? != 0;
    folding.count(&operand.dims)?;
    let is_found = |value: &f32| match *value {
        f32::INFINITY => positive,
        f32::NEG_INFINITY => negative,
        _ => false,
    };
    let found = truths(folding.floats(0)?.iter().map(is_found));
    Ok(operand.with(found))
}

fn truths(values: impl Iterator<Item = bool>) -> Data {
    Data::Ints(values.map(i64::from).collect())
}

fn float_function(operator: &str) -> Option<fn(f32) -> f32> {
    Some(match operator {
        "Abs" => f32::abs,
        "Acos" => f32::acos,
        "Acosh" => f32::acosh,
        "Asin" => f32::asin,
        "Asinh" => f32::asinh,
        "Atan" => f32::atan,
        "Atanh" => f32::atanh,
        "Ceil" => f32::ceil,
        "Cos" => f32::cos,
        "Cosh" => f32::cosh,
        "Erf" => |x| UnaryFunction::ErrorFunction.of(x),
        "Exp" => f32::exp,
        "Floor" => f32::floor,
        "Log" => f32::ln,
        "Neg" => |x| -x,
        "Reciprocal" => |x| 1.0 / x,
        "Relu" => |x| x.max(0.0),
        "Round" => f32::round_ties_even,
        "Sigmoid" => |x| 1.0 / (1.0 + (-x).exp()),
        "Sign" => |x| if x == 0.0 { x } else { x.signum() },
        "Sin" => f32::sin,
        "Sinh" => f32::sinh,
        "Sqrt" => f32::sqrt,
        "Tan" => f32::tan,
        "Tanh" => f32::tanh,
        _ => return None,
    })
}

/// `None` where it depends on the batch, or is no integer.
fn integer_function(operator: &str, value: Integer) -> Option<Integer> {
    let known = value.known();
    match operator {
        "Neg" => Integer::of(0).plus(value, -1),
        "Abs" => known?.checked_abs().map(Integer::of),
        "Sign" => known.map(|value| Integer::of(value.signum())),
        "Relu" => known.map(|value| Integer::of(value.max(0))),
        "BitwiseNot" => known.map(|value| Integer::of(!value)),
        "Not" => truth(value).map(|truth| Integer::truth(!truth)),
        _ => None,
    }
}

/// Whether a value is not 0, if that is so for every batch.
fn truth(value: Integer) -> Option<bool> {
    Some(value.compared(Integer::of(0))? != std::cmp::Ordering::Equal)
}

/// What an operator does with two values.
struct Pair {
    floats: Option<fn(f32, f32) -> f32>,
    integers: fn(Integer, Integer) -> Option<Integer>,
    /// Whether the result is a truth.
    truth: bool,
}

pub(crate) fn binary(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let operator = folding.node.operator.as_str();
    let c_remainder = match operator {
        "Mod" => folding.attributes.int("fmod", 0)? != 0,
        _ => false,
    };
    let pair = pair(operator, c_remainder);
    let mut result = folding.operand(0)?.clone();
    let variadic = matches!(operator, "Max" | "Min" | "Sum");
    if !variadic && folding.operands.len() != 2 {
        return refuse("it takes two operands");
    }
    for at in 1..folding.operands.len() {
        result = paired(folding, &result, folding.operand(at)?, &pair)?;
    }
    Ok(result)
}

/// Of unsigned integers, of which no more bits are kept than there were.
pub(crate) fn shift(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let integers = match folding.attributes.text("direction", "")? {
        "LEFT" => shifted_left,
        "RIGHT" => shifted_right,
        other => {
            let found = Attribute::Text(other.to_owned());
            return Err(Problem::attribute("direction", &found, "LEFT or RIGHT"));
        }
    };
    let operands = [folding.operand(0)?, folding.operand(1)?];
    let is_unsigned =
        |operand: &&Constant| matches!(operand.data, Data::Unsigned(_) | Data::UnsignedShort(_));
    if !operands.iter().all(is_unsigned) {
        return refuse(TYPES);
    }
    let pair = Pair {
        floats: None,
        integers,
        truth: false,
    };
    paired(folding, operands[0], operands[1], &pair)
}

fn shifted_left(value: Integer, by: Integer) -> Option<Integer> {
    // Of 16 bits none is left after as many.
    let by = by.known()?.min(i64::from(u16::BITS));
    Some(Integer::of(value.known()? << by))
}

fn shifted_right(value: Integer, by: Integer) -> Option<Integer> {
    let by = by.known()?.min(i64::from(u16::BITS));
    Some(Integer::of(value.known()? >> by))
}

fn paired(
    folding: &mut Folding<'_>,
    a: &Constant,
    b: &Constant,
    pair: &Pair,
) -> Result<Constant, Problem> {
    let Some(sizes) = broadcast(&a.sizes(), &b.sizes()) else {
        return refuse(SIZES);
    };
    let (dims, batch) = extents(&sizes)?;
    folding.count(&dims)?;
    let places = repeated(&a.dims, &dims).zip(repeated(&b.dims, &dims));
    let data = match (&a.data, &b.data) {
        (Data::Floats(x), Data::Floats(y)) => {
            let Some(function) = pair.floats else {
                return refuse(TYPES);
            };
            let values = places.map(|(at, bt)| function(x[at], y[bt]));
            if pair.truth {
                truths(values.map(|value| value != 0.0))
            } else {
                Data::Floats(values.collect())
            }
        }
        // A power's two operands may be of different types.
        (Data::Floats(x), _) if folding.node.operator == "Pow" => {
            let y: Vec<f32> = known(b)?.into_iter().map(|value| value as f32).collect();
            Data::Floats(places.map(|(at, bt)| x[at].powf(y[bt])).collect())
        }
        (_, Data::Floats(y)) if folding.node.operator == "Pow" => {
            let x = known(a)?;
            let powers = places.map(|(at, bt)| (x[at] as f64).powf(y[bt].into()));
            let powers = whole(powers, i32::MIN.into(), i32::MAX.into())?;
            a.data
                .wrapped(powers.into_iter().map(Integer::of).collect())
        }
        _ => {
            let (Some(x), Some(y)) = (a.integers(), b.integers()) else {
                return refuse(TYPES);
            };
            let both = |(at, bt): (usize, usize)| {
                let (x, y) = (x[at], y[bt]);
                let of_image = x.is_of_image() || y.is_of_image();
                let unknown = Integer {
                    unknown: true,
                    ..Integer::default()
                };
                let result = (pair.integers)(x, y).or_else(|| of_image.then_some(unknown))?;
                result.of_width(&[x, y])
            };
            match places.map(both).collect() {
                Some(values) if pair.truth => Data::of_integers(values),
                Some(values) => a.data.wrapped(values),
                None => return refuse(NO_INTEGER),
            }
        }
    };
    Ok(Constant { dims, batch, data })
}

fn pair(operator: &str, c_remainder: bool) -> Pair {
    use std::cmp::Ordering;
    type Floats = Option<fn(f32, f32) -> f32>;
    type Integers = fn(Integer, Integer) -> Option<Integer>;
    fn one(truth: bool) -> f32 {
        f32::from(u8::from(truth))
    }
    let (floats, integers): (Floats, Integers) = match operator {
        "Add" | "Sum" => (Some(|a, b| a + b), |a, b| a.plus(b, 1)),
        "Sub" => (Some(|a, b| a - b), |a, b| a.plus(b, -1)),
        "Mul" => (Some(|a, b| a * b), Integer::times),
        "Div" => (Some(|a, b| a / b), Integer::divided),
        "Mod" if c_remainder => (Some(|a, b| a % b), |a, b| {
            a.known()?.checked_rem(b.known()?).map(Integer::of)
        }),
        // ONNX defines it for integers only.
        "Mod" => (None, Integer::modulo),
        "Pow" => (Some(f32::powf), |a, b| {
            let exponent = u32::try_from(b.known()?).ok()?;
            a.known()?.checked_pow(exponent).map(Integer::of)
        }),
        "Max" => (Some(f32::max), |a, b| {
            Some(if a.is_larger(b)? { a } else { b })
        }),
        "Min" => (Some(f32::min), |a, b| {
            Some(if a.is_larger(b)? { b } else { a })
        }),
        "Equal" => (Some(|a, b| one(a == b)), |a, b| {
            Some(Integer::truth(a.compared(b)? == Ordering::Equal))
        }),
        "Greater" => (Some(|a, b| one(a > b)), |a, b| {
            Some(Integer::truth(!b.at_least(a)?))
        }),
        "GreaterOrEqual" => (Some(|a, b| one(a >= b)), |a, b| {
            Some(Integer::truth(a.at_least(b)?))
        }),
        "Less" => (Some(|a, b| one(a < b)), |a, b| {
            Some(Integer::truth(!a.at_least(b)?))
        }),
        "LessOrEqual" => (Some(|a, b| one(a <= b)), |a, b| {
            Some(Integer::truth(b.at_least(a)?))
        }),
        "And" => (None, |a, b| Some(Integer::truth(truth(a)? && truth(b)?))),
        "Or" => (None, |a, b| Some(Integer::truth(truth(a)? || truth(b)?))),
        "BitwiseAnd" => (None, |a, b| Some(Integer::of(a.known()? & b.known()?))),
        "BitwiseOr" => (None, |a, b| Some(Integer::of(a.known()? | b.known()?))),
        "BitwiseXor" => (None, |a, b| Some(Integer::of(a.known()? ^ b.known()?))),
        _ => (None, |a, b| Some(Integer::truth(truth(a)? != truth(b)?))),
    };
    let truths = ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"];
    Pair {
        floats,
        integers,
        truth: truths.contains(&operator),
    }
}

pub(crate) fn choose(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let [condition, yes, no] = [
        folding.operand(0)?,
        folding.operand(1)?,
        folding.operand(2)?,
    ];
    let sizes = broadcast(&condition.sizes(), &yes.sizes());
    let Some(sizes) = sizes.and_then(|sizes| broadcast(&sizes, &no.sizes())) else {
        return refuse(SIZES);
    };
    let (dims, batch) = extents(&sizes)?;
    folding.count(&dims)?;
    let condition_at = repeated(&condition.dims, &dims);
    let condition = condition
        .integers()
        .ok_or(Problem::Folding { reason: TYPES })?;
    let condition = condition.iter().map(|&value| truth(value));
    let Some(condition) = condition.collect::<Option<Vec<bool>>>() else {
        return refuse(BATCH);
    };
    let branches = repeated(&yes.dims, &dims).zip(repeated(&no.dims, &dims));
    let places = condition_at
        .zip(branches)
        .map(|(at, (yes, no))| if condition[at] { (0, yes) } else { (1, no) });
    let data = picked(&[yes, no], places)?;
    Ok(Constant { dims, batch, data })
}

pub(crate) fn clip(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    let mut result = folding.operand(0)?.clone();
    for (at, operator) in [(1, "Max"), (2, "Min")] {
        if let Some(bound) = folding.optional(at) {
            result = paired(folding, &result, bound, &pair(operator, false))?;
        }
    }
    Ok(result)
}

pub(crate) fn cast(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    // Of float8 only.
    folding.attributes.ignore("saturate");
    folding.attributes.ignore("round_mode");
    let to = folding.attributes.int("to", 0)?;
    let operand = folding.operand(0)?;
    folding.count(&operand.dims)?;
    let data = match i32::try_from(to) {
        Ok(to) => converted(operand, to)?,
        Err(_) => None,
    };
    let Some(data) = data else {
        let supported = "float32, float16, float64, int8, uint8, int32, int64 or bool, of what does not depend on the batch";
        return Err(Problem::attribute("to", &Attribute::Int(to), supported));
    };
    Ok(operand.with(data))
}

pub(crate) fn cast_like(folding: &mut Folding<'_>) -> Result<Constant, Problem> {
    // Of float8 only.
    folding.attributes.ignore("saturate");
    folding.attributes.ignore("round_mode");
    let (operand, like) = (folding.operand(0)?, folding.operand(1)?);
    folding.count(&operand.dims)?;
    let to = match &like.data {
        Data::Floats(_) => data_type::FLOAT,
        Data::Signed(_) => data_type::INT8,
        Data::Unsigned(_) => data_type::UINT8,
        Data::Ints(values) if may_be_truths(values) => {
            return refuse("whether what it is like are integers or booleans is not known");
        }
        _ => data_type::INT64,
    };
    let data = converted(operand, to)?.ok_or(Problem::Folding { reason: TYPES })?;
    Ok(operand.with(data))
}

/// Whether a constant may be one of booleans: these are kept as integers.
pub(crate) fn may_be_truths(values: &[i64]) -> bool {
    values.iter().all(|value| matches!(value, 0 | 1))
}

/// The floats without what is behind the point. Where that is no value of the type, processors differ, and it is refused.
fn whole(floats: impl Iterator<Item = f64>, least: i64, most: i64) -> Result<Vec<i64>, Problem> {
    let cut = |value: f64| {
        let inside = value.trunc() >= least as f64 && value < most as f64 + 1.0;
        inside.then_some(value as i64)
    };
    let cut: Option<Vec<i64>> = floats.map(cut).collect();
    cut.ok_or(Problem::Folding { reason: RANGE })
}

/// The values as another type, if both are known here. Floats of all sizes are kept as f32, integers and truths as i64.
fn converted(operand: &Constant, to: i32) -> Result<Option<Data>, Problem> {
    match (&operand.data, operand.integers()) {
        (Data::Floats(values), _) => converted_floats(values, to),
        (_, Some(integers)) => Ok(converted_integers(&integers, to)),
        _ => Ok(None),
    }
}

fn converted_floats(values: &[f32], to: i32) -> Result<Option<Data>, Problem> {
    let integers = |least, most| whole(values.iter().copied().map(f64::from), least, most);
    let bounded = |least: i64, most| {
        let bounded = values.iter().map(|&value| match f64::from(value) {
            less if less < least as f64 => least as f64,
            value => value,
        });
        whole(bounded, least, most)
    };
    Ok(Some(match to {
        _ if data_type::FLOATS.contains(&to) => Data::Floats(values.to_vec()),
        data_type::BOOL => truths(values.iter().map(|value| *value != 0.0)),
        // All processors make the least integer of what is less, such as the logarithm of nothing that tables of relative
        // positions have where it does not count.
        data_type::INT32 => Data::Ints(bounded(i32::MIN.into(), i32::MAX.into())?),
        data_type::INT64 => Data::Ints(bounded(i64::MIN, i64::MAX)?),
        // They wrap, as onnxruntime's recorded ones do; what is no int32 either is refused.
        data_type::INT8 => {
            let wide = integers(i32::MIN.into(), i32::MAX.into())?;
            Data::Signed(wide.into_iter().map(|value| value as i8).collect())
        }
        data_type::UINT8 => {
            let wide = integers(i32::MIN.into(), i32::MAX.into())?;
            Data::Unsigned(wide.into_iter().map(|value| value as u8).collect())
        }
        _ => return Ok(None),
    }))
}

/// Integers wrap.
fn converted_integers(integers: &[Integer], to: i32) -> Option<Data> {
    match to {
        data_type::BOOL => {
            let truths = integers.iter().map(|&value| truth(value).map(i64::from));
            return truths.collect::<Option<_>>().map(Data::Ints);
        }
        data_type::INT64 => return Some(Data::of_integers(integers.to_vec())),
        data_type::INT32 => {
            let wrapped = integers.iter().map(|&value| match value.known() {
                Some(known) => Integer::of((known as i32).into()),
                None => value,
            });
            return Some(Data::of_integers(wrapped.collect()));
        }
        _ => {}
    }
    let known = integers.iter().map(|value| value.known());
    let known = known.collect::<Option<Vec<i64>>>()?.into_iter();
    Some(match to {
        _ if data_type::FLOATS.contains(&to) => {
            Data::Floats(known.map(|value| value as f32).collect())
        }
        data_type::INT8 => Data::Signed(known.map(|value| value as i8).collect()),
        data_type::UINT8 => Data::Unsigned(known.map(|value| value as u8).collect()),
        _ => return None,
    })
}
