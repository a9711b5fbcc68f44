//! What is known while a graph is lowered, and how results and operators are added to it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use punctual_model::{
    DIMENSION_MAX, NAME_BYTES_MAX, OPERATORS_MAX, Operands, OperatorKind, TENSOR_ELEMENTS_MAX,
    Tensor, TensorId, WEIGHTS_MAX,
};
use punctual_types::Padding;

use super::composed::Rounded;
use super::joined::Joined;
use super::numbers::Numbers;
use super::stacked::Stack;
use super::value::Value;
use super::view_algebra::View;
use crate::draft::{Computation, Draft, DraftOperator};
use crate::fold::Room;
use crate::graph::{Graph, Node, ValueId, Vector};
use crate::input::Input;
use crate::integer::Dim;
use crate::problem::Problem;
use crate::report::Note;
use crate::unsupported::NodeProblem;

/// Most runs of channels of all gathers and pieces of all copies of a draft together.
const CHANNEL_RUNS_MAX: usize = 1 << 20;

/// An image that consists of another one with zeros around it.
#[derive(Clone, Debug)]
pub(super) struct Padded {
    pub seen: View,
    pub inner: View,
    pub padding: Padding,
}

pub(crate) struct Lowering<'a> {
    pub(super) graph: &'a Graph,
    /// The batch size that the file was exported for, if it names one.
    pub(super) fixed: Option<i64>,
    /// One entry a value of the graph; `Nothing` until its node has been lowered.
    pub(super) values: Vec<Value>,
    pub draft: Draft,
    /// Floats that the draft's operators hold. Several may have copies of one constant, so they
    /// can be more than the file has bytes.
    pub(super) weights: usize,
    /// Runs of all gathers and pieces of all copies: a shuffle of many channels is as many runs, out of a few bytes.
    pub(super) channel_runs: usize,
    pub notes: Vec<Note>,
    /// What a step of a constant is worth that is a whole number of steps everywhere.
    pub(super) steps: BTreeMap<ValueId, Rc<[f32]>>,
    /// What integers stand for that are floats here, by their tensor.
    pub(super) rounded: BTreeMap<TensorId, Rounded>,
    /// Tensors of bytes that are signed in the file.
    pub(super) signed: BTreeSet<TensorId>,
    /// The tensors that were joined from others.
    pub(super) joins: BTreeMap<TensorId, Joined>,
    /// What one layer of a tensor of stacked ones became.
    pub(super) layers: BTreeMap<(TensorId, u64), TensorId>,
    /// What was joined from the parts of a batch, by its tensor.
    pub(super) stacks: BTreeMap<TensorId, (View, Stack)>,
    /// What may still be computed of constants.
    pub(super) room: Room,
    /// The values of each softmax that an operator has read.
    pub(super) softmaxes: BTreeMap<ValueId, View>,
    /// The kind of numbers that each value of the graph has.
    pub(super) numbers: Vec<Numbers>,
    /// Images that consist of another image with zeros around it.
    pub(super) padded: BTreeMap<TensorId, Padded>,
    /// Nodes that cannot be lowered.
    pub problems: Vec<NodeProblem>,
    /// Nodes that read what is unknown.
    pub unchecked: usize,
}

