//! Graph → draft: each node becomes an operator with static shapes, a view of a tensor, or a
//! constant. The batch size is left out of all shapes.
//!
//! A further operator is one more line in [`Lowering::node`] and in [`SUPPORTED`], and one more
//! function in the module of its family.

mod attention;
mod convolution;
pub(crate) mod curves;
mod dense;
mod elementwise;
mod gaussian;
mod grid;
mod join;
mod mask;
mod numbers;
pub(crate) mod operands;
mod pooling;
mod products;
mod quantised;
mod resize;
mod tokens;
pub(crate) mod view_algebra;
mod views;

use std::collections::BTreeMap;
use std::rc::Rc;

use punctual_model::{
    DIMENSION_MAX, NAME_BYTES_MAX, OPERATORS_MAX, TENSOR_ELEMENTS_MAX, Tensor, TensorId,
    WEIGHTS_MAX,
};
use punctual_types::Activation;

use attention::Scores;
use gaussian::Gaussian;
use grid::Grid;
use view_algebra::View;

use crate::draft::{Draft, DraftKind, DraftOperator};
use crate::fold::{self, Dim, Dims};
use crate::graph::{Constant, Graph, Node, ValueId};
use crate::problem::Problem;
use crate::report::Note;

/// The operators that can be compiled. Those of [`fold::FOLDED`] that are not among the others
/// only compute with shapes.
pub(crate) const SUPPORTED: &[&str] = &[
    "Add",
    "And",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Conv",
    "DequantizeLinear",
    "Div",
    "Dropout",
    "Equal",
    "Erf",
    "Expand",
    "Flatten",
    "Gather",
    "Gelu",
    "Gemm",
    "GatherND",
    "GlobalAveragePool",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "IsNaN",
    "LayerNormalization",
    "MatMul",
    "Max",
    "MaxPool",
    "Mod",
    "Mul",
    "QuantizeLinear",
    "Range",
    "ReduceMean",
    "Relu",
    "Reshape",
    "Resize",
    "Shape",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tanh",
    "Transpose",
    "Unsqueeze",
    "Where",
];

/// Most runs of channels of all gathers of a draft together.
const CHANNEL_RUNS_MAX: usize = 1 << 20;

/// What a value of the graph is.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Not computed: the second result of an operator of which only the first is supported.
    Nothing,
    /// A tensor computed from the input.
    View(View),
    /// The softmax over a view's last dimension; supported only as an exit.
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
    Grid(Grid),
    /// On the way to a GELU.
    Gaussian(Gaussian),
    Constant(Rc<Constant>),
    Dims(Dims),
}

