//! Values computed apart, one behind the other along the batch: two views of a scene that are concatenated to pass one
//! encoder, or the frames of an image, folded into the batch by a reshape. Operators that know nothing but images of a
//! batch are applied to each; what takes them together again joins them.

use std::rc::Rc;

use super::joined::Part;
use super::lowering::Lowering;
use super::value::Value;
use super::view_algebra::{Axis, BATCH, View};
use super::views::position;
use super::vocabulary::OnnxOperator;
use crate::fold::layout::resolved;
use crate::graph::{Attributes, Node, ValueId};
use crate::integer::Dim;
use crate::problem::Problem;

/// Most values of one stack.
const PARTS_MAX: u64 = 256;

/// Values of equal dimensions, one of which is the batch. The images of all of them are one dimension: its position is
/// `(outer * images + image) * inner + place`, and part `outer * inner + place` has these.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub parts: Vec<Value>,
    /// Parts that lie within an image's positions.
    pub inner: usize,
}

impl Stack {
    /// The dimensions of all together.
    pub fn sizes(&self) -> Option<Vec<Dim>> {
        let mut sizes = self.parts.first()?.sizes()?;
        let batch = batch(&sizes)?;
        sizes[batch] = Dim::Batches(self.parts.len() as i64);
        Some(sizes)
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.parts.len(), self.inner) == (other.parts.len(), other.inner)
    }
}

/// The dimension that is the batch.
fn batch(sizes: &[Dim]) -> Option<usize> {
    sizes
        .iter()
        .position(|size| matches!(size, Dim::Batches(_)))
}

/// Whether an operator does the same with all images of a batch, whatever its attributes and further operands are.
fn treats_images_alone(name: &str, operands: usize) -> bool {
    let families = [
        super::convolution::OPERATORS,
        super::copies::OPERATORS,
        super::curves::OPERATORS,
        super::elementwise::OPERATORS,
        super::pooling::OPERATORS,
        super::recurrent::OPERATORS,
        super::resize::OPERATORS,
        super::transposed::OPERATORS,
    ];
    let one_of =
        |operators: &[OnnxOperator]| operators.iter().any(|operator| operator.name == name);
    families.into_iter().any(one_of)
        || (operands == 1 && one_of(super::arithmetic::OPERATORS))
        || matches!(
            name,
            "Cast"
                | "DequantizeLinear"
                | "Gemm"
                | "GroupNormalization"
                | "InstanceNormalization"
                | "IsInf"
                | "IsNaN"
                | "Not"
                | "Pad"
                | "QuantizeLinear"
                | "Transpose"
        )
}

/// What one operand gives to each part of a result.
enum Share {
    /// The same to all.
    Whole,
    Parts(Stack),
}