impl<'a> Lowering<'a> {
    pub fn new(graph: &'a Graph, input: &Input) -> Self {
        let mut values = vec![Value::Nothing; graph.values.len()];
        for (id, constant) in &graph.constants {
            values[id.0] = Value::Constant(Rc::clone(constant));
        }
        values[graph.input.0] = Value::View(seen(graph, input));
        let shape = input.spec.tensor();
        let mut tensors = vec![shape];
        for (at, vector) in (1..).map(TensorId).zip(&graph.vectors) {
            let shape = Tensor::features(vector.length);
            values[vector.id.0] = Value::View(vector_seen(vector, at, shape));
            tensors.push(shape);
        }
        let mut numbers = vec![Numbers::Floats; graph.values.len()];
        let inputs = [graph.input].into_iter().chain(graph.mask);
        inputs.for_each(|id| numbers[id.0] = graph.input_elements.into());
        for vector in &graph.vectors {
            numbers[vector.id.0] = vector.elements.into();
        }
        if let Some(mask) = graph.mask {
            let mask_channel = View::image(TensorId(0), shape).tokens_of_channel(1);
            values[mask.0] = Value::View(mask_channel);
        }
        let draft = Draft {
            inputs: tensors.len(),
            tensors,
            operators: Vec::new(),
            quantised: BTreeMap::new(),
            steps: BTreeMap::new(),
        };
        Self {
            graph,
            fixed: graph.input_dims.first().copied().flatten(),
            values,
            draft,
            weights: 0,
            channel_runs: 0,
            notes: Vec::new(),
            steps: BTreeMap::new(),
            rounded: BTreeMap::new(),
            signed: BTreeSet::new(),
            joins: BTreeMap::new(),
            layers: BTreeMap::new(),
            stacks: BTreeMap::new(),
            softmaxes: BTreeMap::new(),
            numbers,
            padded: BTreeMap::new(),
            problems: Vec::new(),
            unchecked: 0,
            room: Room::of(graph.constants.values().map(|c| c.data.len()).sum()),
        }
    }

    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Whether a constant matrix is applied to the last dimension of a tensor.
    pub(super) fn is_dense(&self, node: &Node) -> bool {
        let is_matrix = |value: &Value| match value {
            Value::Constant(constant) => constant.dims.len() <= 2,
            _ => false,
        };
        self.operand(node, 1).is_some_and(is_matrix)
    }

    pub(super) fn is_view(&self, node: &Node, at: usize) -> bool {
        matches!(self.operand(node, at), Some(Value::View(_)))
    }

    pub(super) fn shape(&self, tensor: TensorId) -> Tensor {
        self.draft.tensors[tensor.index()]
    }

    /// What `lower` comes to while these values stand in the places of others.
    pub(super) fn with_values<T>(
        &mut self,
        values: impl IntoIterator<Item = (ValueId, Value)>,
        lower: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let replace =
            |(id, value): (ValueId, Value)| (id, std::mem::replace(&mut self.values[id.0], value));
        let before: Vec<(ValueId, Value)> = values.into_iter().map(replace).collect();
        let result = lower(self);
        // The last first: an operand may stand there twice.
        for (id, value) in before.into_iter().rev() {
            self.values[id.0] = value;
        }
        result
    }

    /// A value that no node of the file has.
    pub(super) fn temporary(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        self.numbers.push(Numbers::Floats);
        ValueId(self.values.len() - 1)
    }

    /// Makes `value` the node's first result, unless that is left out.
    pub(super) fn set(&mut self, node: &Node, value: Value) -> Result<(), Problem> {
        if let Some(Some(first)) = node.outputs.first() {
            self.values[first.0] = value;
        }
        Ok(())
    }

    /// Makes `tensor` the node's first result as (N, channels, rows, columns), or as (N, channels, columns) for a node
    /// that reads such a series.
    pub(super) fn set_image(&mut self, node: &Node, tensor: TensorId) -> Result<(), Problem> {
        let shape = self.shape(tensor);
        let view = if self.is_series(node) {
            View::series(tensor, shape)
        } else {
            View::image(tensor, shape)
        };
        self.set(node, Value::View(view))
    }

    /// Whether a node reads a series, (N, channels, columns), so that its windows have one dimension.
    pub(super) fn is_series(&self, node: &Node) -> bool {
        self.view(node, 0).is_ok_and(|view| view.dims.len() == 3)
    }

    /// Makes (N, features) of `tensor` the node's first result.
    pub(super) fn set_features(&mut self, node: &Node, tensor: TensorId) -> Result<(), Problem> {
        let view = View::features(tensor, self.shape(tensor));
        self.set(node, Value::View(view))
    }

