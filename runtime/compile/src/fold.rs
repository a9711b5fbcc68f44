//! Arithmetic on shapes: exporters compute the operand of a reshape from the input's shape. All
//! of it is known when compiling but for the batch size, which is carried along as a symbol.

use crate::graph::{Attribute, Attributes, Data, Node};
use crate::problem::Problem;

/// One element of a shape computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    Known(i64),
    /// So many times the number of images, which is known only when running.
    Batches(i64),
}

/// A scalar or a vector of integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dims {
    pub scalar: bool,
    pub elements: Vec<Dim>,
}

/// The operators that compute with shapes.
pub(crate) const FOLDED: [&str; 16] = [
    "Add",
    "Cast",
    "Concat",
    "ConstantOfShape",
    "Div",
    "Equal",
    "Gather",
    "Mod",
    "Mul",
    "Reshape",
    "Shape",
    "Slice",
    "Squeeze",
    "Sub",
    "Unsqueeze",
    "Where",
];

/// Most elements of a shape computation. No tensor has as many dimensions; without a limit a file
/// of a few nodes, each joining the result before to itself, would fill the memory.
pub(crate) const ELEMENTS_MAX: usize = 64;

/// ONNX element types that a cast between shapes may name.
const INT32_AND_INT64: std::ops::RangeInclusive<i64> = 6..=7;

fn refuse<T>(reason: &'static str) -> Result<T, Problem> {
    Err(Problem::ShapeArithmetic { reason })
}

/// Evaluates a node whose operands are all shapes (for `Shape`: the dimensions of its operand).
pub(crate) fn fold(node: &Node, operands: &[Dims], opset: i64) -> Result<Dims, Problem> {
    let mut attributes = Attributes::of(node);
    let Some(first) = operands.first() else {
        return refuse("an operand is missing");
    };
    let result = match node.operator.as_str() {
        "Shape" => {
            let count = first.elements.len();
            let start = index(attributes.int("start", 0)?, count);
            let end = index(attributes.int("end", count as i64)?, count).max(start);
            Dims {
                scalar: false,
                elements: first.elements[start..end].to_vec(),
            }
        }
        "Cast" => match attributes.int("to", 0)? {
            to if INT32_AND_INT64.contains(&to) => first.clone(),
            to => {
                return Err(Problem::attribute(
                    "to",
                    &Attribute::Int(to),
                    "int32 or int64",
                ));
            }
        },
        "Gather" => {
            attributes.only("axis", 0, "0")?;
            gather(first, operands.get(1))?
        }
        "Concat" => {
            attributes.only("axis", 0, "0")?;
            concat(operands)?
        }
        "Unsqueeze" | "Squeeze" => {
            // Before opset 13 the axes are an attribute. A shape has one axis, so it is axis 0.
            if opset < 13 {
                attributes.ignore("axes");
            }
            let to_scalar = node.operator == "Squeeze";
            if to_scalar == first.scalar || first.elements.len() != 1 {
                return refuse("only one element can change between scalar and vector");
            }
            Dims {
                scalar: to_scalar,
                elements: first.elements.clone(),
            }
        }
        "Slice" => slice(operands)?,
        "ConstantOfShape" => filled(first, attributes.take("value"))?,
        "Reshape" => {
            attributes.ignore("allowzero"); // A size of 0 is refused.
            reshape(first, operands.get(1))?
        }
        "Where" => {
            let [condition, yes, no] = operands else {
                return refuse("an operand is missing");
            };
            choose(condition, yes, no)?
        }
        operator => elementwise(operator, first, operands.get(1))?,
    };
    attributes.finish()?;
    Ok(result)
}

/// An index that may count from the end, clamped into 0..=count.
fn index(index: i64, count: usize) -> usize {
    let from_start = if index < 0 {
        index.saturating_add(count as i64)
    } else {
        index
    };
    usize::try_from(from_start).unwrap_or(0).min(count)
}

fn concat(operands: &[Dims]) -> Result<Dims, Problem> {
    if operands.iter().any(|operand| operand.scalar) {
        return refuse("only vectors can be joined");
    }
    let elements: Vec<Dim> = operands
        .iter()
        .flat_map(|operand| operand.elements.iter().copied())
        .take(ELEMENTS_MAX + 1)
        .collect();
    if elements.len() > ELEMENTS_MAX {
        return refuse("its result has more elements than any shape");
    }
    Ok(Dims {
        scalar: false,
        elements,
    })
}

