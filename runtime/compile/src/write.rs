//! A stage of a compiled network as an ONNX file again: for engines that run nothing else, and to
//! compare them with ours on the same fused network.
//!
//! Tensors keep their four dimensions (batch, channels, rows, columns), a vector of features being an
//! image of one pixel; tensor `i` is called `t{i}`. The batch size is left open.

use prost::Message;
use punctual_model::{
    Binary, ChannelRun, Conv2d, Exit, GridSample, Network, Operator, OperatorKind, Pool, Softmax,
    Stage, TensorId, TopK, WeightRange,
};
use punctual_types::{
    Activation, Axis, BinaryFunction, Coordinates, Extent, Filter, Interpolation, Outside, Padding,
    Piece, PoolKind, Resampling, Rounding, UnaryFunction, View, Window,
};
use thiserror::Error;

use crate::schema::attribute::{float, int, ints, text};
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

/// The name of a tensor in the files that [`stage_to_onnx`] writes.
#[must_use]
pub fn tensor_name(tensor: TensorId) -> String {
    format!("t{}", tensor.0)
}

/// One stage as an ONNX file: its inputs and outputs are the stage's, the class scores come last.
///
/// # Panics
/// If the network is not valid or has no such stage.
pub fn stage_to_onnx(network: &Network, stage: usize) -> Result<Vec<u8>, WriteError> {
    let stage = &network.stages[stage];
    let mut writer = Writer {
        network,
        graph: GraphProto::default(),
        names: 0,
    };
    for operator in &stage.operators {
        writer.operator(operator)?;
    }
    let mut graph = writer.graph;
    graph.input = stage
        .inputs
        .iter()
        .map(|&id| declared(network, id))
        .collect();
    graph.output = results(stage).map(|id| declared(network, id)).collect();
    let model = ModelProto {
        ir_version: Some(IR_VERSION),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: Some(String::new()),
            version: Some(OPSET),
        }],
        functions: Vec::new(),
    };
    Ok(model.encode_to_vec())
}

/// What a stage leaves behind: what it carries over, then what else its exit reads of it. Each once.
fn results(stage: &Stage) -> impl Iterator<Item = TensorId> + '_ {
    let mut results = stage.outputs.clone();
    for tensor in stage.exit.iter().flat_map(Exit::reads) {
        if !results.contains(&tensor) && !stage.inputs.contains(&tensor) {
            results.push(tensor);
        }
    }
    results.into_iter()
}

fn declared(network: &Network, id: TensorId) -> ValueInfoProto {
    let shape = network.tensors[id.index()];
    let sides = [shape.channels, shape.height, shape.width].map(|side| Some(i64::from(side)));
    let dims = [None].into_iter().chain(sides);
    ValueInfoProto::tensor(&tensor_name(id), data_type::FLOAT, dims)
}

struct Writer<'n> {
    network: &'n Network,
    graph: GraphProto,
    /// Values in between that have got a name.
    names: u32,
}