    /// Adds an operator and returns the tensor that it writes. Here every limit of a network is
    /// checked that one node can exceed, so that the error can name the node.
    pub(super) fn emit(
        &mut self,
        node: &Node,
        computation: impl Into<Computation>,
        input: TensorId,
        others: &[TensorId],
    ) -> Result<TensorId, Problem> {
        let computation = computation.into();
        if self.draft.operators.len() == OPERATORS_MAX {
            return Err(Problem::Limit {
                what: "operators",
                limit: OPERATORS_MAX,
            });
        }
        let lengths = computation.weights.iter().map(Vec::len);
        self.weights = lengths.fold(self.weights, usize::saturating_add);
        if self.weights > WEIGHTS_MAX {
            return Err(Problem::Limit {
                what: "weights",
                limit: WEIGHTS_MAX,
            });
        }
        match &computation.kind {
            OperatorKind::Gather(gather) => self.channel_runs += gather.runs.len(),
            OperatorKind::Copy(copy) => self.channel_runs += copy.pieces.len(),
            _ => {}
        }
        if self.channel_runs > CHANNEL_RUNS_MAX {
            return Err(Problem::Limit {
                what: "runs of channels that are joined, sliced or shuffled",
                limit: CHANNEL_RUNS_MAX,
            });
        }
        if let Some(value) = computation.not_finite() {
            return Err(Problem::NotFinite { value });
        }
        let shape = self.result(&computation, input, others)?;
        let mut sides = shape.sides().into_iter();
        if !sides.all(|side| (1..=DIMENSION_MAX).contains(&side))
            || shape.elements() > TENSOR_ELEMENTS_MAX
        {
            return Err(Problem::ResultSize { shape });
        }
        let output = TensorId(self.draft.tensors.len() as u32);
        self.draft.tensors.push(shape);
        let end = node.name.floor_char_boundary(NAME_BYTES_MAX);
        let name = node.name[..end].to_owned();
        if matches!(computation.kind, OperatorKind::Copy(_)) && computation.weights.is_empty() {
            self.note_moved_bytes(input, others, output);
        }
        self.draft.operators.push(DraftOperator {
            name,
            input,
            others: others.to_vec(),
            output,
            weights: computation.weights,
            kind: computation.kind,
        });
        Ok(output)
    }

    /// The shape of what an operator makes of these tensors.
    pub(super) fn result(
        &self,
        computation: &Computation,
        input: TensorId,
        others: &[TensorId],
    ) -> Result<Tensor, Problem> {
        let others: Vec<Tensor> = others.iter().map(|&other| self.shape(other)).collect();
        let lengths = computation.weights.iter().map(|list| list.len() as u32);
        let of = Operands {
            input: self.shape(input),
            others: &others,
            weights: &lengths.collect::<Vec<_>>(),
        };
        Ok(computation.kind.output_shape(&of)?)
    }
}

/// The first input, with the dimensions that the file declares.
fn seen(graph: &Graph, input: &Input) -> View {
    let shape = input.spec.tensor();
    let image = View::image(TensorId(0), shape);
    match graph.input_dims[..] {
        _ if graph.tokens => image.tokens_of_channel(0),
        [_] | [_, _] => {
            let mut features = View::features(TensorId(0), shape);
            features.dims.truncate(graph.input_dims.len());
            features
        }
        [_, _, _] => View::series(TensorId(0), shape),
        [_, _, _, _] if input.origin.channels_last => image.permute(&[0, 2, 3, 1]),
        [_, _, _, _] => image,
        [_, ref outer @ .., _, _] => {
            let sides = [shape.height, shape.width].map(|side| Dim::Known(side.into()));
            let outer = outer.iter().map(|size| Dim::Known(size.unwrap_or(1)));
            let sizes = [Dim::Batches(1)].into_iter().chain(outer).chain(sides);
            let sizes: Vec<Dim> = sizes.collect();
            image.reshape(&sizes, None).unwrap_or(image)
        }
        [] => image,
    }
}

/// A further input, with the dimensions that the file declares; without the batch if it declares none.
fn vector_seen(vector: &Vector, tensor: TensorId, shape: Tensor) -> View {
    let flat = View::features(tensor, shape);
    let known = vector.dims.iter().map(|&size| Dim::Known(size));
    let sizes: Vec<Dim> = [Dim::Batches(1)].into_iter().chain(known).collect();
    let mut view = flat.reshape(&sizes, None).unwrap_or(flat);
    let Some(batch) = vector.batch else {
        view.dims.remove(0);
        return view;
    };
    let mut order: Vec<usize> = (1..view.dims.len()).collect();
    order.insert(batch.min(order.len()), 0);
    view.permute(&order)
}
