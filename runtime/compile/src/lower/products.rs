//! Products of matrices of which both are computed, batched over rows: any `MatMul` and any `Einsum`. One of more
//! than two operands is taken from left to right.
//!
//! The dimensions of both operands have letters, as those of an `Einsum`. Those that both have and the result has are
//! rows, those of one operand only columns of the first matrix or channels of the second, and the others are summed. So
//! what one operand repeats is never written out: its partner's dimension becomes one of the matrix.

use std::rc::Rc;

use punctual_model::{Operator, Product, TensorId};
use punctual_types::Piece;

use super::join::of_table;
use super::layout::Laid;
use super::lowering::Lowering;
use super::scores::Scores;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, Factor, View};
use super::vocabulary::{OnnxOperator, family};
use crate::draft::Computation;
use crate::graph::{Attribute, Attributes, Constant, Data, Floats, Node};
use crate::integer::Dim;
use crate::problem::Problem;
use crate::schema::attribute::ints;
use crate::write::{Writer, Written, tensor_name};

pub(super) const OPERATORS: &[OnnxOperator] = family! {
    "Einsum" => lower einsum(),
};

/// Most operands of an `Einsum`.
const EINSUM_OPERANDS_MAX: usize = 16;

/// The name of a product's dimension; those of a `MatMul` are numbered.
type Letter = u32;

/// An operand, whose dimensions have letters.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    view: View,
    /// What the view is of, if it is no tensor but a constant.
    table: Option<Rc<Constant>>,
    letters: Vec<Letter>,
}

impl Operand {
    /// The operand without dimensions of one position.
    fn without_ones(mut self) -> Self {
        let dims = std::iter::zip(&self.view.dims, &self.letters);
        let (dims, letters) = dims
            .filter(|(dim, _)| !dim.is_empty())
            .map(|(dim, letter)| (dim.clone(), *letter))
            .unzip();
        (self.view.dims, self.letters) = (dims, letters);
        self
    }

    fn dim(&self, letter: Letter) -> Option<&Vec<Factor>> {
        let at = self.letters.iter().position(|own| *own == letter)?;
        Some(&self.view.dims[at])
    }

    fn size(&self, letter: Letter) -> Option<Dim> {
        let at = self.letters.iter().position(|own| *own == letter)?;
        Some(self.view.sizes()[at])
    }
}

/// The letters of a product, by their part in it.
struct Roles {
    rows: Vec<Letter>,
    /// Letters of one operand only, which the result has.
    own: [Vec<Letter>; 2],
    terms: Vec<Letter>,
}

impl Roles {
    fn of(operands: &[Operand; 2], output: &[Letter]) -> Self {
        let has = |at: usize, letter: &Letter| operands[at].letters.contains(letter);
        let chosen = |wanted: [bool; 2]| -> Vec<Letter> {
            let letters = output.iter().copied();
            letters
                .filter(|letter| [has(0, letter), has(1, letter)] == wanted)
                .collect()
        };
        let terms = operands[0].letters.iter().copied();
        Self {
            rows: chosen([true, true]),
            own: [chosen([true, false]), chosen([false, true])],
            terms: terms.filter(|letter| !output.contains(letter)).collect(),
        }
    }
}

/// One of the two ways to take a product: which operand is the first matrix, and how both lie.
struct Plan {
    first: usize,
    laid: [Laid; 2],
    /// Roughly how long it takes.
    cost: u64,
}

