//! Graph → draft: each node becomes an operator with static shapes, a view of a tensor, or a
//! constant. The batch size is left out of all shapes.
//!
//! A further operator is one more function in the module of its family, and one more row in that module's `OPERATORS`
//! ([`vocabulary`]).
//! How it becomes ONNX again stands there too: [`Written`](crate::write::Written).

mod arithmetic;
mod attention;
mod branches;
mod choices;
mod composed;
mod computed;
mod convolution;
mod copies;
pub(crate) mod curves;
mod dense;
mod elementwise;
mod factors;
mod interpreted;
mod join;
mod joined;
mod layout;
mod lowering;
mod mask;
mod normalisation;
mod numbers;
pub(crate) mod operands;
mod padding;
mod places;
mod pooling;
mod products;
mod quantised;
mod recurrent;
mod reduce;
pub(crate) mod reductions;
pub(crate) mod resize;
mod scatter;
mod scores;
mod stacked;
mod tokens;
mod transposed;
mod unbatched;
mod value;
pub(crate) mod view_algebra;
mod views;
pub(crate) mod vocabulary;
mod volumes;

use std::collections::BTreeSet;
use std::rc::Rc;

use punctual_model::{DIMENSION_MAX, TENSOR_ELEMENTS_MAX, Tensor, TensorId};

pub(crate) use lowering::Lowering;
pub(crate) use value::Value;
use view_algebra::View;
use vocabulary::{Makes, OnnxOperator, family};

use crate::fold;
use crate::graph::{Constant, Node, ValueId};
use crate::problem::Problem;

/// The operators that are folded only.
const FOLDED: &[OnnxOperator] = family! {
    "BitShift" => fold arithmetic::shift,
    "BitwiseAnd" => fold arithmetic::binary,
    "BitwiseNot" => fold arithmetic::unary,
    "BitwiseOr" => fold arithmetic::binary,
    "BitwiseXor" => fold arithmetic::binary,
    "BlackmanWindow" => fold signals::window,
    "ConstantOfShape" => fold made::filled,
    "EyeLike" => fold made::identity_matrix,
    "HammingWindow" => fold signals::window,
    "HannWindow" => fold signals::window,
    "MelWeightMatrix" => fold signals::mel_weights,
    "NonZero" => fold matched::non_zero makes Integers,
    "Range" => fold made::range,
    "Shape" => measure made::shape makes Integers,
    "Size" => measure made::size makes Integers,
};

/// The operators of ONNX that can be compiled, by family.
const FAMILIES: &[&[OnnxOperator]] = &[
    arithmetic::OPERATORS,
    branches::OPERATORS,
    choices::OPERATORS,
    computed::OPERATORS,
    convolution::OPERATORS,
    copies::OPERATORS,
    curves::OPERATORS,
    dense::OPERATORS,
    elementwise::OPERATORS,
    FOLDED,
    join::OPERATORS,
    normalisation::OPERATORS,
    padding::OPERATORS,
    pooling::OPERATORS,
    products::OPERATORS,
    quantised::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    resize::OPERATORS,
    scatter::OPERATORS,
    tokens::OPERATORS,
    transposed::OPERATORS,
    views::OPERATORS,
];

/// That of this name.
pub(crate) fn operator(name: &str) -> Option<&'static OnnxOperator> {
    all().find(|operator| operator.name == name)
}

pub(crate) fn all() -> impl Iterator<Item = &'static OnnxOperator> {
    let families = FAMILIES.iter().chain(composed::OPERATORS);
    families.copied().flatten()
}

/// That of a node, by its domain and name.
fn operator_of(node: &Node) -> Option<&'static OnnxOperator> {
    match node.domain.as_deref() {
        None => operator(&node.operator),
        Some(domain) => all_of(domain).find(|operator| operator.name == node.operator),
    }
}

/// Those of a domain that is not the standard one.
pub(crate) fn all_of(domain: &str) -> impl Iterator<Item = &'static OnnxOperator> {
    let families = match domain {
        composed::MICROSOFT => composed::OPERATORS_OF_MICROSOFT,
        _ => &[],
    };
    families.iter().copied().flatten()
}

/// The operators that are lowered by themselves, in alphabetical order: those that may read what is computed from the
/// input.
#[must_use]
pub fn operators() -> Vec<&'static str> {
    let lowered = all().filter(|operator| operator.lower.is_some());
    let names: BTreeSet<&str> = lowered.map(|operator| operator.name).collect();
    names.into_iter().collect()
}

