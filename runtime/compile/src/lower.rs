//! Graph → draft: each node becomes an operator with static shapes, a view of a tensor, or a
//! constant. The batch size is left out of all shapes.
//!
//! A further operator is one more function in the module of its family, and one more row in that module's `OPERATORS`
//! ([`vocabulary`]).
//! How it becomes ONNX again stands there too: [`Written`](crate::write::Written).

/// A family's operators: name in ONNX => method of [`Lowering`], with what it needs to know besides the node.
mod arithmetic;
mod attention;
mod choices;
mod computed;
mod convolution;
mod copies;
pub(crate) mod curves;
mod dense;
mod elementwise;
mod join;
mod layout;
mod mask;
mod normalisation;
mod numbers;
pub(crate) mod operands;
mod padding;
mod pooling;
mod products;
mod quantised;
mod recurrent;
mod reduce;
pub(crate) mod reductions;
pub(crate) mod resize;
mod stacked;
mod tokens;
mod transposed;
pub(crate) mod view_algebra;
mod views;
pub(crate) mod vocabulary;

use std::collections::BTreeMap;
use std::rc::Rc;

use punctual_model::{
    DIMENSION_MAX, NAME_BYTES_MAX, OPERATORS_MAX, Operands, OperatorKind, TENSOR_ELEMENTS_MAX,
    Tensor, TensorId, WEIGHTS_MAX,
};
use punctual_types::Padding;

use attention::Scores;
use join::Joined;
use numbers::Numbers;
use view_algebra::View;
use vocabulary::{Makes, OnnxOperator};

use crate::draft::{Computation, Draft, DraftOperator};
use crate::fold::{self, Dim, Room};
use crate::graph::{Constant, Graph, Node, ValueId};
use crate::problem::Problem;
use crate::report::Note;

/// The operators of ONNX that can be compiled, by family.
const FAMILIES: &[&[OnnxOperator]] = &[
    arithmetic::OPERATORS,
    choices::OPERATORS,
    computed::OPERATORS,
    convolution::OPERATORS,
    copies::OPERATORS,
    curves::OPERATORS,
    dense::OPERATORS,
    elementwise::OPERATORS,
    fold::OPERATORS,
    join::OPERATORS,
    normalisation::OPERATORS,
    padding::OPERATORS,
    pooling::OPERATORS,
    products::OPERATORS,
    quantised::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    resize::OPERATORS,
    tokens::OPERATORS,
    transposed::OPERATORS,
    views::OPERATORS,
];

/// Most runs of channels of all gathers and pieces of all copies of a draft together.
const CHANNEL_RUNS_MAX: usize = 1 << 20;

/// What a value of the graph is.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Not computed: the second result of an operator of which only the first is supported.
    Nothing,
    /// What a node that cannot be lowered would compute.
    Unknown,
    /// A tensor computed from the input.
    View(View),
    /// The softmax of (N, features), not computed yet: before an exit it never is.
    Softmax(View),
    /// A view times a factor, on the way to an attention.
    Scaled(View, f32),
    /// Products on the way to an attention.
    Scores(Scores),
    /// Whether each token counts, from the input's mask.
    Counts(View),
    /// What is added to the products of an attention: nothing where a token counts, else so little
    /// that it has no weight. Without a view, nothing anywhere.
    Padding(Option<View>),
    /// Where weights are no numbers: nowhere.
    NoNumbers,
    /// Tensors of the same dimensions that are concatenated along the batch.
    Stacked(Vec<View>),
    /// Known when compiling, but for the batch.
    Constant(Rc<Constant>),
}

/// An image that consists of another one with zeros around it.
#[derive(Clone, Debug)]
struct Padded {
    seen: View,
    inner: View,
    padding: Padding,
}

