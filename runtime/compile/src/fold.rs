//! Constant folding: a node whose operands are all known when compiling is computed here, whatever it computes.
//!
//! Exporters leave much of it: shapes, indices, masks, tables of positions, factors. Known are constants of the file
//! and what was made of them; of shapes all but the batch size, which is carried along as a symbol ([`Integer`]).
//!
//! A file may be hostile: what folding makes takes no more memory than [`Room`] says.

pub(crate) mod arithmetic;
pub(crate) mod arranged;
pub(crate) mod layout;
pub(crate) mod made;
pub(crate) mod matched;
pub(crate) mod reduced;
pub(crate) mod resized;
pub(crate) mod signals;

use crate::graph::{Attributes, Constant, Data, Node};
use crate::integer::{Dim, Integer};
use crate::problem::Problem;

/// Most elements of a list of sizes, axes or positions. No tensor has as many dimensions.
pub(crate) const RANK_MAX: usize = 64;

/// A product of dimensions, empty ones left out, is less.
const SPREAD_MAX: usize = 1 << 40;

/// Words of 4 bytes that folding may make whatever the file's size.
const ROOM_MIN: usize = 1 << 24;
/// And for each that the file's own constants take: exporters hand weights from node to node (to floats, in slices,
/// joined in another order, reshaped, one direction after the other).
const ROOM_FOR_EACH: usize = 8;
/// An integer's words while it is computed with.
const INTEGER_WORDS: usize = size_of::<Integer>() / 4;

/// What folding may still make, so that a few nodes, each doubling the result before, cannot fill the memory.
#[derive(Debug)]
pub(crate) struct Room {
    words: usize,
    limit: usize,
}

impl Room {
    /// For a file whose constants have `elements` elements.
    pub fn of(elements: usize) -> Self {
        let words = elements.saturating_mul(ROOM_FOR_EACH);
        let limit = words.saturating_add(ROOM_MIN);
        Self {
            words: limit,
            limit,
        }
    }

    pub(crate) fn take(&mut self, words: usize) -> Result<(), Problem> {
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

/// The results of an operator, of which most have one.
pub(crate) struct Results(Vec<Constant>);

impl From<Constant> for Results {
    fn from(result: Constant) -> Self {
        Self(vec![result])
    }
}

impl From<Vec<Constant>> for Results {
    fn from(results: Vec<Constant>) -> Self {
        Self(results)
    }
}

/// Computes an operator's results of its operands' values.
pub(crate) type ValuesRule = fn(&mut Folding<'_>) -> Result<Results, Problem>;
/// Computes an operator's result of its first operand's dimensions.
pub(crate) type SizesRule = fn(&mut Attributes<'_>, &[Dim]) -> Result<Constant, Problem>;

/// The results of a node whose operands are known, but for those that are left out.
pub(crate) fn fold(
    rule: ValuesRule,
    node: &Node,
    operands: &[Option<&Constant>],
    room: &mut Room,
) -> Result<Vec<Constant>, Problem> {
    for operand in operands.iter().flatten() {
        spread(&operand.dims)?;
    }
    let mut folding = Folding {
        node,
        operands,
        attributes: Attributes::of(node),
        room,
    };
    let Results(results) = rule(&mut folding)?;
    folding.attributes.finish()?;
    Ok(results)
}

/// The result of a node that depends only on the dimensions of its first operand.
pub(crate) fn fold_sizes(rule: SizesRule, node: &Node, sizes: &[Dim]) -> Result<Constant, Problem> {
    let mut attributes = Attributes::of(node);
    let result = rule(&mut attributes, sizes)?;
    attributes.finish()?;
    Ok(result)
}

/// One node while it is folded.
pub(crate) struct Folding<'a> {
    node: &'a Node,
    operands: &'a [Option<&'a Constant>],
    attributes: Attributes<'a>,
    room: &'a mut Room,
}

fn refuse<T>(reason: &'static str) -> Result<T, Problem> {
    Err(Problem::Folding { reason })
}

const BATCH: &str = "its result depends on the batch size";
/// Of int32 and int64 only the values are known here, not which of both they are: where int32 would wrap is refused.
const NO_INTEGER: &str =
    "its result is no integer, has more than 32 bits, or depends on the batch size";
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
        // Axes, sizes and positions are integers whatever the result is.
        let words = if self.operands.iter().flatten().any(is_float) {
            1
        } else {
            INTEGER_WORDS
        };
        self.room.take(count.saturating_mul(words))?;
        Ok(count)
    }
}

/// Whether arithmetic on positions, steps and parts of dimensions stays in range, also for dimensions next to an empty one.
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