impl Lowering<'_> {
    /// A product of which neither operand is a constant matrix that all images share as the second one.
    pub(super) fn product(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, 2, 1)?;
        Attributes::of(node).finish()?;
        if let Some(view) = self.constant_matrix_times(node)? {
            return self.set(node, Value::View(view));
        }
        let missing = |position| Problem::MissingInput {
            position,
            what: "data",
        };
        let first = self.operand(node, 0).ok_or(missing(0))?.clone();
        let second = self.operand(node, 1).ok_or(missing(1))?.clone();
        let value = self.product_of(node, first, second)?;
        self.set(node, value)
    }

    /// The product of matrices of two values: an attention, the scores of one, or a tensor.
    pub(super) fn product_of(
        &mut self,
        node: &Node,
        first: Value,
        second: Value,
    ) -> Result<Value, Problem> {
        if let (Value::Scores(scores), Some((view, factor))) = (&first, scaled(&second))
            && let Some(attended) = self.attended(node, scores, &view)?
        {
            let attended = self.times(node, &attended, factor)?;
            return Ok(Value::View(attended));
        }
        let unfit = self.unfit(&first, &second);
        let (first, second) = (
            self.computed_value(node, first)?,
            self.computed_value(node, second)?,
        );
        if let (Some((query, scale)), Some((key, factor))) = (scaled(&first), scaled(&second))
            && let Some(scores) = Scores::of(query, key, scale * factor)
        {
            return Ok(Value::Scores(scores));
        }
        let factor = [&first, &second].into_iter().filter_map(scaled);
        let factor = factor.map(|(_, factor)| factor).product();
        let (Some(first), Some(second)) = (operand(&first), operand(&second)) else {
            return Err(unfit);
        };
        let view = self.matrices(node, first, second)?.ok_or(unfit)?;
        self.times(node, &view, factor).map(Value::View)
    }

    /// The problem of two values that cannot be multiplied.
    fn unfit(&self, first: &Value, second: &Value) -> Problem {
        Problem::Product {
            first: self.describe(first),
            second: self.describe(second),
        }
    }

    fn computed_value(&mut self, node: &Node, value: Value) -> Result<Value, Problem> {
        match value {
            Value::Scores(scores) => self.computed_scores(node, &scores).map(Value::View),
            other => Ok(other),
        }
    }

    /// Each value times a factor, which may be one.
    pub(super) fn times(&mut self, node: &Node, view: &View, factor: f32) -> Result<View, Problem> {
        match factor {
            1.0 => Ok(view.clone()),
            factor => self.scaled(node, view, factor),
        }
    }

    /// Of tensors (..., M, K) and (..., K, N), repeated to each other.
    pub(super) fn matrices(
        &mut self,
        node: &Node,
        mut first: Operand,
        mut second: Operand,
    ) -> Result<Option<View>, Problem> {
        let ranks = [first.view.dims.len(), second.view.dims.len()];
        let Some(outer) = ranks[0].max(ranks[1]).checked_sub(2) else {
            return Ok(None);
        };
        if ranks[0].min(ranks[1]) < 2 {
            return Ok(None);
        }
        let [m, k, n] = [0, 1, 2].map(|at| (outer + at) as Letter);
        let letters = |rank: usize, last: [Letter; 2]| {
            let before = (outer + 2 - rank)..outer;
            before.map(|at| at as Letter).chain(last).collect()
        };
        first.letters = letters(ranks[0], [m, k]);
        second.letters = letters(ranks[1], [k, n]);
        if first.size(k) != second.size(k) {
            return Ok(None);
        }
        let output: Vec<Letter> = (0..outer as Letter).chain([m, n]).collect();
        self.contracted(node, [first, second], &output)
    }

    /// The product of two operands, summed over the letters that both have and the result lacks. `None` if they do not
    /// fit each other.
    pub(super) fn contracted(
        &mut self,
        node: &Node,
        operands: [Operand; 2],
        output: &[Letter],
    ) -> Result<Option<View>, Problem> {
        let operands = operands.map(Operand::without_ones);
        let roles = Roles::of(&operands, output);
        let both = || roles.rows.iter().chain(&roles.terms);
        let same = both().all(|&letter| operands[0].size(letter) == operands[1].size(letter));
        let is_batch = |dim: &Vec<Factor>| dim.contains(&BATCH);
        let summed = roles
            .terms
            .iter()
            .filter_map(|&letter| operands[0].dim(letter));
        let batches = operands.each_ref().map(|operand| {
            let dims = operand.view.dims.iter();
            dims.filter(|dim| is_batch(dim)).count()
        });
        // Images of one are never multiplied with images of another.
        let together = batches != [1, 1]
            || roles
                .rows
                .iter()
                .any(|&letter| operands[0].dim(letter).is_some_and(is_batch));
        let computed = operands
            .iter()
            .zip(batches)
            .all(|(operand, batches)| batches == usize::from(operand.table.is_none()));
        if !same || !together || !computed || summed.clone().any(is_batch) {
            return Ok(None);
        }
        let plans = [0, 1].map(|first| self.planned(&operands, &roles, first));
        let Some(plan) = plans.into_iter().flatten().min_by_key(|plan| plan.cost) else {
            return Err(Problem::Dimension { value: usize::MAX });
        };
        let [first, second] = [plan.first, 1 - plan.first];
        let mut placed = Vec::with_capacity(2);
        for (at, laid) in [first, second].into_iter().zip(plan.laid) {
            placed.push(self.placed(node, &operands[at], laid)?);
        }
        let (of_first, of_second) = (&placed[0], &placed[1]);
        let others = [of_second.view.tensor];
        let tensor = self.emit(node, Product, of_first.view.tensor, &others)?;
        let dim = |&letter: &Letter| {
            let own = of_first.dim(letter).or_else(|| of_second.dim(letter));
            own.cloned().unwrap_or_default()
        };
        Ok(Some(View {
            tensor,
            start: [0; 3],
            dims: output.iter().map(dim).collect(),
        }))
    }

    /// How the operands must lie if this one is the first matrix.
    fn planned(&self, operands: &[Operand; 2], roles: &Roles, first: usize) -> Option<Plan> {
        let second = 1 - first;
        let lie = |at: usize, own: Axis, terms: Axis| {
            let operand = &operands[at];
            let letters = [&roles.rows, &roles.own[at], &roles.terms]
                .into_iter()
                .flatten();
            let place = |letter: &Letter| operand.letters.iter().position(|of| of == letter);
            let order: Option<Vec<usize>> = letters.map(place).collect();
            let rows = roles.rows.len();
            let order = order?;
            let axis = |dim: usize| match order.iter().position(|&of| of == dim) {
                Some(place) if place < rows => Axis::Row,
                Some(place) if place < rows + roles.own[at].len() => own,
                _ => terms,
            };
            operand.view.laid_out(&order, |dim, _| axis(dim))
        };
        let laid = [
            lie(first, Axis::Column, Axis::Channel)?,
            lie(second, Axis::Channel, Axis::Column)?,
        ];
        let copies = [first, second].into_iter().zip(&laid).map(|(at, laid)| {
            let operand = &operands[at];
            let lies = operand.table.is_none() && laid.is(self.shape(operand.view.tensor));
            if lies { 0 } else { laid.shape.elements() }
        });
        let copies: u64 = copies.sum();
        let blocks = u64::from(laid[1].shape.channels.div_ceil(BLOCK));
        let vectors = laid[0].shape.elements().saturating_mul(blocks);
        Some(Plan {
            first,
            laid,
            cost: vectors.saturating_add(copies.saturating_mul(COPY)),
        })
    }

    /// The operand, laid out as `laid` says.
    fn placed(&mut self, node: &Node, operand: &Operand, laid: Laid) -> Result<Operand, Problem> {
        let view = match &operand.table {
            None => self.copied(node, &operand.view, laid)?,
            Some(constant) => self.tabled(node, constant, laid)?,
        };
        Ok(Operand {
            view,
            table: None,
            letters: operand.letters.clone(),
        })
    }

    /// A tensor of a constant's values.
    pub(super) fn tabled(
        &mut self,
        node: &Node,
        constant: &Constant,
        laid: Laid,
    ) -> Result<View, Problem> {
        let Data::Floats(values) = &constant.data else {
            let found = Value::Constant(Rc::new(constant.clone()));
            return Err(self.wrong(0, "data", &found, "a float32 constant"));
        };
        // It reads the table, which is the source behind the input.
        let piece = Piece {
            source: 1,
            ..Piece::whole(laid.values.clone(), laid.shape.sides())
        };
        let copy = Computation::copy(vec![piece], values.clone());
        let output = self.emit(node, copy, TensorId(0), &[])?;
        Ok(laid.seen(output))
    }

    /// A constant matrix times tensors of columns: each column is a token, to which the matrix is applied.
    fn constant_matrix_times(&mut self, node: &Node) -> Result<Option<View>, Problem> {
        let Some((view, factor)) = self.operand(node, 1).and_then(scaled) else {
            return Ok(None);
        };
        let (Some(Value::Constant(constant)), true) = (self.operand(node, 0), view.dims.len() >= 2)
        else {
            return Ok(None);
        };
        let (last, Some([outputs, inputs])) = (view.dims.len() - 1, matrix_of(constant)) else {
            return Ok(None);
        };
        if constant.dims.len() > view.dims.len()
            || view.sizes()[last - 1] != Dim::Known(inputs as i64)
            || !view.has_one_batch()
        {
            return Ok(None);
        }
        let Floats { data, .. } = self.floats(node, 0, "weights")?;
        let mut order: Vec<usize> = (0..=last).collect();
        order.swap(last - 1, last);
        let tokens = self.as_tokens(node, &view.permute(&order))?;
        let data = data.into_iter().map(|weight| weight * factor).collect();
        let result = self.of_each_token(node, &tokens, data, vec![0.0; outputs])?;
        Ok(Some(result.permute(&order)))
    }

    pub(super) fn einsum(&mut self, node: &Node) -> Result<(), Problem> {
        self.limit(node, EINSUM_OPERANDS_MAX, 1)?;
        let mut attributes = Attributes::of(node);
        let equation = attributes.text("equation", "")?.to_owned();
        attributes.finish()?;
        let mut values = Vec::with_capacity(node.inputs.len());
        for at in 0..node.inputs.len() {
            values.push(self.required(node, at, "data")?.clone());
        }
        let ranks = values
            .iter()
            .map(|value| value.sizes().map(|sizes| sizes.len()));
        let ranks: Option<Vec<usize>> = ranks.collect();
        let parsed = ranks.and_then(|ranks| Equation::parse(&equation, &ranks));
        let Some(parsed) = parsed else {
            let found = Attribute::Text(equation);
            let expected =
                "letters of the operands, each once an operand, and a result of some of them";
            return Err(Problem::attribute("equation", &found, expected));
        };
        let Equation { operands, output } = parsed;
        let mut terms = values.into_iter().zip(operands);
        let (mut value, mut letters) = terms.next().ok_or(Problem::MissingOutput)?;
        while let Some((second, of_second)) = terms.next() {
            // What nothing behind has is summed.
            let used = |letter: &Letter| {
                output.contains(letter) || terms.clone().any(|(_, rest)| rest.contains(letter))
            };
            let both = letters
                .iter()
                .chain(of_second.iter().filter(|own| !letters.contains(own)));
            let is_last = terms.len() == 0;
            let kept = if is_last {
                output.clone()
            } else {
                both.copied().filter(used).collect()
            };
            let equation = Equation {
                operands: vec![letters, of_second],
                output: kept.clone(),
            };
            value = self.einsum_of_two(node, [value, second], equation)?;
            letters = kept;
        }
        if letters == output && node.inputs.len() > 1 {
            return self.set(node, value);
        }
        let operand = self.einsum_operand(node, value, &letters, &output)?;
        let order = output.iter();
        let order = order.map(|letter| operand.letters.iter().position(|own| own == letter));
        let order: Option<Vec<usize>> = order.collect();
        let view = operand.view.permute(&order.ok_or(Problem::MissingOutput)?);
        self.set(node, Value::View(view))
    }

    fn einsum_of_two(
        &mut self,
        node: &Node,
        [first, second]: [Value; 2],
        equation: Equation,
    ) -> Result<Value, Problem> {
        let output = equation.output;
        let [of_first, of_second] = &equation.operands[..] else {
            return Err(Problem::MissingOutput);
        };
        // One that is a product of matrices may be an attention's.
        if let Some((order, back)) = as_matrices(of_first, of_second, &output)
            && let Some((view, factor)) = scaled(&second)
            && !matches!(first, Value::Constant(_))
        {
            let second = Value::Scaled(view.permute(&order), factor);
            let value = self.product_of(node, first, second)?;
            if back.is_sorted() {
                return Ok(value);
            }
            let Value::View(view) = self.computed_value(node, value)? else {
                return Err(Problem::MissingOutput);
            };
            return Ok(Value::View(view.permute(&back)));
        }
        let unfit = self.unfit(&first, &second);
        let kept = |other: &[Letter]| [&output[..], other].concat();
        let a = self.einsum_operand(node, first, of_first, &kept(of_second))?;
        let b = self.einsum_operand(node, second, of_second, &kept(of_first))?;
        let view = self.contracted(node, [a, b], &output)?.ok_or(unfit)?;
        Ok(Value::View(view))
    }

    /// A value with its letters, summed over those that nothing else has.
    fn einsum_operand(
        &mut self,
        node: &Node,
        value: Value,
        letters: &[Letter],
        kept: &[Letter],
    ) -> Result<Operand, Problem> {
        let value = self.computed_value(node, value)?;
        let factor = scaled(&value).map_or(1.0, |(_, factor)| factor);
        let Some(mut found) = operand(&value) else {
            return Err(self.wrong(0, "data", &value, "a tensor"));
        };
        found.letters = letters.to_vec();
        let summed = |at: &usize| !kept.contains(&letters[*at]);
        let summed: Vec<usize> = (0..letters.len()).filter(summed).collect();
        if found.table.is_some() {
            if summed.is_empty() {
                return Ok(found);
            }
            return Err(self.wrong(0, "data", &value, "a constant whose letters are all used"));
        }
        found.view = self.times(node, &found.view, factor)?;
        if !summed.is_empty() {
            if summed
                .iter()
                .any(|&dim| found.view.dims[dim].contains(&BATCH))
            {
                return Err(self.wrong(
                    0,
                    "data",
                    &value,
                    "a tensor that is not summed over the batch",
                ));
            }
            found.view = self.sum(node, &found.view, &summed)?;
            for at in summed.into_iter().rev() {
                found.view.dims.remove(at);
                found.letters.remove(at);
            }
        }
        Ok(found)
    }
}