pub(crate) struct Lowering<'a> {
    graph: &'a Graph,
    /// One entry a value of the graph; `Nothing` until its node has been lowered.
    values: Vec<Value>,
    pub draft: Draft,
    /// Floats that the draft's operators hold. Several may have copies of one constant, so they
    /// can be more than the file has bytes.
    weights: usize,
    /// Runs of all gathers: a shuffle of many channels is as many runs, out of a few bytes.
    channel_runs: usize,
    pub notes: Vec<Note>,
    /// What a step of a constant is worth that is a whole number of steps everywhere.
    steps: BTreeMap<ValueId, Rc<[f32]>>,
    grid_elements: usize,
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
            values[vector.id.0] = Value::View(View::features(at, shape));
            tensors.push(shape);
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
            grid_elements: 0,
        }
    }

    pub fn value(&self, id: crate::graph::ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Lowers one node. Nodes must come in the graph's order.
    pub fn node(&mut self, node: &Node) -> Result<(), Problem> {
        if let Some(numbers) = self.numbers(node) {
            return self.set(node, numbers);
        }
        if let Some(dims) = self.fold(node)? {
            return self.set(node, Value::Dims(dims));
        }
        if let Some(value) = self.on_mask(node)? {
            return self.set(node, value);
        }
        if let Some(value) = self.on_grid(node)? {
            return self.set(node, value);
        }
        if let Some(value) = self.on_scores(node)? {
            return self.set(node, value);
        }
        if self.towards_gelu(node)? {
            return Ok(());
        }
        match node.operator.as_str() {
            "LayerNormalization" => self.layer_normalization(node),
            "Erf" => self.erf(node),
            "Gather" if self.looks_up(node) => self.embedding(node),
            "MatMul" if !matches!(self.operand(node, 1), Some(Value::Constant(_))) => {
                self.attend(node)
            }
            "Conv" => self.conv(node).map(|()| self.note_steps(node)),
            "BatchNormalization" => self.batch_normalization(node),
            "Relu" => self.relu(node),
            "Clip" => self.clip(node),
            "Add" => self.add(node),
            "MaxPool" => self.max_pool(node),
            "AveragePool" => self.average_pool(node),
            "GlobalAveragePool" => self.global_average_pool(node),
            "ReduceMean" => self.reduce_mean(node),
            "Resize" => self.resize(node),
            "Gemm" => self.gemm(node).map(|()| self.note_steps(node)),
            "MatMul" => self.mat_mul(node).map(|()| self.note_steps(node)),
            "Flatten" => self.flatten(node),
            "Reshape" => self.reshape(node),
            "Transpose" => self.transpose(node),
            "Squeeze" => self.squeeze(node),
            "Unsqueeze" => self.unsqueeze(node),
            "Slice" if self.reads_view(node) => self.slice(node),
            "Split" => self.split(node),
            "Gather" if self.reads_view(node) => self.gather(node),
            "Expand" => match self.constant_as_it_is(node) {
                Some(constant) => self.set(node, constant),
                None => self.expand(node),
            },
            "Identity" => self.identity(node),
            "Dropout" => self.dropout(node),
            "Constant" => self.constant(node),
            "Softmax" => self.softmax(node),
            "Concat" if self.join_tokens(node)? => Ok(()),
            "Concat" if self.reads_view(node) => self.concat(node),
            "Mul" => match self.scale_heads(node) {
                Some(scaled) => self.set(node, scaled),
                None => self.mul(node),
            },
            "Div" => self.div(node),
            "Sub" => self.sub(node),
            "Sigmoid" => self.curve(node, Activation::Sigmoid),
            "Tanh" => self.curve(node, Activation::Tanh),
            "HardSwish" => self.curve(node, Activation::HardSwish),
            "HardSigmoid" => self.hard_sigmoid(node),
            "Gelu" => self.gelu(node),
            "QuantizeLinear" => self.quantize_linear(node),
            "DequantizeLinear" => self.dequantize_linear(node),
            operator if SUPPORTED.contains(&operator) => {
                // One of the shape operators, on something that is no shape.
                Err(Problem::ShapeArithmetic {
                    reason: "its operands are no shapes known when compiling",
                })
            }
            _ => Err(Problem::UnknownOperator),
        }
    }

    /// The result of a node that only computes with shapes; `None` for any other node.
    fn fold(&self, node: &Node) -> Result<Option<Dims>, Problem> {
        let operator = node.operator.as_str();
        if !fold::FOLDED.contains(&operator) {
            return Ok(None);
        }
        // Positions have a meaning, so an operand that is left out must not let others move up.
        let operands = node
            .inputs
            .iter()
            .map(|id| self.dims((*id)?, operator == "Shape"));
        match operands.collect::<Option<Vec<Dims>>>() {
            Some(operands) => fold::fold(node, &operands, self.graph.opset).map(Some),
            None => Ok(None),
        }
    }

    /// The value as a shape; with `of_tensor` the shape of a tensor.
    fn dims(&self, id: crate::graph::ValueId, of_tensor: bool) -> Option<Dims> {
        match self.value(id) {
            Value::Dims(dims) if !of_tensor => Some(dims.clone()),
            Value::Dims(dims) => Some(Dims {
                scalar: false,
                elements: match dims.scalar {
                    true => vec![],
                    false => vec![Dim::Known(dims.elements.len() as i64)],
                },
            }),
            Value::Constant(constant) if !of_tensor => operands::integers(constant),
            Value::View(view) | Value::Counts(view) if of_tensor => Some(Dims {
                scalar: false,
                elements: view.sizes(),
            }),
            Value::Grid(grid) if of_tensor => Some(Dims {
                scalar: false,
                elements: grid.sizes.clone(),
            }),
            _ => None,
        }
    }

    fn looks_up(&self, node: &Node) -> bool {
        let view = |at| matches!(self.operand(node, at), Some(Value::View(_)));
        view(1) && !view(0)
    }

    fn reads_view(&self, node: &Node) -> bool {
        matches!(self.operand(node, 0), Some(Value::View(_)))
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

    /// Makes (N, channels, rows, columns) of `tensor` the node's first result.
    fn set_image(&mut self, node: &Node, tensor: TensorId) -> Result<(), Problem> {
        let view = View::image(tensor, self.shape(tensor));
        self.set(node, Value::View(view))
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
        kind: DraftKind,
        input: TensorId,
        others: &[TensorId],
        shape: Tensor,
    ) -> Result<TensorId, Problem> {
        if self.draft.operators.len() == OPERATORS_MAX {
            return Err(Problem::Limit {
                what: "operators",
                limit: OPERATORS_MAX,
            });
        }
        self.weights = self.weights.saturating_add(kind.weights());
        if self.weights > WEIGHTS_MAX {
            return Err(Problem::Limit {
                what: "weights",
                limit: WEIGHTS_MAX,
            });
        }
        if let DraftKind::Gather { runs } = &kind {
            self.channel_runs += runs.len();
        }
        if self.channel_runs > CHANNEL_RUNS_MAX {
            return Err(Problem::Limit {
                what: "runs of channels that are joined, sliced or shuffled",
                limit: CHANNEL_RUNS_MAX,
            });
        }
        if let Some(value) = kind.not_finite() {
            return Err(Problem::NotFinite { value });
        }
        let mut sides = [shape.channels, shape.height, shape.width].into_iter();
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
            kind,
        });
        Ok(output)
    }
}
