//! A stage of a compiled network as an ONNX file again: for engines that run nothing else, and to
//! compare them with ours on the same fused network.
//!
//! Tensors keep their four dimensions (batch, channels, rows, columns), a vector of features being an
//! image of one pixel; tensor `i` is called `t{i}`. The batch size is left open, unless one is asked for.

use std::collections::BTreeSet;

use prost::Message;
use punctual_model::{
    Exit, Network, Operator, Stage, Tensor, TensorId, WeightRange, with_operator,
};
use punctual_types::Activation;
use thiserror::Error;

use crate::schema::attribute::{bytes, float, int, text};
use crate::schema::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto, data_type,
};

/// The operator set that is written: the first with hard-swish, and what PyTorch exports.
const OPSET: i64 = 17;
/// The file format's version that goes with it.
const IR_VERSION: i64 = 8;

/// An operator that is not written as ONNX.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operator `{operator}` cannot be written as ONNX yet: run this network on the CPU device")]
pub struct WriteError {
    pub operator: String,
}

impl WriteError {
    fn of(operator: &Operator) -> Self {
        let operator = operator.name.clone();
        Self { operator }
    }
}

/// How an operator of ours is written as ONNX: next to the code that reads it, in `lower`.
pub(crate) trait Written {
    /// False where it is not: this operator set may have nothing like it.
    fn write(&self, _writer: &mut Writer<'_>, _operator: &Operator) -> bool {
        false
    }

    /// Whether it reduces what an exit gives back, and may run behind the file.
    fn runs_behind(&self) -> bool {
        false
    }
}

/// A stage as an ONNX file, and what it does besides.
pub struct StageFile<'n> {
    /// Its inputs are the stage's; its outputs what the stage carries over, what its exit reads, and what
    /// [`read_behind`](Self::read_behind) names, as far as it makes them.
    pub onnx: Vec<u8>,
    /// Reductions that ONNX has no operators for, and what follows from them, in order of execution: to be run with the
    /// file's results.
    pub behind: Vec<&'n Operator>,
}

impl StageFile<'_> {
    /// What the operators behind the file read of its outputs and of the stage's inputs. Each once.
    #[must_use]
    pub fn read_behind(&self) -> Vec<TensorId> {
        read_behind(&self.behind)
    }
}

/// The name of a tensor in the files that [`stage_to_onnx`] writes.
#[must_use]
pub fn tensor_name(tensor: TensorId) -> String {
    format!("t{}", tensor.0)
}

/// One stage as an ONNX file.
///
/// # Errors
/// The first operator that has no place in the file or behind it.
///
/// # Panics
/// If the network is not valid or has no such stage.
pub fn stage_to_onnx(network: &Network, stage: usize) -> Result<StageFile<'_>, WriteError> {
    write(network, stage, None)
}

/// The same for batches of this size only: engines choose by it.
///
/// # Errors
/// As [`stage_to_onnx`].
///
/// # Panics
/// As [`stage_to_onnx`].
pub fn batch_to_onnx(
    network: &Network,
    stage: usize,
    batch: u8,
) -> Result<StageFile<'_>, WriteError> {
    write(network, stage, Some(i64::from(batch)))
}

/// The same as one node, `EPContext`, that holds an engine which TensorRT built from the file of
/// [`batch_to_onnx`]: its tensors have the same names.
///
/// # Errors
/// As [`stage_to_onnx`].
///
/// # Panics
/// As [`stage_to_onnx`].
pub fn engine_to_onnx(
    network: &Network,
    stage: usize,
    batch: u8,
    engine: Vec<u8>,
) -> Result<Vec<u8>, WriteError> {
    /// Where the library has the operator, and in which version.
    const DOMAIN: (&str, i64) = ("com.microsoft", 1);
    let file = batch_to_onnx(network, stage, batch)?;
    let mut model = ModelProto::decode(&*file.onnx).expect("what was just written");
    let graph = model.graph.as_mut().expect("what was just written");
    let names = |of: &[ValueInfoProto]| of.iter().filter_map(|v| v.name.clone()).collect();
    graph.initializer.clear();
    graph.node = vec![NodeProto {
        input: names(&graph.input),
        output: names(&graph.output),
        op_type: Some("EPContext".to_owned()),
        domain: Some(DOMAIN.0.to_owned()),
        attribute: vec![
            int("main_context", 1),
            int("embed_mode", 1),
            bytes("ep_cache_context", engine),
            text("source", "TensorrtExecutionProvider"),
        ],
        ..NodeProto::default()
    }];
    model.opset_import.push(OperatorSetIdProto {
        domain: Some(DOMAIN.0.to_owned()),
        version: Some(DOMAIN.1),
    });
    Ok(model.encode_to_vec())
}