/// Channels that are computed at once, for the choice between two ways only.
const BLOCK: u32 = 16;
/// What moving a value takes, in multiplications of a vector.
const COPY: u64 = 2;

/// A tensor and the factor that it waits for.
pub(super) fn scaled(value: &Value) -> Option<(View, f32)> {
    match value {
        Value::View(view) => Some((view.clone(), 1.0)),
        Value::Scaled(view, factor) => Some((view.clone(), *factor)),
        _ => None,
    }
}

/// A tensor, or a constant that is the same for each image, without letters yet.
pub(super) fn operand(value: &Value) -> Option<Operand> {
    let (view, table) = match value {
        Value::View(view) | Value::Scaled(view, _) => (view.clone(), None),
        Value::Constant(constant) if constant.batch.is_none() => match constant.data {
            Data::Floats(_) => (of_table(constant, 0), Some(Rc::clone(constant))),
            _ => return None,
        },
        _ => return None,
    };
    Some(Operand {
        view,
        table,
        letters: Vec::new(),
    })
}

/// The last two sizes of a constant of floats, if the others are one.
fn matrix_of(constant: &Constant) -> Option<[usize; 2]> {
    let (outer, &matrix) = constant.dims.split_last_chunk::<2>()?;
    let same = constant.batch.is_none() && outer.iter().all(|size| *size == 1);
    (same && matches!(constant.data, Data::Floats(_))).then_some(matrix)
}

