//! Concatenated batches, such as two views of a scene that pass one encoder. Each batch is computed by itself, until a
//! split separates them again.

use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::View;
use crate::graph::{Attributes, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;

impl Lowering<'_> {
    /// Handles a concat along the batch; returns whether the node is one.
    pub(super) fn stack(&mut self, node: &Node) -> Result<bool, Problem> {
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 1)?;
        attributes.finish()?;
        let mut batches: Vec<View> = Vec::with_capacity(node.inputs.len());
        for operand in 0..node.inputs.len() {
            match self.operand(node, operand) {
                Some(Value::View(view)) if view.is_batch(0) => batches.push(view.clone()),
                _ => return Ok(false),
            }
        }
        let rank = batches.first().map_or(0, |view| view.dims.len()) as i64;
        let same = batches
            .windows(2)
            .all(|pair| pair[0].sizes() == pair[1].sizes());
        if batches.len() < 2 || !same || (axis != 0 && axis != -rank) {
            return Ok(false);
        }
        self.set(node, Value::Stacked(batches))?;
        Ok(true)
    }

    /// Handles a node that reads concatenated batches: a split of them, or anything else, which is applied to each.
    /// Returns whether the node reads some.
    pub(super) fn on_stacked(&mut self, node: &Node) -> Result<bool, Problem> {
        let stacks: Vec<(ValueId, Vec<View>)> = node
            .inputs
            .iter()
            .flatten()
            .filter_map(|id| match self.value(*id) {
                Value::Stacked(batches) => Some((*id, batches.clone())),
                _ => None,
            })
            .collect();
        let Some((_, first)) = stacks.first() else {
            return Ok(false);
        };
        if self.unstacked(node, first)? {
            return Ok(true);
        }
        let count = first.len();
        if stacks.iter().any(|(_, batches)| batches.len() != count) {
            return Err(self.stack_refused(node));
        }
        let outputs: Vec<ValueId> = node.outputs.iter().copied().flatten().collect();
        let mut results = vec![Vec::with_capacity(count); outputs.len()];
        for at in 0..count {
            for (id, batches) in &stacks {
                self.values[id.0] = Value::View(batches[at].clone());
            }
            self.computed(node)?;
            for (id, results) in outputs.iter().zip(&mut results) {
                match self.value(*id) {
                    Value::View(view) => results.push(view.clone()),
                    _ => return Err(self.stack_refused(node)),
                }
            }
        }
        for (id, batches) in stacks {
            self.values[id.0] = Value::Stacked(batches);
        }
        for (id, results) in outputs.iter().zip(results) {
            self.values[id.0] = Value::Stacked(results);
        }
        Ok(true)
    }

    /// Handles a split or a slice of concatenated batches; returns whether the node is one.
    fn unstacked(&mut self, node: &Node, batches: &[View]) -> Result<bool, Problem> {
        let ranges: Vec<[usize; 2]> = match node.operator.as_str() {
            "Split" if Attributes::of(node).int("axis", 0)? == 0 => {
                let count = node.outputs.len();
                let each = batches.len() / count.max(1);
                if count == 0 || each * count != batches.len() || !self.splits_evenly(node)? {
                    return Err(self.stack_refused(node));
                }
                (0..count).map(|at| [at * each, (at + 1) * each]).collect()
            }
            "Slice" if self.optional_ints(node, 3, "axes")? == Some(vec![0]) => {
                let bound = |dims: Vec<Dim>| match dims[..] {
                    [Dim::Known(0)] => Some(0),
                    [Dim::Batches(times)] => usize::try_from(times).ok(),
                    [Dim::Known(end)] if end >= i64::from(i32::MAX) => Some(batches.len()),
                    _ => None,
                };
                let start = bound(self.sizes(node, 1, "starts")?);
                let end = bound(self.sizes(node, 2, "ends")?);
                let steps = self.optional_ints(node, 4, "steps")?;
                let (Some(start), Some(end), true) =
                    (start, end, steps.is_none_or(|steps| steps == [1]))
                else {
                    return Err(self.stack_refused(node));
                };
                vec![[start, end.min(batches.len())]]
            }
            _ => return Ok(false),
        };
        for (output, [start, end]) in node.outputs.iter().zip(ranges) {
            let value = match &batches[start.min(end)..end] {
                [] => return Err(self.stack_refused(node)),
                [one] => Value::View(one.clone()),
                several => Value::Stacked(several.to_vec()),
            };
            if let Some(output) = output {
                self.values[output.0] = value;
            }
        }
        Ok(true)
    }

    /// Whether all parts of a split have the same size.
    fn splits_evenly(&self, node: &Node) -> Result<bool, Problem> {
        if self.operand(node, 1).is_none() {
            return Ok(true);
        }
        let sizes = self.sizes(node, 1, "split")?;
        Ok(sizes.windows(2).all(|pair| pair[0] == pair[1]))
    }

    fn stack_refused(&self, node: &Node) -> Problem {
        self.no_slice(node)
    }
}