impl Value {
    /// Its dimensions, if it is a tensor.
    fn sizes(&self) -> Option<Vec<Dim>> {
        match self {
            Self::View(view) | Self::Counts(view) | Self::Softmax(view) | Self::Scaled(view, _) => {
                Some(view.sizes())
            }
            Self::Stacked(batches) => {
                let mut sizes = batches.first()?.sizes();
                sizes[0] = Dim::Batches(batches.len() as i64);
                Some(sizes)
            }
            Self::Scores(scores) => Some(scores.sizes()),
            Self::Constant(constant) => Some(constant.sizes()),
            _ => None,
        }
    }
}

pub(crate) struct Lowering<'a> {
    graph: &'a Graph,
    /// One entry a value of the graph; `Nothing` until its node has been lowered.
    values: Vec<Value>,
    pub draft: Draft,
    /// Floats that the draft's operators hold. Several may have copies of one constant, so they
    /// can be more than the file has bytes.
    weights: usize,
    /// Runs of all gathers and pieces of all copies: a shuffle of many channels is as many runs, out of a few bytes.
    channel_runs: usize,
    pub notes: Vec<Note>,
    /// What a step of a constant is worth that is a whole number of steps everywhere.
    steps: BTreeMap<ValueId, Rc<[f32]>>,
    /// The tensors that were joined from others.
    joins: BTreeMap<TensorId, Joined>,
    /// What one layer of a tensor of stacked ones became.
    layers: BTreeMap<(TensorId, u64), TensorId>,
    /// What may still be computed of constants.
    room: Room,
    /// The values of each softmax that an operator has read.
    softmaxes: BTreeMap<ValueId, View>,
    /// The kind of numbers that each value of the graph has.
    numbers: Vec<Numbers>,
    /// Images that consist of another image with zeros around it.
    padded: BTreeMap<TensorId, Padded>,
    /// Nodes that read what is unknown.
    pub unchecked: usize,
}