/// The permutation of the second operand that makes this a product of matrices, and that of its result to be the
/// output, if the first operand is (shared..., one of its own, one that is summed).
fn as_matrices(
    first: &[Letter],
    second: &[Letter],
    output: &[Letter],
) -> Option<(Vec<usize>, Vec<usize>)> {
    let (shared, &[own, term]) = first.split_last_chunk::<2>()?;
    let others = |letter: &&Letter| !shared.contains(letter) && **letter != term;
    let mut others = second.iter().filter(others);
    let (Some(&other), None) = (others.next(), others.next()) else {
        return None;
    };
    let fits = output.contains(&own)
        && output.contains(&other)
        && !output.contains(&term)
        && shared.iter().all(|letter| output.contains(letter))
        && output.len() == first.len()
        && second.len() == first.len();
    let place = |letters: &[Letter], letter: &Letter| letters.iter().position(|of| of == letter);
    let wanted: Vec<Letter> = shared.iter().copied().chain([term, other]).collect();
    let result: Vec<Letter> = shared.iter().copied().chain([own, other]).collect();
    let order: Option<Vec<usize>> = wanted.iter().map(|letter| place(second, letter)).collect();
    let back: Option<Vec<usize>> = output.iter().map(|letter| place(&result, letter)).collect();
    Some((order?, back?)).filter(|_| fits)
}