fn gather(from: &Dims, indices: Option<&Dims>) -> Result<Dims, Problem> {
    let Some(indices) = indices else {
        return refuse("the indices are missing");
    };
    let count = from.elements.len() as i64;
    let pick = |at: &Dim| match *at {
        Dim::Known(at) if (-count..count).contains(&at) => {
            Ok(from.elements[index(at, from.elements.len())])
        }
        _ => refuse("an index is outside the shape"),
    };
    let elements = indices
        .elements
        .iter()
        .map(pick)
        .collect::<Result<_, _>>()?;
    Ok(Dims {
        scalar: indices.scalar,
        elements,
    })
}

fn slice(operands: &[Dims]) -> Result<Dims, Problem> {
    let one = |position: usize, default: i64| match operands.get(position) {
        None => Ok(default),
        Some(Dims { elements, .. }) => match elements[..] {
            [Dim::Known(value)] => Ok(value),
            _ => refuse("a slice of a shape must have one constant start, end, axis and step"),
        },
    };
    let (start, end) = (one(1, 0)?, one(2, i64::MAX)?);
    if !matches!(one(3, 0)?, 0 | -1) || one(4, 1)? != 1 {
        return refuse("only slices of axis 0 with step 1 are supported");
    }
    let elements = &operands[0].elements;
    let start = index(start, elements.len());
    let end = index(end, elements.len()).max(start);
    Ok(Dims {
        scalar: false,
        elements: elements[start..end].to_vec(),
    })
}

/// As many elements as a shape of one dimension says, all `value`.
fn filled(shape: &Dims, value: Option<&Attribute>) -> Result<Dims, Problem> {
    let value = match value {
        Some(Attribute::Tensor(tensor)) => match &tensor.data {
            Data::Ints(values) if values.len() == 1 => values[0],
            _ => return refuse("it is filled with something else than an integer"),
        },
        _ => return refuse("it is filled with something else than an integer"),
    };
    let count = match shape.elements[..] {
        [] => 1,
        [Dim::Known(count)] if (0..=ELEMENTS_MAX as i64).contains(&count) => count as usize,
        _ => return refuse("its result is no vector of a few elements"),
    };
    Ok(Dims {
        scalar: shape.elements.is_empty(),
        elements: vec![Dim::Known(value); count],
    })
}

/// The same elements as a vector or, for an empty shape, as a scalar.
fn reshape(from: &Dims, to: Option<&Dims>) -> Result<Dims, Problem> {
    let count = from.elements.len();
    let scalar = match to.map(|to| &to.elements[..]) {
        Some([]) if count == 1 => true,
        Some(&[Dim::Known(to)]) if to == -1 || to == count as i64 => false,
        _ => return refuse("only a vector or a scalar can come of it"),
    };
    Ok(Dims {
        scalar,
        elements: from.elements.clone(),
    })
}

/// Elements of one shape where the condition is not 0, of the other where it is.
fn choose(condition: &Dims, yes: &Dims, no: &Dims) -> Result<Dims, Problem> {
    let count = condition.elements.len();
    if yes.elements.len() != count || no.elements.len() != count {
        return refuse("the operands have different lengths");
    }
    let pairs = yes.elements.iter().zip(&no.elements);
    let elements = condition.elements.iter().zip(pairs);
    let elements = elements.map(|(condition, (yes, no))| match condition {
        Dim::Known(0) => Ok(*no),
        Dim::Known(_) => Ok(*yes),
        Dim::Batches(_) => refuse("its result depends on the batch size"),
    });
    Ok(Dims {
        scalar: condition.scalar && yes.scalar && no.scalar,
        elements: elements.collect::<Result<_, _>>()?,
    })
}

fn elementwise(operator: &str, first: &Dims, second: Option<&Dims>) -> Result<Dims, Problem> {
    let Some(second) = second else {
        return refuse("the second operand is missing");
    };
    let count = first.elements.len().max(second.elements.len());
    let fits = |dims: &Dims| dims.elements.len() == count || dims.elements.len() == 1;
    if !fits(first) || !fits(second) {
        return refuse("the operands have different lengths");
    }
    let at = |dims: &Dims, i: usize| dims.elements[i.min(dims.elements.len() - 1)];
    let elements = (0..count).map(|i| combine(operator, at(first, i), at(second, i)));
    Ok(Dims {
        scalar: first.scalar && second.scalar,
        elements: elements.collect::<Result<_, _>>()?,
    })
}

