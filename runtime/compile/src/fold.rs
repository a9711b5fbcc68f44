//! Constant folding: a node whose operands are all known when compiling is computed here, whatever it computes.
//!
//! Exporters leave much of it: shapes, indices, masks, tables of positions, factors. Known are constants of the file
//! and what was made of them; of shapes all but the batch size, which is carried along as a symbol ([`Integer`]).
//!
//! A file may be hostile: what folding makes takes no more memory than [`Room`] says.

mod arithmetic;
mod arranged;
mod integer;
mod layout;
mod made;
mod matched;
mod reduced;
mod resized;

use crate::graph::{Attributes, Constant, Data, Node};
use crate::problem::Problem;

pub(crate) use integer::Integer;
pub(crate) use layout::{broadcast, product, resolved};

/// A dimension of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    Known(i64),
    /// So many times the number of images, which is known only when running.
    Batches(i64),
}

/// Most elements of a list of sizes, axes or positions. No tensor has as many dimensions.
pub(crate) const RANK_MAX: usize = 64;

/// A product of dimensions, empty ones left out, is less.
const SPREAD_MAX: usize = 1 << 40;

/// Words of 4 bytes that folding may make whatever the file's size.
const ROOM_MIN: usize = 1 << 24;
/// And for each that the file's own constants take.
const ROOM_FOR_EACH: usize = 4;
/// An integer's words while it is computed with.
const INTEGER_WORDS: usize = size_of::<Integer>() / 4;

/// What folding may still make, so that a few nodes, each doubling the result before, cannot fill the memory.
#[derive(Debug)]
pub(crate) struct Room {
    words: usize,
    limit: usize,
}

impl Room {
    /// For a file whose constants have so many elements.
    pub fn of(elements: usize) -> Self {
        let words = elements.saturating_mul(ROOM_FOR_EACH);
        let limit = words.saturating_add(ROOM_MIN);
        Self {
            words: limit,
            limit,
        }
    }

    fn take(&mut self, words: usize) -> Result<(), Problem> {
        match self.words.checked_sub(words) {
            Some(left) => {
                self.words = left;
                Ok(())
            }
            None => Err(Problem::Limit {
                what: "words computed of constants",
                limit: self.limit,
            }),
        }
    }
}