/// The letters of each operand and of the result.
#[derive(Debug, PartialEq, Eq)]
struct Equation {
    operands: Vec<Vec<Letter>>,
    output: Vec<Letter>,
}

/// The last dimension that three points stand for; those before count down.
const ELLIPSIS_END: Letter = Letter::MAX;

impl Equation {
    /// `None` if it is no equation of operands of these ranks, or an operand has a letter twice.
    fn parse(text: &str, ranks: &[usize]) -> Option<Self> {
        let text: String = text
            .chars()
            .filter(|letter| !letter.is_whitespace())
            .collect();
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (&text[..], None),
        };
        let terms: Vec<&str> = inputs.split(',').collect();
        if terms.len() != ranks.len() {
            return None;
        }
        let pairs = terms.iter().zip(ranks);
        let operands = pairs.map(|(term, &rank)| letters(term, |named| rank.checked_sub(named)));
        let operands: Vec<Vec<Letter>> = operands.collect::<Option<_>>()?;
        let points = |letters: &Vec<Letter>| {
            letters
                .iter()
                .filter(|letter| **letter > ELLIPSIS_END - 64)
                .count()
        };
        let points = operands.iter().map(points).max()?;
        let all = || operands.iter().flatten().copied();
        let output = match output {
            Some(output) => letters(output, |_| Some(points))?,
            None => {
                let once = |letter: &Letter| all().filter(|other| other == letter).count() == 1;
                let mut named: Vec<Letter> = all()
                    .filter(|letter| *letter <= ELLIPSIS_END - 64 && once(letter))
                    .collect();
                named.sort_unstable();
                let points = (0..points as Letter).rev().map(|at| ELLIPSIS_END - at);
                points.chain(named).collect()
            }
        };
        let known = output.iter().all(|letter| all().any(|own| own == *letter));
        known.then_some(Self { operands, output })
    }
}