impl Writer<'_> {
    fn operator(&mut self, operator: &Operator) -> Result<(), WriteError> {
        let (input, output) = (tensor_name(operator.input), tensor_name(operator.output));
        match &operator.kind {
            OperatorKind::Conv2d(conv) => {
                let sum = self.conv(operator, conv, &input);
                let sum = match operator.others.first() {
                    Some(&residual) => {
                        self.node("Add", &[&sum, &tensor_name(residual)], Vec::new())
                    }
                    None => sum,
                };
                self.activate(conv.activation, &sum, &output);
            }
            OperatorKind::Pool(pool) => self.pool(operator, pool),
            OperatorKind::Linear(linear) => {
                let sum = self.linear(operator, &input);
                self.activate(linear.activation, &sum, &output);
            }
            OperatorKind::Gather(gather) => {
                let sources: Vec<TensorId> = operator.reads().collect();
                self.gather(&sources, &gather.runs, &output);
            }
            OperatorKind::Copy(copy) => self.copy(operator, &copy.pieces),
            OperatorKind::Binary(binary) => {
                let result = self.binary(operator, binary);
                self.activate(binary.activation, &result, &output);
            }
            OperatorKind::Unary(unary) => self.unary(unary.function, &input, &output),
            OperatorKind::Softmax(softmax) => self.softmax(operator, softmax),
            OperatorKind::Product(_) => self.product(operator),
            OperatorKind::Resize(resize) if self.resize(operator, &resize.resampling) => {}
            OperatorKind::GridSample(sample) => self.grid_sample(operator, sample),
            OperatorKind::TopK(top) if top.count == 1 || !top.ranking.last => {
                let found = self.top_k(&input, top);
                let to = vec![int("to", i64::from(data_type::FLOAT))];
                self.node_into("Cast", &[&found], &output, to);
            }
            OperatorKind::Take(take) => self.take(operator, take.axis),
            _ => {
                return Err(WriteError {
                    operator: operator.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Rows of matrices, (N, rows, first's columns, terms) and (N, rows, terms, channels).
    fn product(&mut self, operator: &Operator) {
        let matrices = || vec![ints("perm", vec![0, 2, 3, 1])];
        let (input, other) = (tensor_name(operator.input), tensor_name(operator.others[0]));
        let first = self.node("Transpose", &[&input], matrices());
        let second = self.node("Transpose", &[&other], matrices());
        let product = self.node("MatMul", &[&first, &second], Vec::new());
        let back = vec![ints("perm", vec![0, 3, 1, 2])];
        let output = tensor_name(operator.output);
        self.node_into("Transpose", &[&product], &output, back);
    }

    fn binary(&mut self, operator: &Operator, binary: &Binary) -> String {
        let input = tensor_name(operator.input);
        let second = match binary.constant {
            None => tensor_name(operator.others[0]),
            Some(shape) => {
                let dims = shape.sides().map(i64::from);
                self.weights(operator.weights[0], dims.to_vec())
            }
        };
        let (first, second) = match binary.swapped {
            false => (input.as_str(), second.as_str()),
            true => (second.as_str(), input.as_str()),
        };
        let function = binary.function;
        let operator = match function {
            BinaryFunction::Add => "Add",
            BinaryFunction::Subtract => "Sub",
            BinaryFunction::Multiply => "Mul",
            BinaryFunction::Divide => "Div",
            BinaryFunction::Minimum => "Min",
            BinaryFunction::Maximum => "Max",
            BinaryFunction::Power => "Pow",
            BinaryFunction::Slope => "PRelu",
            BinaryFunction::Equal => return self.truth("Equal", first, second),
            BinaryFunction::Less => return self.truth("Less", first, second),
            BinaryFunction::LessOrEqual => return self.truth("LessOrEqual", first, second),
            BinaryFunction::NotEqual => {
                let equal = self.node("Equal", &[first, second], Vec::new());
                let not = self.node("Not", &[&equal], Vec::new());
                return self.as_floats(&not);
            }
            BinaryFunction::KeepWhere | BinaryFunction::KeepUnless => {
                let to_bool = vec![int("to", i64::from(data_type::BOOL))];
                let chosen = self.node("Cast", &[second], to_bool);
                let zero = self.scalar(0.0);
                let sides = match function {
                    BinaryFunction::KeepWhere => [&chosen, first, &zero],
                    _ => [&chosen, &zero, first],
                };
                return self.node("Where", &sides, Vec::new());
            }
            BinaryFunction::Modulo => {
                // For floats ONNX only has the remainder with the sign of `a`.
                let rest = self.node("Mod", &[first, second], vec![int("fmod", 1)]);
                let more = self.node("Add", &[&rest, second], Vec::new());
                return self.node("Mod", &[&more, second], vec![int("fmod", 1)]);
            }
            BinaryFunction::Remainder => {
                return self.node("Mod", &[first, second], vec![int("fmod", 1)]);
            }
        };
        self.node(operator, &[first, second], Vec::new())
    }

    /// A comparison, as 1 and 0.
    fn truth(&mut self, operator: &str, first: &str, second: &str) -> String {
        let found = self.node(operator, &[first, second], Vec::new());
        self.as_floats(&found)
    }

    fn as_floats(&mut self, truths: &str) -> String {
        let to_float = vec![int("to", i64::from(data_type::FLOAT))];
        self.node("Cast", &[truths], to_float)
    }

    fn unary(&mut self, function: UnaryFunction, input: &str, output: &str) {
        let operator = match function {
            UnaryFunction::Absolute => "Abs",
            UnaryFunction::Exponential => "Exp",
            UnaryFunction::Reciprocal => "Reciprocal",
            UnaryFunction::SquareRoot => "Sqrt",
            UnaryFunction::Logarithm => "Log",
            UnaryFunction::Sign => "Sign",
            UnaryFunction::Floor => "Floor",
            UnaryFunction::Ceiling => "Ceil",
            UnaryFunction::Round => "Round",
            UnaryFunction::Truncate => {
                let size = self.node("Abs", &[input], Vec::new());
                let size = self.node("Floor", &[&size], Vec::new());
                let sign = self.node("Sign", &[input], Vec::new());
                self.node_into("Mul", &[&size, &sign], output, Vec::new());
                return;
            }
            UnaryFunction::Sine => "Sin",
            UnaryFunction::Cosine => "Cos",
            UnaryFunction::Tangent => "Tan",
            UnaryFunction::ArcSine => "Asin",
            UnaryFunction::ArcCosine => "Acos",
            UnaryFunction::ArcTangent => "Atan",
            UnaryFunction::HyperbolicSine => "Sinh",
            UnaryFunction::HyperbolicCosine => "Cosh",
            UnaryFunction::ArcHyperbolicSine => "Asinh",
            UnaryFunction::ArcHyperbolicCosine => "Acosh",
            UnaryFunction::ArcHyperbolicTangent => "Atanh",
            UnaryFunction::ErrorFunction => "Erf",
        };
        self.node_into(operator, &[input], output, Vec::new());
    }

    /// The axis cut in three, the digit in the middle.
    fn softmax(&mut self, operator: &Operator, softmax: &Softmax) {
        let &Softmax { digit, logarithm } = softmax;
        let (input, output) = (tensor_name(operator.input), tensor_name(operator.output));
        let sides = self.network.tensors[operator.input.index()].sides();
        let sides = sides.map(i64::from);
        let axis = digit.axis.index().unwrap_or(0);
        let (step, extent) = (i64::from(digit.step), i64::from(digit.extent));
        let digits = [sides[axis] / (step * extent), extent, step];
        let cut = [&[-1][..], &sides[..axis], &digits, &sides[axis + 1..]].concat();
        let cut = self.integers(&cut);
        let whole = self.integers(&[&[-1][..], &sides].concat());
        let cut = self.node("Reshape", &[&input, &cut], Vec::new());
        let operator = if logarithm { "LogSoftmax" } else { "Softmax" };
        let along = vec![int("axis", axis as i64 + 2)];
        let result = self.node(operator, &[&cut], along);
        self.node_into("Reshape", &[&result, &whole], &output, Vec::new());
    }

    fn conv(&mut self, operator: &Operator, conv: &Conv2d, input: &str) -> String {
        let &Conv2d { window, groups, .. } = conv;
        let channels = self.network.tensors[operator.input.index()].channels;
        let outputs = self.network.tensors[operator.output.index()].channels;
        let kernel = window.kernel;
        let dims = [outputs, channels / groups, kernel.height, kernel.width].map(i64::from);
        let weights = self.weights(operator.weights[0], dims.to_vec());
        let bias = self.weights(operator.weights[1], vec![i64::from(outputs)]);
        let mut attributes = window_attributes(&window);
        attributes.push(ints("dilations", extent(window.dilation)));
        attributes.push(int("group", i64::from(groups)));
        self.node("Conv", &[input, &weights, &bias], attributes)
    }

    fn pool(&mut self, operator: &Operator, pool: &Pool) {
        let (input, output) = (tensor_name(operator.input), tensor_name(operator.output));
        let image = self.network.tensors[operator.input.index()].extent();
        if pool.is_mean_of_all(image) {
            return self.node_into("GlobalAveragePool", &[&input], &output, Vec::new());
        }
        let mut attributes = window_attributes(&pool.window());
        let name = match pool.kind {
            PoolKind::Max => "MaxPool",
            PoolKind::Average { counts_padding } => {
                attributes.push(int("count_include_pad", i64::from(counts_padding)));
                "AveragePool"
            }
        };
        self.node_into(name, &[&input], &output, attributes);
    }

    /// By its sizes, where these say all; else by its scales. False if this operator set has no
    /// such coordinates.
    fn resize(&mut self, operator: &Operator, resampling: &Resampling) -> bool {
        let shape = self.network.tensors[operator.input.index()];
        let (from, to) = (shape.extent(), resampling.size);
        let ratio = |to: u32, from: u32| to as f32 / from as f32;
        let ratios = [ratio(to.height, from.height), ratio(to.width, from.width)];
        let by_size = resampling.scale == ratios;
        let coordinates = match resampling.coordinates {
            Coordinates::Asymmetric => "asymmetric",
            Coordinates::HalfPixel => "half_pixel",
            // The same, where the scale has nothing that the sizes have not.
            Coordinates::HalfPixelSymmetric if by_size => "half_pixel",
            Coordinates::HalfPixelSymmetric => return false,
            Coordinates::PytorchHalfPixel => "pytorch_half_pixel",
            Coordinates::AlignCorners => "align_corners",
        };
        let mut attributes = vec![text("coordinate_transformation_mode", coordinates)];
        match resampling.filter {
            Filter::Linear => attributes.push(text("mode", "linear")),
            Filter::Nearest(rounding) => {
                let rounding = match rounding {
                    Rounding::Floor => "floor",
                    Rounding::Ceil => "ceil",
                    Rounding::PreferFloor => "round_prefer_floor",
                    Rounding::PreferCeil => "round_prefer_ceil",
                };
                attributes.push(text("mode", "nearest"));
                attributes.push(text("nearest_mode", rounding));
            }
        }
        let (input, output) = (tensor_name(operator.input), tensor_name(operator.output));
        if by_size {
            let batch = self.node("Shape", &[&input], vec![int("end", 1)]);
            let rest = [shape.channels, to.height, to.width].map(i64::from);
            let rest = self.integers(&rest);
            let sizes = self.node("Concat", &[&batch, &rest], vec![int("axis", 0)]);
            self.node_into("Resize", &[&input, "", "", &sizes], &output, attributes);
        } else {
            let [down, along] = resampling.scale;
            let scales = [1.0, 1.0, down, along].map(f32::to_le_bytes).concat();
            let scales = self.initializer(data_type::FLOAT, vec![4], scales);
            self.node_into("Resize", &[&input, "", &scales], &output, attributes);
        }
        true
    }

    /// Groups become images of the batch.
    fn grid_sample(&mut self, operator: &Operator, sample: &GridSample) {
        let (grid, groups) = (operator.others[0], i64::from(sample.groups));
        let with = sample.sampling;
        let shape = |id: TensorId| self.network.tensors[id.index()].sides().map(i64::from);
        let [channels, height, width] = shape(operator.input);
        let [_, rows, columns] = shape(grid);
        let apart = self.integers(&[-1, channels / groups, height, width]);
        let positions = self.integers(&[-1, 2, rows, columns]);
        let together = self.integers(&[-1, channels, rows, columns]);
        let (input, grid) = (tensor_name(operator.input), tensor_name(grid));
        let input = self.node("Reshape", &[&input, &apart], Vec::new());
        let grid = self.node("Reshape", &[&grid, &positions], Vec::new());
        let grid = self.node("Transpose", &[&grid], vec![ints("perm", vec![0, 2, 3, 1])]);
        let mode = match with.interpolation {
            Interpolation::Nearest => "nearest",
            Interpolation::Linear => "bilinear",
        };
        let padding = match with.outside {
            Outside::Zeros => "zeros",
            Outside::Border => "border",
            Outside::Reflection => "reflection",
        };
        let attributes = vec![
            int("align_corners", with.align_corners.into()),
            text("mode", mode),
            text("padding_mode", padding),
        ];
        let sampled = self.node("GridSample", &[&input, &grid], attributes);
        let output = tensor_name(operator.output);
        self.node_into("Reshape", &[&sampled, &together], &output, Vec::new());
    }

    /// The positions as integers. ONNX's `TopK` chooses the first of equal values.
    fn top_k(&mut self, input: &str, top: &TopK) -> String {
        let &TopK {
            axis,
            count,
            ranking,
        } = top;
        let axis = int("axis", axis.index().map_or(0, |axis| axis as i64 + 1));
        if count == 1 {
            let operator = if ranking.largest { "ArgMax" } else { "ArgMin" };
            let last = int("select_last_index", ranking.last.into());
            return self.node(operator, &[input], vec![axis, last]);
        }
        let count = self.integers(&[count.into()]);
        let (values, positions) = (self.name(), self.name());
        let attributes = vec![axis, int("largest", ranking.largest.into())];
        self.node_into("TopK", &[input, &count], &values, attributes);
        let node = self.graph.node.last_mut();
        node.expect("it was written").output.push(positions.clone());
        positions
    }

    /// Indices clipped to the axis and repeated to the output.
    fn take(&mut self, operator: &Operator, axis: Axis) {
        let indices = operator.others[0];
        let shape = |id: TensorId| self.network.tensors[id.index()].sides().map(i64::from);
        let along = axis.index().unwrap_or(0);
        let (size, sides) = (shape(operator.input)[along], shape(operator.output));
        let (input, indices) = (tensor_name(operator.input), tensor_name(indices));
        let to = vec![int("to", i64::from(data_type::INT64))];
        let whole = self.node("Cast", &[&indices], to);
        let [low, high] = [-size, size - 1].map(|bound| {
            self.initializer(data_type::INT64, Vec::new(), bound.to_le_bytes().to_vec())
        });
        let whole = self.node("Clip", &[&whole, &low, &high], Vec::new());
        let images = self.node("Shape", &[&input], vec![int("end", 1)]);
        let sides = self.integers(&sides);
        let sizes = self.node("Concat", &[&images, &sides], vec![int("axis", 0)]);
        let whole = self.node("Expand", &[&whole, &sizes], Vec::new());
        let output = tensor_name(operator.output);
        let axis = vec![int("axis", along as i64 + 1)];
        self.node_into("GatherElements", &[&input, &whole], &output, axis);
    }

    /// A matrix product, with the shape of an image of one pixel.
    fn linear(&mut self, operator: &Operator, input: &str) -> String {
        let &[weights, bias] = &operator.weights[..] else {
            unreachable!("a fully connected layer has weights and biases")
        };
        let features = i64::from(bias.len);
        let inputs = i64::from(weights.len) / features;
        let weights = self.weights(weights, vec![features, inputs]);
        let bias = self.weights(bias, vec![features]);
        let flat = self.node("Flatten", &[input], vec![int("axis", 1)]);
        let product = self.node("Gemm", &[&flat, &weights, &bias], vec![int("transB", 1)]);
        let axes = self.integers(&[2, 3]);
        self.node("Unsqueeze", &[&product, &axes], Vec::new())
    }

    fn gather(&mut self, sources: &[TensorId], runs: &[ChannelRun], output: &str) {
        let names: Vec<String> = sources.iter().map(|id| tensor_name(*id)).collect();
        let channels = |source: usize| self.network.tensors[sources[source].index()].channels;
        let whole = |(at, run): (usize, &ChannelRun)| {
            usize::from(run.source) == at && run.first == 0 && run.count == channels(at)
        };
        let concatenates = runs.len() == sources.len() && runs.iter().enumerate().all(whole);
        let starts: Vec<u32> = (0..sources.len())
            .map(|source| (0..source).map(channels).sum())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if concatenates {
            self.node_into("Concat", &names, output, vec![int("axis", 1)]);
            return;
        }
        let joined = if let [one] = names[..] {
            one.to_owned()
        } else {
            self.node("Concat", &names, vec![int("axis", 1)])
        };
        let indices = runs.iter().flat_map(|run| {
            let first = starts[usize::from(run.source)] + run.first;
            first..first + run.count
        });
        let indices: Vec<i64> = indices.map(i64::from).collect();
        let indices = self.integers(&indices);
        self.node_into("Gather", &[&joined, &indices], output, vec![int("axis", 1)]);
    }

    /// Each value by its position among those of all sources in a row.
    fn copy(&mut self, operator: &Operator, pieces: &[Piece]) {
        let output = operator.output;
        let mut rows = Vec::new();
        let mut starts = vec![(0, [0; 3])];
        for source in operator.reads() {
            let shape = self.network.tensors[source.index()];
            let name = tensor_name(source);
            rows.push(self.node("Flatten", &[&name], vec![int("axis", 1)]));
            starts.push((shape.elements() as i64, shape.sides()));
        }
        if let Some(&table) = operator.weights.first() {
            let first = rows[0].clone();
            let constants = self.weights(table, vec![1, i64::from(table.len)]);
            // As many rows as there are images.
            let images = self.node("Shape", &[&first], vec![int("start", 0), int("end", 1)]);
            let length = self.integers(&[i64::from(table.len)]);
            let shape = self.node("Concat", &[&images, &length], vec![int("axis", 0)]);
            rows.push(self.node("Expand", &[&constants, &shape], Vec::new()));
            starts.push((i64::from(table.len), [table.len, 1, 1]));
        }
        let names: Vec<&str> = rows.iter().map(String::as_str).collect();
        let joined = self.node("Concat", &names, vec![int("axis", 1)]);
        let shape = self.network.tensors[output.index()];
        let mut indices = vec![0_i64; shape.elements() as usize];
        let at = |[_, height, width]: [u32; 3], [channel, row, column]: [u32; 3]| {
            let [height, width, channel] = [height, width, channel].map(i64::from);
            (channel * height + i64::from(row)) * width + i64::from(column)
        };
        for piece in pieces {
            let source = usize::from(piece.source);
            let start: i64 = starts[..=source].iter().map(|(elements, _)| elements).sum();
            let mut filled = View::plain(piece.sizes);
            filled.start = piece.at;
            for (to, from) in filled.positions().zip(piece.view.positions()) {
                indices[at(shape.sides(), to) as usize] = start + at(starts[source + 1].1, from);
            }
        }
        let indices = self.integers(&indices);
        let picked = self.node("Gather", &[&joined, &indices], vec![int("axis", 1)]);
        let sides = shape.sides().map(i64::from);
        let sizes = self.integers(&[&[-1], &sides[..]].concat());
        self.node_into(
            "Reshape",
            &[&picked, &sizes],
            &tensor_name(output),
            Vec::new(),
        );
    }

    fn activate(&mut self, activation: Activation, input: &str, output: &str) {
        let plain = |writer: &mut Self, operator: &str| {
            writer.node_into(operator, &[input], output, Vec::new())
        };
        match activation {
            Activation::None => plain(self, "Identity"),
            Activation::Relu => plain(self, "Relu"),
            Activation::Sigmoid => plain(self, "Sigmoid"),
            Activation::HardSwish => plain(self, "HardSwish"),
            Activation::Tanh => plain(self, "Tanh"),
            Activation::Softplus => plain(self, "Softplus"),
            Activation::Softsign => plain(self, "Softsign"),
            Activation::LeakyRelu { slope } => {
                self.node_into("LeakyRelu", &[input], output, vec![float("alpha", slope)]);
            }
            Activation::Elu { above, below, rate } => self.elu([above, below, rate], input, output),
            Activation::Mish => {
                let soft = self.node("Softplus", &[input], Vec::new());
                let gate = self.node("Tanh", &[&soft], Vec::new());
                self.node_into("Mul", &[input, &gate], output, Vec::new());
            }
            Activation::TanhGelu => self.tanh_gelu(input, output),
            Activation::Clip { low, high } => {
                let (low, high) = (self.scalar(low), self.scalar(high));
                self.node_into("Clip", &[input, &low, &high], output, Vec::new());
            }
            Activation::HardSigmoid => {
                let attributes = vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)];
                self.node_into("HardSigmoid", &[input], output, attributes);
            }
            Activation::Silu => {
                let gate = self.node("Sigmoid", &[input], Vec::new());
                self.node_into("Mul", &[input, &gate], output, Vec::new());
            }
            Activation::Gelu => {
                let root = self.scalar(std::f32::consts::FRAC_1_SQRT_2);
                let (one, half) = (self.scalar(1.0), self.scalar(0.5));
                let scaled = self.node("Mul", &[input, &root], Vec::new());
                let erf = self.node("Erf", &[&scaled], Vec::new());
                let above = self.node("Add", &[&erf, &one], Vec::new());
                let product = self.node("Mul", &[input, &above], Vec::new());
                self.node_into("Mul", &[&product, &half], output, Vec::new());
            }
        }
    }

    fn elu(&mut self, [above, below, rate]: [f32; 3], input: &str, output: &str) {
        let (above, below, rate) = (self.scalar(above), self.scalar(below), self.scalar(rate));
        let positive = self.node("Relu", &[input], Vec::new());
        let positive = self.node("Mul", &[&positive, &above], Vec::new());
        let turned = self.node("Neg", &[input], Vec::new());
        let turned = self.node("Relu", &[&turned], Vec::new());
        let negative = self.node("Neg", &[&turned], Vec::new());
        let negative = self.node("Mul", &[&negative, &rate], Vec::new());
        let negative = self.node("Elu", &[&negative], Vec::new());
        let negative = self.node("Mul", &[&negative, &below], Vec::new());
        self.node_into("Add", &[&positive, &negative], output, Vec::new());
    }

    fn tanh_gelu(&mut self, input: &str, output: &str) {
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
        self.node_into("Mul", &[&product, &half], output, Vec::new());
    }

    /// Adds a node and gives its result a name.
    fn node(&mut self, operator: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = self.name();
        self.node_into(operator, inputs, &output, attributes);
        output
    }

    fn node_into(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attribute: Vec<AttributeProto>,
    ) {
        let name = format!("{operator}_{}", self.graph.node.len());
        let node = NodeProto::of(operator, &name, inputs, &[output], attribute);
        self.graph.node.push(node);
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn weights(&mut self, range: WeightRange, dims: Vec<i64>) -> String {
        let values = &self.network.weights[range.start as usize..][..range.len as usize];
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.initializer(data_type::FLOAT, dims, bytes)
    }

    fn scalar(&mut self, value: f32) -> String {
        self.initializer(data_type::FLOAT, Vec::new(), value.to_le_bytes().to_vec())
    }

    fn integers(&mut self, values: &[i64]) -> String {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.initializer(data_type::INT64, vec![values.len() as i64], bytes)
    }

    fn initializer(&mut self, kind: i32, dims: Vec<i64>, bytes: Vec<u8>) -> String {
        let name = self.name();
        let tensor = TensorProto::raw(&name, kind, &dims, bytes);
        self.graph.initializer.push(tensor);
        name
    }
}

fn window_attributes(window: &Window) -> Vec<AttributeProto> {
    let Padding {
        top,
        left,
        bottom,
        right,
    } = window.padding;
    vec![
        ints("kernel_shape", extent(window.kernel)),
        ints("strides", extent(window.stride)),
        ints("pads", [top, left, bottom, right].map(i64::from).to_vec()),
    ]
}

fn extent(extent: Extent) -> Vec<i64> {
    vec![i64::from(extent.height), i64::from(extent.width)]
}