fn combine(operator: &str, a: Dim, b: Dim) -> Result<Dim, Problem> {
    let result = match (operator, a, b) {
        ("Add", Dim::Known(a), Dim::Known(b)) => a.checked_add(b),
        ("Sub", Dim::Known(a), Dim::Known(b)) => a.checked_sub(b),
        ("Mul", Dim::Known(a), Dim::Known(b)) => a.checked_mul(b),
        ("Div", Dim::Known(a), Dim::Known(b)) => a.checked_div(b),
        ("Mod", Dim::Known(a), Dim::Known(b)) => a.checked_rem_euclid(b),
        ("Equal", Dim::Known(a), Dim::Known(b)) => Some(i64::from(a == b)),
        // A number of images is positive.
        ("Equal", Dim::Batches(_), Dim::Known(..=0))
        | ("Equal", Dim::Known(..=0), Dim::Batches(_)) => {
            return Ok(Dim::Known(0));
        }
        ("Mul", Dim::Batches(times), Dim::Known(by))
        | ("Mul", Dim::Known(by), Dim::Batches(times))
            if by > 0 =>
        {
            let times = times.checked_mul(by);
            return times.map_or_else(
                || refuse("its result is huge"),
                |times| Ok(Dim::Batches(times)),
            );
        }
        ("Div", Dim::Batches(times), Dim::Known(by)) if by > 0 && times % by == 0 => {
            return Ok(Dim::Batches(times / by));
        }
        (_, Dim::Batches(_), _) | (_, _, Dim::Batches(_)) => {
            return refuse("its result depends on the batch size");
        }
        _ => None,
    };
    result.map_or_else(
        || refuse("its result is no integer"),
        |value| Ok(Dim::Known(value)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn node(operator: &str) -> Node {
        Node {
            name: "node".to_owned(),
            operator: operator.to_owned(),
            inputs: vec![],
            outputs: vec![],
            attributes: BTreeMap::new(),
        }
    }

    fn vector(values: &[i64]) -> Dims {
        Dims {
            scalar: false,
            elements: values.iter().copied().map(Dim::Known).collect(),
        }
    }

    fn scalar(value: i64) -> Dims {
        Dims {
            scalar: true,
            elements: vec![Dim::Known(value)],
        }
    }

    #[test]
    fn view_of_size_0_and_minus_1_folds_to_batch_and_minus_1() {
        let shape = Dims {
            scalar: false,
            elements: vec![
                Dim::Batches(1),
                Dim::Known(64),
                Dim::Known(1),
                Dim::Known(1),
            ],
        };
        let batch = fold(&node("Gather"), &[shape, scalar(0)], 17).unwrap();
        let batch = fold(&node("Unsqueeze"), &[batch, vector(&[0])], 17).unwrap();
        let target = fold(&node("Concat"), &[batch, vector(&[-1])], 17).unwrap();
        assert_eq!(target.elements, [Dim::Batches(1), Dim::Known(-1)]);
    }

    #[test]
    fn slices_count_from_the_end() {
        let tail = fold(
            &node("Slice"),
            &[vector(&[1, 2, 3]), vector(&[-2]), vector(&[9])],
            17,
        );
        assert_eq!(tail.unwrap(), vector(&[2, 3]));
    }

    #[test]
    fn what_is_no_integer_or_depends_on_the_batch_is_refused() {
        let batch = Dims {
            scalar: true,
            elements: vec![Dim::Batches(1)],
        };
        for (operator, a, b) in [
            ("Div", scalar(1), scalar(0)),
            ("Mul", scalar(i64::MAX), scalar(2)),
            ("Add", batch, scalar(1)),
        ] {
            let error = fold(&node(operator), &[a, b], 17).unwrap_err();
            assert!(
                matches!(error, Problem::ShapeArithmetic { .. }),
                "{operator}: {error}"
            );
        }
        let error = fold(&node("Gather"), &[vector(&[1]), scalar(1)], 17).unwrap_err();
        assert!(error.to_string().contains("outside the shape"), "{error}");
    }
}