/// The letters of a term. `rest`: how many dimensions three points stand for, given the number of letters in the term.
fn letters(term: &str, rest: impl Fn(usize) -> Option<usize>) -> Option<Vec<Letter>> {
    let (before, after, has_points) = match term.split_once("...") {
        Some((before, after)) => (before, after, true),
        None => (term, "", false),
    };
    let named = before.chars().count() + after.chars().count();
    let rest = rest(named)?;
    // Without points each dimension has a letter; the result's points may stand for none.
    let points = if has_points { rest } else { 0 };
    if points > 32 {
        return None;
    }
    let letter = |letter: char| letter.is_ascii_alphabetic().then_some(Letter::from(letter));
    let before = before.chars().map(letter);
    let points = (0..points as Letter)
        .rev()
        .map(|at| Some(ELLIPSIS_END - at));
    let all: Option<Vec<Letter>> = before
        .chain(points)
        .chain(after.chars().map(letter))
        .collect();
    let all = all?;
    let once = (0..all.len()).all(|at| !all[..at].contains(&all[at]));
    once.then_some(all)
}

impl Written for Product {
    /// Rows of matrices, (N, rows, first's columns, terms) and (N, rows, terms, channels).
    fn write(&self, writer: &mut Writer<'_>, operator: &Operator) -> bool {
        let [first, second] = [operator.input, operator.others[0]].map(|operand| {
            let perm = vec![ints("perm", [0, 2, 3, 1])];
            writer.node("Transpose", &[&tensor_name(operand)], perm)
        });
        let product = writer.node("MatMul", &[&first, &second], Vec::new());
        let back = vec![ints("perm", [0, 3, 1, 2])];
        writer.node_into("Transpose", &[&product], operator.output, back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, ranks: &[usize]) -> Option<(Vec<Vec<Letter>>, Vec<Letter>)> {
        Equation::parse(text, ranks).map(|equation| (equation.operands, equation.output))
    }

    fn of(text: &str) -> Vec<Letter> {
        text.chars().map(Letter::from).collect()
    }

    #[test]
    fn an_equation_has_letters_for_all_dimensions() {
        let found = parsed("b h i d, b h j d -> b h i j", &[4, 4]);
        let expected = (vec![of("bhid"), of("bhjd")], of("bhij"));
        assert_eq!(found, Some(expected));
        // Without a result: the letters that stand once, in alphabetical order.
        assert_eq!(
            parsed("ij,jk", &[2, 2]),
            Some((vec![of("ij"), of("jk")], of("ik")))
        );
        assert_eq!(parsed("ba", &[2]), Some((vec![of("ba")], of("ab"))));
        assert_eq!(parsed("ij,jk->ik", &[2]), None);
        assert_eq!(parsed("ii->i", &[2]), None);
        assert_eq!(parsed("ij->k", &[2]), None);
        assert_eq!(parsed("i1->i", &[2]), None);
    }

    #[test]
    fn three_points_stand_for_the_other_dimensions_counted_from_the_last() {
        let points = [ELLIPSIS_END - 1, ELLIPSIS_END];
        let first = [&points[..], &of("ij")].concat();
        let second = [&points[1..], &of("jk")].concat();
        let output = [&points[..], &of("ik")].concat();
        let expected = (vec![first, second], output);
        assert_eq!(
            parsed("...ij,...jk->...ik", &[4, 3]),
            Some(expected.clone())
        );
        assert_eq!(parsed("...ij,...jk", &[4, 3]), Some(expected));
        assert_eq!(parsed("...ij,jk->ik", &[1, 2]), None);
    }

    #[test]
    fn products_of_matrices_are_recognised_in_any_order() {
        let found = |first, second, output| as_matrices(&of(first), &of(second), &of(output));
        let keys = found("bhid", "bhjd", "bhij");
        assert_eq!(keys, Some((vec![0, 1, 3, 2], vec![0, 1, 2, 3])));
        let turned = found("bhij", "bjhd", "bihd");
        assert_eq!(turned, Some((vec![0, 2, 1, 3], vec![0, 2, 1, 3])));
        assert_eq!(found("bid", "bjkd", "bijk"), None);
        assert_eq!(found("bid", "jd", "bij"), None);
    }
}