impl<'a> Lowering<'a> {
    pub fn new(graph: &'a Graph, input: Tensor) -> Self {
        let mut values = vec![Value::Nothing; graph.values.len()];
        for (id, constant) in &graph.constants {
            values[id.0] = Value::Constant(Rc::clone(constant));
        }
        let image = View::image(TensorId(0), input);
        values[graph.input.0] = Value::View(match graph.input_dims.len() {
            _ if graph.tokens => image.tokens_of_channel(0),
            2 => View::features(TensorId(0), input),
            3 => View::series(TensorId(0), input),
            _ => image,
        });
        let mut tensors = vec![input];
        for (at, vector) in (1..).map(TensorId).zip(&graph.vectors) {
            let shape = Tensor::features(vector.length);
            let flat = View::features(at, shape);
            let known = vector.dims.iter().map(|&size| Dim::Known(size));
            let sizes: Vec<Dim> = [Dim::Batches(1)].into_iter().chain(known).collect();
            let view = flat.reshape(&sizes, None);
            values[vector.id.0] = Value::View(view.unwrap_or(flat));
            tensors.push(shape);
        }
        let mut numbers = vec![Numbers::Floats; graph.values.len()];
        if graph.tokens {
            let inputs = [graph.input].into_iter().chain(graph.mask);
            inputs.for_each(|input| numbers[input.0] = Numbers::Integers);
        }
        if let Some(mask) = graph.mask {
            let mask_channel = View::image(TensorId(0), input).tokens_of_channel(1);
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
            values,
            draft,
            weights: 0,
            channel_runs: 0,
            notes: Vec::new(),
            steps: BTreeMap::new(),
            joins: BTreeMap::new(),
            layers: BTreeMap::new(),
            softmaxes: BTreeMap::new(),
            numbers,
            padded: BTreeMap::new(),
            unchecked: 0,
            room: Room::of(graph.constants.values().map(|c| c.data.len()).sum()),
        }
    }

    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Lowers one node. Nodes must come in the graph's order.
    pub fn node(&mut self, node: &Node) -> Result<(), Problem> {
        if let Some(domain) = &node.domain {
            let domain = domain.clone();
            return Err(Problem::Domain { domain });
        }
        let operator = OnnxOperator::of(&node.operator);
        self.note_numbers(
            node,
            operator.map_or(Makes::First, |operator| operator.makes),
        );
        let mut operands = node.inputs.iter().flatten();
        if operands.any(|id| matches!(self.value(*id), Value::Unknown)) {
            if operator.is_none() {
                return Err(Problem::UnknownOperator);
            }
            self.unchecked += 1;
            self.stand_in(node);
            return Ok(());
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
        self.materialise_wide(node)?;
        if self.on_stacked(node)? {
            return Ok(());
        }
        self.compute_scaled(node)?;
        let softmaxes = self.compute_softmax(node)?;
        let done = self.computed(node);
        for (id, value) in softmaxes {
            self.values[id.0] = value;
        }
        done
    }

    /// Lowers a node that is not folded.
    fn computed(&mut self, node: &Node) -> Result<(), Problem> {
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
        if let Some(value) = self.on_scores(node)? {
            return self.set(node, value);
        }
        self.compute_scores(node)?;
        match OnnxOperator::of(&node.operator) {
            Some(OnnxOperator {
                lower: Some(lower), ..
            }) => lower(self, node),
            Some(_) => Err(self.not_constant(node)),
            None if node.operator == "NonMaxSuppression" => Err(Problem::Suppression),
            None => Err(Problem::UnknownOperator),
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
            return Ok(None);
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
        if node.outputs.first().copied().flatten().is_none() {
            return Err(Problem::MissingOutput);
        }
        let list: Vec<Option<&Constant>> = operands.iter().map(Option::as_deref).collect();
        let folded = fold::fold(rule, node, &list, &mut self.room);
        // In a file exported for a fixed batch size that size may be counted with, where it must.
        let fixed = self.graph.input_dims.first().copied().flatten();
        let must = match &folded {
            Ok(results) => results.iter().any(Constant::has_wide_batch),
            Err(problem) => matches!(problem, Problem::Folding { .. }),
        };
        let (true, Some(fixed)) = (must, fixed) else {
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
        let fixed = self.graph.input_dims.first().copied().flatten();
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
        if !fits || (batch.is_some() && *batch != fixed) || shape.elements() > TENSOR_ELEMENTS_MAX {
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

    /// Whether a constant matrix is applied to the last dimension of a tensor.
    fn is_dense(&self, node: &Node) -> bool {
        let is_matrix = |value: &Value| match value {
            Value::Constant(constant) => constant.dims.len() <= 2,
            _ => false,
        };
        self.operand(node, 1).is_some_and(is_matrix)
    }

    fn is_view(&self, node: &Node, at: usize) -> bool {
        matches!(self.operand(node, at), Some(Value::View(_)))
    }

    fn shape(&self, tensor: TensorId) -> Tensor {
        self.draft.tensors[tensor.index()]
    }

    /// Makes `value` the node's first result.
    fn set(&mut self, node: &Node, value: Value) -> Result<(), Problem> {
        let [Some(first), ..] = node.outputs[..] else {
            return Err(Problem::MissingOutput);
        };
        self.values[first.0] = value;
        Ok(())
    }

    /// Makes `tensor` the node's first result as (N, channels, rows, columns), or as (N, channels, columns) for a node
    /// that reads such a series.
    fn set_image(&mut self, node: &Node, tensor: TensorId) -> Result<(), Problem> {
        let shape = self.shape(tensor);
        let view = if self.is_series(node) {
            View::series(tensor, shape)
        } else {
            View::image(tensor, shape)
        };
        self.set(node, Value::View(view))
    }

    /// Whether a node reads a series, (N, channels, columns), so that its windows have one dimension.
    fn is_series(&self, node: &Node) -> bool {
        self.view(node, 0).is_ok_and(|view| view.dims.len() == 3)
    }

    /// Makes (N, features) of `tensor` the node's first result.
    fn set_features(&mut self, node: &Node, tensor: TensorId) -> Result<(), Problem> {
        let view = View::features(tensor, self.shape(tensor));
        self.set(node, Value::View(view))
    }

    /// Adds an operator and returns the tensor that it writes. Here every limit of a network is
    /// checked that one node can exceed, so that the error can name the node.
    fn emit(
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
    fn result(
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