impl Lowering<'_> {
    /// Handles a concat along the batch; returns whether the node is one.
    pub(super) fn stack(&mut self, node: &Node) -> Result<bool, Problem> {
        let mut attributes = Attributes::of(node);
        let axis = attributes.int("axis", 1)?;
        attributes.finish()?;
        let mut parts: Vec<Value> = Vec::with_capacity(node.inputs.len());
        for operand in 0..node.inputs.len() {
            match self.operand(node, operand) {
                Some(Value::View(view)) if view.is_batch(0) => {
                    parts.push(Value::View(view.clone()))
                }
                _ => return Ok(false),
            }
        }
        let sizes = |value: &Value| value.sizes().unwrap_or_default();
        let rank = parts.first().map_or(0, |first| sizes(first).len()) as i64;
        let same = parts
            .windows(2)
            .all(|pair| sizes(&pair[0]) == sizes(&pair[1]));
        if parts.len() < 2 || !same || (axis != 0 && axis != -rank) {
            return Ok(false);
        }
        self.set(node, Value::Stacked(Stack { parts, inner: 1 }))?;
        Ok(true)
    }

    /// Handles a node that reads stacked values: a split of them, or what is applied to each. Returns whether it did; if
    /// not, the node's operands are stacked no more.
    pub(super) fn on_stacked(&mut self, node: &Node) -> Result<bool, Problem> {
        let stacks = node.inputs.iter().flatten();
        let stack = stacks.copied().find_map(|id| self.stacked(id).cloned());
        let Some(stack) = stack else {
            return Ok(false);
        };
        if self.unstacked(node, &stack)? {
            return Ok(true);
        }
        if let Some(shares) = self.shares(node, &stack) {
            self.on_each(node, &stack, shares)?;
            return Ok(true);
        }
        for id in node.inputs.iter().copied().flatten() {
            if let Some(stack) = self.stacked(id).cloned() {
                let joined = self.together(node, &stack)?;
                self.values[id.0] = Value::View(joined);
            }
        }
        Ok(false)
    }

    /// Applies a node that could not be lowered to each part of what is folded into the batch; whether there is such.
    pub(super) fn on_folded(&mut self, node: &Node) -> Result<bool, Problem> {
        let operands = node.inputs.iter().copied().flatten();
        let views = operands.filter_map(|id| match self.value(id) {
            Value::View(view) => Some(view),
            _ => None,
        });
        let mut stacks = views.filter_map(|view| self.apart(view));
        let Some(stack) = stacks.next() else {
            return Ok(false);
        };
        drop(stacks);
        let Some(shares) = self.shares(node, &stack) else {
            return Ok(false);
        };
        self.on_each(node, &stack, shares)?;
        Ok(true)
    }

    /// Lowers a node of a file for one image whose operands have a first dimension of one position that is not the batch,
    /// which another dimension is or none: there is one image, so the first may be it. Whether there is such an operand.
    pub(super) fn on_batch_first(&mut self, node: &Node) -> Result<bool, Problem> {
        let mut moved = Vec::new();
        for id in node.inputs.iter().copied().flatten() {
            if let Value::View(view) = self.value(id)
                && self.fixed == Some(1)
                && view.dims.first().is_some_and(Vec::is_empty)
            {
                let mut view = view.clone();
                for dim in &mut view.dims {
                    dim.retain(|digit| *digit != BATCH);
                }
                view.dims[0].push(BATCH);
                moved.push((id, Value::View(view)));
            }
        }
        if moved.is_empty() {
            return Ok(false);
        }
        let lowered = self.with_values(moved, |lowering| lowering.computed(node));
        lowered.map(|()| true)
    }

    fn stacked(&self, id: ValueId) -> Option<&Stack> {
        match self.value(id) {
            Value::Stacked(stack) => Some(stack),
            _ => None,
        }
    }

    /// Lowers a node once for each part, and stacks the results.
    fn on_each(
        &mut self,
        node: &Node,
        stack: &Stack,
        shares: Vec<(ValueId, Share)>,
    ) -> Result<(), Problem> {
        let outputs: Vec<ValueId> = node.outputs.iter().copied().flatten().collect();
        let before: Vec<Value> = shares
            .iter()
            .map(|(id, _)| self.value(*id).clone())
            .collect();
        let count = stack.parts.len();
        let mut results = vec![Vec::with_capacity(count); outputs.len()];
        let mut lowered = Ok(());
        for part in 0..count {
            for (id, share) in &shares {
                if let Share::Parts(stack) = share {
                    self.values[id.0] = stack.parts[part].clone();
                }
            }
            lowered = self.of_images_alone(node, stack);
            if lowered.is_err() {
                break;
            }
            for (id, results) in outputs.iter().zip(&mut results) {
                results.push(self.value(*id).clone());
            }
        }
        for ((id, _), value) in shares.iter().zip(before) {
            self.values[id.0] = value;
        }
        lowered?;
        for (id, parts) in outputs.iter().zip(results) {
            let inner = stack.inner;
            let sizes = parts[0].sizes();
            let is_stack = sizes.as_deref().and_then(batch).is_some()
                && parts.iter().all(|part| part.sizes() == sizes);
            self.values[id.0] = match &parts[0] {
                Value::Nothing => Value::Nothing,
                _ if is_stack => Value::Stacked(Stack { parts, inner }),
                _ => return Err(self.no_slice(node)),
            };
        }
        Ok(())
    }

    /// Lowers a node for one part of a stack.
    fn of_images_alone(&mut self, node: &Node, stack: &Stack) -> Result<(), Problem> {
        if node.operator != "Reshape" {
            return self.of_operands(node);
        }
        let value = self.required(node, 0, "data")?.clone();
        let view = self.tensor_of(node, &value)?;
        let mut from = view.sizes();
        if let Some(batch) = batch(&from) {
            from[batch] = Dim::Batches(stack.parts.len() as i64);
        }
        let mut to = self.sizes_to(node, &from)?;
        to = resolved(&from, &to, self.fixed_batch()).unwrap_or(to);
        if let Some(first) = to.first_mut() {
            *first = Dim::Batches(1);
        }
        let view = self.reshaped(node, &view, &to)?;
        self.set(node, Value::View(view))
    }

    /// What each operand gives to each part, if the node can be applied to them one by one.
    fn shares(&self, node: &Node, stack: &Stack) -> Option<Vec<(ValueId, Share)>> {
        let sizes = stack.sizes()?;
        let batch = batch(&sizes)?;
        let kept = match node.operator.as_str() {
            "Reshape" => self.keeps_batch(node, &sizes),
            "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Min" | "Max" | "Sum" | "Mean" | "Mod"
            | "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or"
            | "Xor" | "Where" | "PRelu" | "MatMul" => {
                return self.broadcast(node, stack, sizes.len() - batch);
            }
            "Concat" | "GatherElements" => {
                let axis = position(
                    "axis",
                    Attributes::of(node).int("axis", 0).ok()?,
                    sizes.len(),
                );
                return match axis {
                    Ok(axis) if axis != batch => self.broadcast(node, stack, sizes.len() - batch),
                    _ => None,
                };
            }
            "Expand" | "Tile" | "Shape" | "Size" | "Einsum" | "Flatten" => false,
            _ => self.leaves_dimension(node, batch, sizes.len()),
        };
        let first = node.inputs.first().copied().flatten()?;
        let others = node.inputs.iter().skip(1).copied().flatten();
        let mut parameters = others.map(|id| self.value(id));
        let are_known = match node.operator.as_str() {
            // Their states have an image's dimensions.
            "GRU" | "LSTM" | "RNN" => return self.recurrent_shares(node, stack).filter(|_| kept),
            _ => parameters.all(|value| matches!(value, Value::Constant(_))),
        };
        (kept && are_known).then(|| vec![(first, Share::Parts(stack.clone()))])
    }

    /// Whether a reshape leaves the batch its dimension, which is the first one.
    fn keeps_batch(&self, node: &Node, sizes: &[Dim]) -> bool {
        let fixed = self.fixed_batch();
        let to = self.sizes_to(node, sizes).ok();
        let to = to.and_then(|to| resolved(sizes, &to, fixed));
        let images = |size: Dim| match (size, fixed) {
            (Dim::Batches(times), None) => Some(times),
            (Dim::Batches(times), Some(fixed)) => Some(times * fixed as i64),
            (Dim::Known(size), Some(_)) => Some(size),
            (Dim::Known(_), None) => None,
        };
        let first = to.and_then(|to| images(*to.first()?));
        batch(sizes) == Some(0) && first.is_some() && first == images(sizes[0])
    }

    /// Whether a node does nothing along a dimension of its first operand.
    fn leaves_dimension(&self, node: &Node, dim: usize, rank: usize) -> bool {
        let attributes = || Attributes::of(node);
        let listed = |at: usize| {
            let in_operand = self.optional_ints(node, at, "axes").ok().flatten();
            let in_attribute = || {
                attributes()
                    .ints("axes")
                    .ok()
                    .flatten()
                    .map(<[i64]>::to_vec)
            };
            in_operand.or_else(in_attribute)
        };
        let one = |default: i64| {
            attributes()
                .int("axis", default)
                .ok()
                .map(|axis| vec![axis])
        };
        let axes = match node.operator.as_str() {
            name if name.starts_with("Reduce") => listed(1),
            "Squeeze" => listed(1),
            "Unsqueeze" => {
                return listed(1).is_some_and(|axes| axes.iter().all(|axis| *axis > dim as i64));
            }
            "Slice" => listed(3),
            "ArgMax" | "ArgMin" | "Gather" | "Split" => one(0),
            "Softmax" | "LogSoftmax" if node.opset < 13 => one(1),
            "Softmax" | "LogSoftmax" | "TopK" | "LpNormalization" | "LayerNormalization"
            | "RMSNormalization" => one(-1),
            name => return treats_images_alone(name, node.inputs.len()),
        };
        let axes = axes.map(|axes| super::views::positions("axes", &axes, rank));
        axes.is_some_and(|axes| axes.is_ok_and(|axes| axes.iter().all(|axis| *axis != dim)))
    }

    /// The shares of operands that are repeated to each other's dimensions; of the result the batch is this far from the end.
    fn broadcast(
        &self,
        node: &Node,
        stack: &Stack,
        from_end: usize,
    ) -> Option<Vec<(ValueId, Share)>> {
        let share = |id: ValueId| {
            let value = self.value(id);
            let sizes = value.sizes()?;
            let there = sizes.len().checked_sub(from_end).map(|at| sizes[at]);
            let parts = match value {
                Value::Stacked(own) => Some(own.clone()),
                Value::View(view) => self.apart(view),
                _ => None,
            };
            match (parts, there) {
                (Some(own), Some(Dim::Batches(_))) if own.is_like(stack) => Some(Share::Parts(own)),
                (Some(_), _) => None,
                (None, None | Some(Dim::Known(1))) => Some(Share::Whole),
                (None, Some(Dim::Batches(1))) if self.fixed == Some(1) => Some(Share::Whole),
                // Of one image, each part has its position of a constant.
                (None, Some(Dim::Known(count)))
                    if self.fixed == Some(1) && count == stack.parts.len() as i64 =>
                {
                    self.positions_of(id, from_end, stack.inner)
                        .map(Share::Parts)
                }
                (None, Some(_)) => None,
            }
        };
        let operands = node.inputs.iter().copied().flatten();
        operands.map(|id| Some((id, share(id)?))).collect()
    }

    /// The positions of a constant along the dimension that is this far from the end.
    fn positions_of(&self, id: ValueId, from_end: usize, inner: usize) -> Option<Stack> {
        let Value::Constant(constant) = self.value(id) else {
            return None;
        };
        let dim = constant.dims.len().checked_sub(from_end)?;
        let part = |at| Some(Value::Constant(Rc::new(constant.position(dim, at)?)));
        let parts = (0..constant.dims[dim]).map(part).collect::<Option<_>>()?;
        Some(Stack { parts, inner })
    }

    /// The shares of the operands of a recurrent layer.
    fn recurrent_shares(&self, node: &Node, stack: &Stack) -> Option<Vec<(ValueId, Share)>> {
        let mut shares = Vec::new();
        for id in node.inputs.iter().copied().flatten() {
            let parts = match self.value(id) {
                Value::Stacked(own) => Some(own.clone()),
                Value::View(view) => Some(self.apart(view)?),
                Value::Constant(_) => None,
                _ => return None,
            };
            match parts {
                Some(own) if own.is_like(stack) => shares.push((id, Share::Parts(own))),
                Some(_) => return None,
                None => {}
            }
        }
        Some(shares)
    }

    /// The values of a stack as one tensor.
    pub(super) fn together(&mut self, node: &Node, stack: &Stack) -> Result<View, Problem> {
        let mut parts = Vec::with_capacity(stack.parts.len());
        for part in &stack.parts {
            let view = self.tensor_of(node, part)?;
            let batch = (0..view.dims.len()).find(|&dim| view.is_batch(dim));
            let batch = batch.ok_or_else(|| self.no_slice(node))?;
            let mut order: Vec<usize> = (0..view.dims.len()).collect();
            order.remove(batch);
            order.insert(0, batch);
            let view = match view.permute(&order) {
                alone if alone.dims.len() == 1 => alone.unsqueeze(1),
                view => view,
            };
            parts.push((view, batch));
        }
        let (first, batch) = parts[0].clone();
        let rank = stack.parts[0].sizes().map_or(0, |sizes| sizes.len());
        let parts: Vec<Part> = parts
            .into_iter()
            .map(|(view, _)| Part::View(view))
            .collect();
        let joined = self.join_parts(node, 1, &parts)?;
        let inner = stack.inner as i64;
        let outer = stack.parts.len() as i64 / inner;
        let mut sizes = first.sizes();
        sizes.splice(1..1, [Dim::Known(outer), Dim::Known(inner)]);
        let mut view = match joined.reshape(&sizes, None) {
            Some(view) => view,
            None => self.reshaped(node, &joined, &sizes)?,
        };
        let folded: Vec<Vec<_>> = view.dims.drain(..3).collect();
        let [images, outer, inner] = [0, 1, 2].map(|at| folded[at].clone());
        view.dims.insert(0, [outer, images, inner].concat());
        view.dims.truncate(rank);
        let folded = view.dims.remove(0);
        view.dims.insert(batch, folded);
        self.stacks
            .insert(view.tensor, (view.clone(), stack.clone()));
        Ok(view)
    }

    /// The parts of a view whose batch has several positions for each image.
    fn apart(&self, view: &View) -> Option<Stack> {
        if let Some((seen, stack)) = self.stacks.get(&view.tensor)
            && seen == view
        {
            return Some(stack.clone());
        }
        let has_batch = |dim: &usize| view.dims[*dim].contains(&BATCH);
        let dim = (0..view.dims.len())
            .find(has_batch)
            .filter(|_| view.has_one_batch())?;
        let images = view.dims[dim]
            .iter()
            .position(|digit| digit.axis == Axis::Batch)?;
        let (before, after) = (
            view.dims[dim][..images].to_vec(),
            view.dims[dim][images + 1..].to_vec(),
        );
        let count = |digits: &[super::view_algebra::Factor]| {
            digits.iter().map(|digit| digit.extent).product::<u64>()
        };
        let (outer, inner) = (count(&before), count(&after));
        if !(2..=PARTS_MAX).contains(&outer.checked_mul(inner)?) {
            return None;
        }
        let mut split = view.clone();
        split.dims.splice(dim..=dim, [before, vec![BATCH], after]);
        let mut parts = Vec::new();
        for at in 0..outer * inner {
            let part = split
                .slice(dim, at / inner, 1, 1)?
                .slice(dim + 2, at % inner, 1, 1)?;
            parts.push(Value::View(part.squeeze(dim + 2)?.squeeze(dim)?));
        }
        Some(Stack {
            parts,
            inner: inner as usize,
        })
    }

    /// Handles a split or a slice of concatenated batches; returns whether the node is one.
    fn unstacked(&mut self, node: &Node, stack: &Stack) -> Result<bool, Problem> {
        let batches = &stack.parts;
        if stack.inner != 1 || stack.sizes().as_deref().and_then(batch) != Some(0) {
            return Ok(false);
        }
        let ranges: Vec<[usize; 2]> = match node.operator.as_str() {
            "Split" if Attributes::of(node).int("axis", 0)? == 0 => {
                let count = node.outputs.len();
                let each = batches.len() / count.max(1);
                if count == 0 || each * count != batches.len() || !self.splits_evenly(node)? {
                    return Err(self.no_slice(node));
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
                    return Err(self.no_slice(node));
                };
                vec![[start, end.min(batches.len())]]
            }
            _ => return Ok(false),
        };
        for (output, [start, end]) in node.outputs.iter().zip(ranges) {
            let value = match &batches[start.min(end)..end] {
                [] => return Err(self.no_slice(node)),
                [one] => one.clone(),
                several => Value::Stacked(Stack {
                    parts: several.to_vec(),
                    inner: 1,
                }),
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
}