fn write(network: &Network, stage: usize, batch: Option<i64>) -> Result<StageFile<'_>, WriteError> {
    let stage = &network.stages[stage];
    let mut writer = Writer {
        network,
        graph: GraphProto::default(),
        names: 0,
    };
    let mut behind: Vec<&Operator> = Vec::new();
    for operator in &stage.operators {
        let reduces = with_operator!(&operator.kind, kind => kind.runs_behind());
        let follows = operator.reads().any(|read| makes(&behind, read));
        let is_floats = network.quantisation(operator.output).is_none();
        if is_floats && (reduces || follows) {
            behind.push(operator);
        } else if !with_operator!(&operator.kind, kind => kind.write(&mut writer, operator)) {
            return Err(WriteError::of(operator));
        }
    }
    let mut graph = writer.graph;
    if graph.node.is_empty() {
        return Err(WriteError::of(&stage.operators[0]));
    }
    let inputs = stage.inputs.iter();
    let declared = |id| declared(network, id, batch);
    graph.input = inputs.map(|&id| declared(id)).collect();
    let results = results(stage, &behind).into_iter();
    graph.output = results.map(declared).collect();
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: Some(String::new()),
            version: Some(OPSET),
        }],
        functions: Vec::new(),
    };
    let onnx = model.encode_to_vec();
    Ok(StageFile { onnx, behind })
}

/// What a stage's file leaves behind: what the stage carries over, then what else is read of it. Each once.
fn results(stage: &Stage, behind: &[&Operator]) -> Vec<TensorId> {
    let read = stage.exit.iter().flat_map(Exit::reads);
    let read = read.chain(read_behind(behind));
    let all = stage.outputs.iter().copied().chain(read);
    once(all.filter(|&tensor| !stage.inputs.contains(&tensor) && !makes(behind, tensor)))
}

fn read_behind(behind: &[&Operator]) -> Vec<TensorId> {
    let reads = behind.iter().flat_map(|operator| operator.reads());
    once(reads.filter(|&read| !makes(behind, read)))
}

fn makes(operators: &[&Operator], tensor: TensorId) -> bool {
    operators.iter().any(|operator| operator.output == tensor)
}

/// Those tensors without repetitions, in their order.
fn once(tensors: impl Iterator<Item = TensorId>) -> Vec<TensorId> {
    let mut seen = BTreeSet::new();
    tensors.filter(|&tensor| seen.insert(tensor)).collect()
}

fn declared(network: &Network, id: TensorId, batch: Option<i64>) -> ValueInfoProto {
    let shape = network.tensors[id.index()];
    let sides = shape.sides().map(|side| Some(i64::from(side)));
    let dims = [batch].into_iter().chain(sides);
    ValueInfoProto::tensor(&tensor_name(id), data_type::FLOAT, dims)
}

pub(crate) struct Writer<'n> {
    network: &'n Network,
    graph: GraphProto,
    /// Values in between that have got a name.
    names: u32,
}

