//! Values that come with each frame and have no batch in the file: a scalar, such as the timestep of a diffusion policy,
//! and what is computed of it alone.
//!
//! They are views without the batch among their digits, which reshapes and slices take as they are. All other operators
//! see them with the batch: where their other operands have it, else in front. For one frame that is what the file says;
//! in a batch each frame has its own.

use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, View};
use super::vocabulary::OnnxOperator;
use crate::graph::{Attribute, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;

/// Where an operator sees the batch of operands that have none.
#[derive(Clone, Copy)]
enum Place {
    /// In the place of the first dimension, which is of size one.
    First,
    /// Before all dimensions, of which there are `rank` at least.
    Before { rank: usize },
    /// In the place of one of `rank` dimensions.
    Among { rank: usize, at: usize },
}

impl View {
    /// Whether the batch is in none of its dimensions.
    fn is_unbatched(&self) -> bool {
        let mut digits = self.dims.iter().flatten();
        digits.all(|digit| digit.axis != Axis::Batch)
    }

    /// With the batch in one of its dimensions; `None` where that has another size than one.
    fn with_batch(&self, place: Place) -> Option<Self> {
        let own = self.dims.len();
        let (rank, at) = match place {
            Place::First => (own, 0),
            Place::Before { rank } => (own.max(rank) + 1, 0),
            Place::Among { rank, at } => (rank, at),
        };
        let mut view = self.clone();
        while view.dims.len() < rank {
            view = view.unsqueeze(0);
        }
        view.expand_to_batch(at).then_some(view)
    }

    /// Makes the batch of a dimension of size one, if there is none; whether it did.
    pub(super) fn expand_to_batch(&mut self, dim: usize) -> bool {
        let is_one = self.is_unbatched() && self.dims.get(dim).is_some_and(Vec::is_empty);
        if is_one {
            self.dims[dim].push(BATCH);
        }
        is_one
    }
}

impl Lowering<'_> {
    /// Lowers a node with operands that have no batch; whether there are any that it cannot take as they are.
    pub(super) fn on_unbatched(&mut self, node: &Node) -> Result<bool, Problem> {
        // By measured numbers a node dequantises in several others, which see the batch.
        if self.moves_unbatched(node) || node.operator == "DequantizeLinear" {
            return Ok(false);
        }
        let operands = node.inputs.iter().copied().enumerate();
        let unbatched = operands.filter_map(|(at, id)| Some((at, id?, self.unbatched(id?)?)));
        let unbatched: Vec<(usize, ValueId, View)> = unbatched.collect();
        let Some(&(first, ..)) = unbatched.first() else {
            return Ok(false);
        };
        let unfit = |lowering: &Self, position| {
            let found = lowering.operand(node, position).unwrap_or(&Value::Nothing);
            let found = lowering.describe(found);
            Problem::Unbatched { position, found }
        };
        let alone = self.operand_batch(node).is_none();
        let seen = self.seen_with_batch(node);
        let (place, node) = seen.ok_or_else(|| unfit(self, first))?;
        let mut batched = Vec::with_capacity(unbatched.len());
        for (position, id, view) in &unbatched {
            let view = view.with_batch(place);
            let view = view.ok_or_else(|| unfit(self, *position))?;
            batched.push((*id, Value::View(view)));
        }
        self.with_values(batched, |lowering| lowering.of_operands(&node))?;
        if alone && !self.take_batch_away(&node, place) {
            return Err(unfit(self, first));
        }
        Ok(true)
    }

    /// Gives outputs of the file a batch that have none: instead of a first dimension of size one, else before all.
    pub fn give_batch_to(&mut self, outputs: &[ValueId]) {
        for &id in outputs {
            let Some(view) = self.unbatched(id) else {
                continue;
            };
            let places = [Place::First, Place::Before { rank: 0 }];
            let batched = places.iter().find_map(|place| view.with_batch(*place));
            if let Some(batched) = batched {
                self.values[id.0] = Value::View(batched);
            }
        }
    }

    fn unbatched(&self, id: ValueId) -> Option<View> {
        match self.value(id) {
            Value::View(view) if view.is_unbatched() => Some(view.clone()),
            _ => None,
        }
    }

    /// Whether a node only gives its first operand, which has no batch, other dimensions.
    fn moves_unbatched(&self, node: &Node) -> bool {
        let is_view = is_one_of(node, super::views::OPERATORS) || node.operator == "Split";
        let first = node.inputs.first().copied().flatten();
        is_view && first.is_some_and(|first| self.unbatched(first).is_some())
    }

    /// How far from the last dimension the batch is in the operands that have one.
    fn operand_batch(&self, node: &Node) -> Option<usize> {
        let mut operands = node.inputs.iter().flatten();
        operands.find_map(|id| {
            let sizes = self.value(*id).sizes()?;
            let mut from_end = sizes.iter().rev();
            from_end.position(|size| matches!(size, Dim::Batches(_)))
        })
    }

    /// Where a node sees the batch of operands that have none, and the node as it is then.
    fn seen_with_batch(&self, node: &Node) -> Option<(Place, Node)> {
        let operands = node.inputs.iter().flatten();
        let ranks = operands.filter_map(|id| Some(self.value(*id).sizes()?.len()));
        let rank = ranks.max().unwrap_or(0);
        let each = treats_values_alone(node);
        match self.operand_batch(node) {
            Some(from_end) if each => {
                let at = rank.checked_sub(from_end + 1)?;
                Some((Place::Among { rank, at }, node.clone()))
            }
            Some(_) => Some((Place::First, node.clone())),
            None if each => Some((Place::Before { rank }, node.clone())),
            None if node.operator != "Concat" && self.begin_with_one(node) => {
                Some((Place::First, node.clone()))
            }
            None => Some((
                Place::Before { rank: 0 },
                self.with_dimension_in_front(node)?,
            )),
        }
    }

    fn begin_with_one(&self, node: &Node) -> bool {
        let operands = node.inputs.iter().flatten();
        let mut unbatched = operands.filter_map(|id| self.unbatched(*id));
        unbatched.all(|view| view.dims.first().is_some_and(Vec::is_empty))
    }

    /// A node for operands with one more dimension in front of theirs, if there is one.
    fn with_dimension_in_front(&self, node: &Node) -> Option<Node> {
        let constant = |at: usize| match self.operand(node, at) {
            Some(Value::Constant(constant)) => Some(constant.dims.len()),
            _ => None,
        };
        let axis = node.attributes.get("axis");
        let last = match node.operator.as_str() {
            "MatMul" => return (constant(1)? <= 2).then(|| node.clone()),
            "Gather" => {
                let is_first = matches!(axis, None | Some(Attribute::Int(0)));
                return (is_first && constant(0).is_some()).then(|| node.clone());
            }
            "Softmax" | "LogSoftmax" => node.opset >= 13,
            "LayerNormalization" => true,
            "Concat" => false,
            _ => return None,
        };
        let mut node = node.clone();
        match node.attributes.get_mut("axis") {
            Some(Attribute::Int(axis)) if *axis >= 0 => *axis = axis.checked_add(1)?,
            None if !last => return None,
            _ => {}
        }
        Some(node)
    }

    /// Takes from a node's results the batch that its operands were given; whether it could.
    fn take_batch_away(&mut self, node: &Node, place: Place) -> bool {
        node.outputs.iter().flatten().all(|id| {
            let added = matches!(place, Place::Before { .. });
            match &mut self.values[id.0] {
                Value::View(view) if view.is_batch(0) && view.has_one_batch() => {
                    view.dims[0].clear();
                    if added {
                        view.dims.remove(0);
                    }
                    true
                }
                Value::Nothing | Value::Constant(_) => true,
                _ => !added,
            }
        })
    }
}

fn is_one_of(node: &Node, operators: &[OnnxOperator]) -> bool {
    let mut operators = operators.iter();
    operators.any(|operator| operator.name == node.operator)
}

/// Whether an operator does the same with each value, whatever its dimensions, once operands of several are repeated to
/// each other's.
fn treats_values_alone(node: &Node) -> bool {
    match node.operator.as_str() {
        "Clip" | "Dropout" | "Identity" | "Relu" => true,
        "LogSoftmax" | "Softmax" | "Trilu" => false,
        _ => [
            super::arithmetic::OPERATORS,
            super::choices::OPERATORS,
            super::curves::OPERATORS,
        ]
        .into_iter()
        .any(|family| is_one_of(node, family)),
    }
}