/// All operators that can be compiled; those of onnxruntime's own domain have it before their name.
#[must_use]
pub fn compiled_operators() -> Vec<String> {
    let own = all_of(composed::MICROSOFT);
    let own = own.map(|operator| format!("{}.{}", composed::MICROSOFT, operator.name));
    let standard = supported().into_iter().map(str::to_owned);
    standard.chain(own).collect()
}

/// Those of the standard domain, in alphabetical order.
pub(crate) fn supported() -> Vec<&'static str> {
    let names: BTreeSet<&str> = all().map(|operator| operator.name).collect();
    names.into_iter().collect()
}

impl Lowering<'_> {
    /// Lowers one node. Nodes must come in the graph's order.
    pub fn node(&mut self, node: &Node) -> Result<(), Problem> {
        if node.outputs.iter().all(Option::is_none) {
            return Err(Problem::MissingOutput);
        }
        let operator = operator_of(node);
        self.note_numbers(
            node,
            operator.map_or(Makes::First, |operator| operator.makes),
        );
        let mut operands = node.inputs.iter().flatten();
        if operands.any(|id| matches!(self.value(*id), Value::Unknown)) {
            if operator.is_none() {
                return Err(unknown(node));
            }
            self.unchecked += 1;
            self.stand_in(node);
            return Ok(());
        }
        if node.domain.is_some() && operator.is_none() {
            return Err(unknown(node));
        }
        if let Some(compose) = operator.and_then(|operator| operator.compose) {
            return compose(self, node);
        }
        let is_lowered = operator.is_some_and(|operator| operator.lower.is_some());
        let folded = operator.map_or(Ok(None), |operator| self.fold(node, operator));
        let folded = match folded {
            // Computed for each image, as it cannot be at once.
            Err(Problem::Folding { .. }) if is_lowered && self.materialise(node)? => None,
            folded => folded?,
        };
        if let Some(results) = folded {
            for (output, result) in std::iter::zip(&node.outputs, results) {
                if let Some(output) = output {
                    self.values[output.0] = Value::Constant(Rc::new(result));
                }
            }
            return Ok(());
        }
        if self.on_chosen_bytes(node)? {
            return Ok(());
        }
        self.materialise_wide(node)?;
        if self.on_stacked(node)? {
            return Ok(());
        }
        let Err(problem) = self.of_operands(node) else {
            return Ok(());
        };
        if self.on_folded(node)? {
            Ok(())
        } else {
            Err(problem)
        }
    }

    /// Lowers a node whose operands are as they come, neither folded nor one behind the other.
    fn of_operands(&mut self, node: &Node) -> Result<(), Problem> {
        if self.on_factor(node)? {
            return Ok(());
        }
        if self.on_unbatched(node)? {
            return Ok(());
        }
        self.compute_scaled(node)?;
        let softmaxes = self.compute_softmax(node)?;
        let mut done = self.computed(node);
        if done.is_err() && matches!(self.on_counted(node), Ok(true)) {
            done = Ok(());
        }
        if done.is_err() && matches!(self.on_batch_first(node), Ok(true)) {
            done = Ok(());
        }
        for (id, value) in softmaxes {
            self.values[id.0] = value;
        }
        done
    }

    /// Lowers a node that is not folded.
    fn computed(&mut self, node: &Node) -> Result<(), Problem> {
        if self.on_volume(node)? {
            return Ok(());
        }
        self.share_constants(node);
        if matches!(
            node.operator.as_str(),
            "Conv" | "MatMul" | "LayerNormalization"
        ) {
            self.materialise(node)?;
        }
        if let Some(value) = self.on_mask(node)? {
            return self.set(node, value);
        }
        if let Some(value) = self.on_places(node)? {
            return self.set(node, value);
        }
        if let Some(value) = self.on_scores(node)? {
            return self.set(node, value);
        }
        self.compute_scores(node)?;
        match operator(&node.operator) {
            Some(OnnxOperator {
                lower: Some(lower), ..
            }) => lower(self, node),
            Some(_) => Err(self.not_constant(node)),
            None => Err(unknown(node)),
        }
    }

    /// The results of a node whose operands are all known when compiling (of `Shape` and `Size` the dimensions);
    /// `None` for any other node.
    fn fold(
        &mut self,
        node: &Node,
        operator: &OnnxOperator,
    ) -> Result<Option<Vec<Constant>>, Problem> {
        if let Some(rule) = operator.measure
            && let Some(sizes) = self.operand(node, 0).and_then(Value::sizes)
        {
            return fold::fold_sizes(rule, node, &sizes).map(|result| Some(vec![result]));
        }
        let Some(rule) = operator.fold else {
            return self.interpreted(node, operator);
        };
        let constant = |id: &Option<ValueId>| match id.map(|id| &self.values[id.0]) {
            None => Some(None),
            Some(Value::Constant(constant)) => Some(Some(Rc::clone(constant))),
            Some(_) => None,
        };
        let operands = node.inputs.iter().map(constant);
        let Some(operands) = operands.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let list: Vec<Option<&Constant>> = operands.iter().map(Option::as_deref).collect();
        let folded = fold::fold(rule, node, &list, &mut self.room);
        // In a file exported for a fixed batch size that size may be counted with, where it must.
        let must = match &folded {
            Ok(results) => results.iter().any(Constant::has_wide_batch),
            Err(problem) => matches!(problem, Problem::Folding { .. }),
        };
        let (true, Some(fixed)) = (must, self.fixed) else {
            return folded.map(Some);
        };
        let at_batch = |operand: &Option<Rc<Constant>>| match operand {
            Some(operand) => operand.at_batch(fixed).map(Some),
            None => Some(None),
        };
        let Some(fixed) = operands.iter().map(at_batch).collect::<Option<Vec<_>>>() else {
            return folded.map(Some);
        };
        let fixed: Vec<Option<&Constant>> = fixed.iter().map(Option::as_ref).collect();
        let fixed = fold::fold(rule, node, &fixed, &mut self.room);
        fixed.or(folded).map(Some)
    }

    /// Gives the results of a node that cannot be lowered the shapes that the file declares, so that the nodes behind
    /// it can be judged. Nothing is compiled of them.
    pub fn stand_in(&mut self, node: &Node) {
        for output in node.outputs.iter().flatten() {
            let declared = self.graph.declared.get(output);
            let value = declared.and_then(|dims| self.of_sizes(dims));
            self.values[output.0] = value.unwrap_or(Value::Unknown);
        }
    }

    /// A tensor of these dimensions, of which the first is the batch.
    fn of_sizes(&mut self, dims: &[Option<i64>]) -> Option<Value> {
        let (batch, sizes) = dims.split_first()?;
        let sizes = sizes.iter().map(|size| u32::try_from((*size)?).ok());
        let sizes: Vec<u32> = sizes.collect::<Option<_>>()?;
        let fits = sizes.iter().all(|side| (1..=DIMENSION_MAX).contains(side));
        let tensor = TensorId(self.draft.tensors.len() as u32);
        let see: fn(TensorId, Tensor) -> View = match sizes.len() {
            1 => View::features,
            2 => View::series,
            _ => View::image,
        };
        let [channels, height, width] = match sizes[..] {
            [features] => [features, 1, 1],
            [channels, columns] => [channels, 1, columns],
            [channels, height, width] => [channels, height, width],
            _ => return None,
        };
        let shape = Tensor {
            channels,
            height,
            width,
        };
        if !fits
            || (batch.is_some() && *batch != self.fixed)
            || shape.elements() > TENSOR_ELEMENTS_MAX
        {
            return None;
        }
        self.draft.tensors.push(shape);
        Some(Value::View(see(tensor, shape)))
    }

    fn not_constant(&self, node: &Node) -> Problem {
        let mut operands = (0..node.inputs.len()).map(|at| (at, self.operand(node, at)));
        let other = operands.find_map(|(at, operand)| match operand {
            None | Some(Value::Constant(_)) => None,
            Some(other) => Some((at, self.describe(other))),
        });
        let (position, found) = other.unwrap_or_default();
        Problem::NotConstant { position, found }
    }
}

/// Why an operator that is in no table is refused.
fn unknown(node: &Node) -> Problem {
    match (&node.domain, node.operator.as_str()) {
        (None, "NonMaxSuppression") => Problem::Suppression,
        (None, _) => Problem::UnknownOperator,
        (Some(domain), _) => Problem::Domain {
            domain: domain.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_has_one_row_that_says_what_is_done_with_it() {
        assert_eq!(all().count(), supported().len());
        let does_nothing = |of: &&OnnxOperator| {
            let [lowered, composed] = [of.lower, of.compose].map(|rule| rule.is_some());
            !lowered && !composed && of.fold.is_none() && of.measure.is_none()
        };
        assert_eq!(all().find(does_nothing).map(|operator| operator.name), None);
    }
}