impl Writer<'_> {
    pub fn shape(&self, tensor: TensorId) -> Tensor {
        self.network.tensors[tensor.index()]
    }

    /// Channels, rows, columns.
    pub fn sides(&self, tensor: TensorId) -> [i64; 3] {
        self.shape(tensor).sides().map(i64::from)
    }

    /// As [`node_into`](Self::node_into), with the nodes that an activation takes.
    pub fn activate(&mut self, activation: Activation, input: &str, output: TensorId) -> bool {
        let name = match activation {
            Activation::None => "Identity",
            Activation::Relu => "Relu",
            Activation::Sigmoid => "Sigmoid",
            Activation::HardSwish => "HardSwish",
            Activation::Tanh => "Tanh",
            Activation::Softplus => "Softplus",
            Activation::Softsign => "Softsign",
            Activation::LeakyRelu { slope } => {
                return self.node_into("LeakyRelu", &[input], output, vec![float("alpha", slope)]);
            }
            Activation::Elu { above, below, rate } => {
                return self.elu([above, below, rate], input, output);
            }
            Activation::Mish => {
                let soft = self.node("Softplus", &[input], Vec::new());
                let gate = self.node("Tanh", &[&soft], Vec::new());
                return self.node_into("Mul", &[input, &gate], output, Vec::new());
            }
            Activation::TanhGelu => return self.tanh_gelu(input, output),
            Activation::Clip { low, high } => {
                let (low, high) = (self.scalar(low), self.scalar(high));
                return self.node_into("Clip", &[input, &low, &high], output, Vec::new());
            }
            Activation::HardSigmoid => {
                let attributes = vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)];
                return self.node_into("HardSigmoid", &[input], output, attributes);
            }
            Activation::Silu => {
                let gate = self.node("Sigmoid", &[input], Vec::new());
                return self.node_into("Mul", &[input, &gate], output, Vec::new());
            }
            Activation::Gelu => {
                let root = self.scalar(std::f32::consts::FRAC_1_SQRT_2);
                let (one, half) = (self.scalar(1.0), self.scalar(0.5));
                let scaled = self.node("Mul", &[input, &root], Vec::new());
                let erf = self.node("Erf", &[&scaled], Vec::new());
                let above = self.node("Add", &[&erf, &one], Vec::new());
                let product = self.node("Mul", &[input, &above], Vec::new());
                return self.node_into("Mul", &[&product, &half], output, Vec::new());
            }
        };
        self.node_into(name, &[input], output, Vec::new())
    }

    fn elu(&mut self, [above, below, rate]: [f32; 3], input: &str, output: TensorId) -> bool {
        let (above, below, rate) = (self.scalar(above), self.scalar(below), self.scalar(rate));
        let positive = self.node("Relu", &[input], Vec::new());
        let positive = self.node("Mul", &[&positive, &above], Vec::new());
        let turned = self.node("Neg", &[input], Vec::new());
        let turned = self.node("Relu", &[&turned], Vec::new());
        let negative = self.node("Neg", &[&turned], Vec::new());
        let negative = self.node("Mul", &[&negative, &rate], Vec::new());
        let negative = self.node("Elu", &[&negative], Vec::new());
        let negative = self.node("Mul", &[&negative, &below], Vec::new());
        self.node_into("Add", &[&positive, &negative], output, Vec::new())
    }

    fn tanh_gelu(&mut self, input: &str, output: TensorId) -> bool {
        let root = self.scalar((2.0 / std::f32::consts::PI).sqrt());
        let (cubes, one, half) = (self.scalar(0.044_715), self.scalar(1.0), self.scalar(0.5));
        let square = self.node("Mul", &[input, input], Vec::new());
        let cube = self.node("Mul", &[&square, input], Vec::new());
        let cube = self.node("Mul", &[&cube, &cubes], Vec::new());
        let sum = self.node("Add", &[input, &cube], Vec::new());
        let sum = self.node("Mul", &[&sum, &root], Vec::new());
        let tanh = self.node("Tanh", &[&sum], Vec::new());
        let above = self.node("Add", &[&tanh, &one], Vec::new());
        let product = self.node("Mul", &[input, &above], Vec::new());
        self.node_into("Mul", &[&product, &half], output, Vec::new())
    }

    /// Adds a node and gives its result a name.
    pub fn node(&mut self, kind: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = self.name();
        self.push(kind, inputs, &output, attributes);
        output
    }

    /// Adds the node that computes a tensor of the network: true, as its operator is written then.
    pub fn node_into(
        &mut self,
        kind: &str,
        inputs: &[&str],
        output: TensorId,
        attributes: Vec<AttributeProto>,
    ) -> bool {
        self.push(kind, inputs, &tensor_name(output), attributes);
        true
    }

    fn push(&mut self, kind: &str, inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) {
        let name = format!("{kind}_{}", self.graph.node.len());
        let node = NodeProto::of(kind, &name, inputs, &[output], attributes);
        self.graph.node.push(node);
    }

    /// One more result of the node that was added last.
    pub fn second_result(&mut self) -> String {
        let name = self.name();
        let node = self.graph.node.last_mut().expect("a node was added");
        node.output.push(name.clone());
        name
    }

    pub fn cast(&mut self, values: &str, to: i32) -> String {
        self.node("Cast", &[values], vec![int("to", i64::from(to))])
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    pub fn weights(&mut self, range: WeightRange, dims: &[i64]) -> String {
        let values = &self.network.weights[range.start as usize..][..range.len as usize];
        self.floats(values, dims)
    }

    pub fn scalar(&mut self, value: f32) -> String {
        self.floats(&[value], &[])
    }

    pub fn floats(&mut self, values: &[f32], dims: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.initializer(data_type::FLOAT, dims, bytes.collect())
    }

    pub fn integer(&mut self, value: i64) -> String {
        self.initializer(data_type::INT64, &[], value.to_le_bytes().to_vec())
    }

    pub fn integers(&mut self, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.initializer(data_type::INT64, &[values.len() as i64], bytes.collect())
    }

    fn initializer(&mut self, kind: i32, dims: &[i64], bytes: Vec<u8>) -> String {
        let name = self.name();
        let tensor = TensorProto::raw(&name, kind, dims, bytes);
        self.graph.initializer.push(tensor);
        name
    }
}