type Rule = fn(&mut Folding<'_>) -> Result<Vec<Constant>, Problem>;

/// A rule with one result.
macro_rules! one {
    ($rule:path) => {
        |folding| $rule(folding).map(|result| vec![result])
    };
}

/// The operators that are folded, in alphabetical order.
const RULES: &[(&str, Rule)] = &[
    ("Abs", one!(arithmetic::unary)),
    ("Add", one!(arithmetic::binary)),
    ("And", one!(arithmetic::binary)),
    ("ArgMax", one!(reduced::extreme)),
    ("ArgMin", one!(reduced::extreme)),
    ("Atan", one!(arithmetic::unary)),
    ("Cast", one!(arithmetic::cast)),
    ("CastLike", one!(arithmetic::cast_like)),
    ("Ceil", one!(arithmetic::unary)),
    ("Clip", one!(arithmetic::clip)),
    ("Concat", one!(arranged::concat)),
    ("ConstantOfShape", one!(made::filled)),
    ("Cos", one!(arithmetic::unary)),
    ("CumSum", one!(reduced::running_sum)),
    ("Div", one!(arithmetic::binary)),
    ("Equal", one!(arithmetic::binary)),
    ("Exp", one!(arithmetic::unary)),
    ("Expand", one!(arranged::expand)),
    ("EyeLike", one!(made::identity_matrix)),
    ("Flatten", one!(arranged::flatten)),
    ("Floor", one!(arithmetic::unary)),
    ("Gather", one!(matched::gather)),
    ("GatherElements", one!(matched::gather_elements)),
    ("GatherND", one!(matched::gather_nd)),
    ("Greater", one!(arithmetic::binary)),
    ("GreaterOrEqual", one!(arithmetic::binary)),
    ("IsInf", one!(arithmetic::unary)),
    ("IsNaN", one!(arithmetic::unary)),
    ("Less", one!(arithmetic::binary)),
    ("LessOrEqual", one!(arithmetic::binary)),
    ("Log", one!(arithmetic::unary)),
    ("MatMul", one!(reduced::product_of_matrices)),
    ("Max", one!(arithmetic::binary)),
    ("Min", one!(arithmetic::binary)),
    ("Mod", one!(arithmetic::binary)),
    ("Mul", one!(arithmetic::binary)),
    ("Neg", one!(arithmetic::unary)),
    ("NonZero", one!(matched::non_zero)),
    ("Not", one!(arithmetic::unary)),
    ("OneHot", one!(made::one_hot)),
    ("Or", one!(arithmetic::binary)),
    ("Pad", one!(arranged::pad)),
    ("Pow", one!(arithmetic::binary)),
    ("Range", one!(made::range)),
    ("Reciprocal", one!(arithmetic::unary)),
    ("ReduceL2", one!(reduced::reduce)),
    ("ReduceMax", one!(reduced::reduce)),
    ("ReduceMean", one!(reduced::reduce)),
    ("ReduceMin", one!(reduced::reduce)),
    ("ReduceProd", one!(reduced::reduce)),
    ("ReduceSum", one!(reduced::reduce)),
    ("Relu", one!(arithmetic::unary)),
    ("Reshape", one!(arranged::reshape)),
    ("Resize", one!(resized::resize)),
    ("Round", one!(arithmetic::unary)),
    ("ScatterElements", one!(matched::scatter_elements)),
    ("ScatterND", one!(matched::scatter_nd)),
    ("Sigmoid", one!(arithmetic::unary)),
    ("Sign", one!(arithmetic::unary)),
    ("Sin", one!(arithmetic::unary)),
    ("Slice", one!(arranged::slice)),
    ("Split", arranged::split),
    ("Sqrt", one!(arithmetic::unary)),
    ("Squeeze", one!(arranged::squeeze)),
    ("Sub", one!(arithmetic::binary)),
    ("Sum", one!(arithmetic::binary)),
    ("Tan", one!(arithmetic::unary)),
    ("Tanh", one!(arithmetic::unary)),
    ("Tile", one!(arranged::tile)),
    ("TopK", reduced::largest),
    ("Transpose", one!(arranged::transpose)),
    ("Trilu", one!(made::triangle)),
    ("Unsqueeze", one!(arranged::unsqueeze)),
    ("Where", one!(arithmetic::choose)),
    ("Xor", one!(arithmetic::binary)),
];

/// The operators that are folded where their operands are known.
pub(crate) fn operators() -> impl Iterator<Item = &'static str> {
    let rules = RULES.iter().map(|(operator, _)| *operator);
    rules.chain(["Shape", "Size"])
}

/// The results of a node whose operands are known, but for those that are left out; `None` for an operator that is
/// not folded.
pub(crate) fn fold(
    node: &Node,
    operands: &[Option<&Constant>],
    room: &mut Room,
) -> Result<Option<Vec<Constant>>, Problem> {
    let rule = RULES.binary_search_by_key(&node.operator.as_str(), |(operator, _)| operator);
    let Ok(rule) = rule.map(|at| RULES[at].1) else {
        return Ok(None);
    };
    for operand in operands.iter().flatten() {
        spread(&operand.dims)?;
    }
    let mut folding = Folding {
        node,
        operands,
        attributes: Attributes::of(node),
        room,
    };
    let results = rule(&mut folding)?;
    folding.attributes.finish()?;
    Ok(Some(results))
}

/// The result of `Shape` or `Size` for a tensor of these sizes; `None` for other operators.
pub(crate) fn fold_sizes(node: &Node, sizes: &[Dim]) -> Result<Option<Constant>, Problem> {
    made::of_sizes(node, sizes)
}

/// One node while it is folded.
struct Folding<'a> {
    node: &'a Node,
    operands: &'a [Option<&'a Constant>],
    attributes: Attributes<'a>,
    room: &'a mut Room,
}

fn refuse<T>(reason: &'static str) -> Result<T, Problem> {
    Err(Problem::Folding { reason })
}

const BATCH: &str = "its result depends on the batch size";
const TYPES: &str = "it is not defined for operands of these types";
const SIZES: &str = "the dimensions of its operands do not fit";
const IMAGE: &str = "it takes values of another image";
const OUTSIDE: &str = "an index is outside the operand";
const HUGE: &str = "its result is huge";

impl<'a> Folding<'a> {
    fn optional(&self, at: usize) -> Option<&'a Constant> {
        self.operands.get(at).copied().flatten()
    }

    fn operand(&self, at: usize) -> Result<&'a Constant, Problem> {
        let missing = Problem::MissingInput {
            position: at,
            what: "operand",
        };
        self.optional(at).ok_or(missing)
    }

    /// An operand that is the same for each image.
    fn plain(&self, at: usize) -> Result<&'a Constant, Problem> {
        match self.operand(at)? {
            operand if operand.batch.is_none() => Ok(operand),
            _ => refuse(BATCH),
        }
    }

    fn floats(&self, at: usize) -> Result<&'a [f32], Problem> {
        match &self.plain(at)?.data {
            Data::Floats(values) => Ok(values),
            _ => refuse(TYPES),
        }
    }

    /// Integers without symbols.
    fn known(&self, at: usize) -> Result<Vec<i64>, Problem> {
        known(self.operand(at)?)
    }

    /// A list of sizes, axes or positions, if it is there.
    fn list(&self, at: usize) -> Result<Option<Vec<i64>>, Problem> {
        match self.optional(at) {
            Some(operand) if operand.batch.is_some() => refuse(BATCH),
            Some(operand) if operand.elements() > RANK_MAX => refuse("a list of axes is too long"),
            Some(operand) => known(operand).map(Some),
            None => Ok(None),
        }
    }

    fn one_integer(&self, at: usize, default: i64) -> Result<i64, Problem> {
        match self.list(at)?.as_deref() {
            None => Ok(default),
            Some(&[value]) => Ok(value),
            Some(_) => refuse("one of its operands must be one integer"),
        }
    }

    /// The sizes that an operand lists.
    fn sizes(&self, at: usize) -> Result<Vec<Dim>, Problem> {
        let operand = self.operand(at)?;
        if operand.elements() > RANK_MAX || operand.batch.is_some() {
            return refuse("a shape has too many dimensions");
        }
        let integers = operand
            .integers()
            .ok_or(Problem::Folding { reason: TYPES })?;
        let sizes = integers.iter().map(|integer| integer.dim());
        sizes
            .collect::<Option<_>>()
            .ok_or(Problem::Folding { reason: BATCH })
    }

    /// The elements of a result about to be made, which are counted.
    fn count(&mut self, dims: &[usize]) -> Result<usize, Problem> {
        spread(dims)?;
        let count = dims.iter().product::<usize>();
        let is_float = |operand: &&Constant| matches!(operand.data, Data::Floats(_));
        let words = match self.operands.iter().flatten().all(is_float) {
            true => 1,
            false => INTEGER_WORDS,
        };
        self.room.take(count.saturating_mul(words))?;
        Ok(count)
    }
}

/// Whether positions, steps and parts of dimensions can be counted with, those beside an empty dimension, too.
fn spread(dims: &[usize]) -> Result<(), Problem> {
    let mut dims = dims.iter().map(|&dim| dim.max(1));
    let spread = dims.try_fold(1_usize, |all, dim| all.checked_mul(dim));
    match spread {
        Some(..SPREAD_MAX) => Ok(()),
        _ => refuse(HUGE),
    }
}

/// Integers without symbols.
fn known(constant: &Constant) -> Result<Vec<i64>, Problem> {
    let Some(integers) = constant.integers() else {
        return refuse(TYPES);
    };
    let known = integers.iter().map(|integer| integer.known());
    known
        .collect::<Option<_>>()
        .ok_or(Problem::Folding { reason: BATCH })
}

#[cfg(test)]
mod tests;
