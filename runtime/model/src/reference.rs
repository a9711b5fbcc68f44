//! The reference interpreter: what a network means, in plain loops. It is the oracle that the compiler and the
//! devices are tested against; it shares no code with any device and is no way to run anything in earnest.
//!
//! Tensors are planar (channel, row, column), sums are made in f64; on bytes in integers.

pub mod agreement;
mod arithmetic;
mod computed;
mod detections;
mod noise;
mod quantised;
mod sequence;
mod windows;

use std::collections::BTreeMap;

use punctual_types::{Activation, Piece, PoolKind, Quantisation, View, Window};

use crate::{
    Network, Operator, OperatorKind, Output, SecondOperand, Stage, Tensor, TensorId, WeightRange,
};
use noise::Noise;
use windows::{Line, Planar, visit};

/// One image's tensors while a network runs: at first the input, between stages what is carried.
pub type Values = BTreeMap<TensorId, Vec<f32>>;

/// What an exit gives for one image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exited {
    /// The elements of each output, before they are converted to its type: of bytes the bytes.
    pub outputs: Vec<Vec<f32>>,
    /// One a class; empty if its answer has none.
    pub scores: Vec<f32>,
    /// The network's own.
    pub confidence: Option<f32>,
}

/// Runs all stages for one image and returns each stage's class scores: nothing where it has none.
///
/// # Panics
/// When the network is not valid, takes further inputs, or `image` (planar, normalised) has another size than its input.
#[must_use]
pub fn run(network: &Network, image: &[f32]) -> Vec<Vec<f32>> {
    let exits = run_all(network, &[image]).into_iter();
    exits.map(|exit| exit.unwrap_or_default().scores).collect()
}

/// Runs all stages for one image and its vectors: what each stage's exit gives.
///
/// # Panics
/// When the network is not valid or an input has another size than it takes.
#[must_use]
pub fn run_all(network: &Network, inputs: &[&[f32]]) -> Vec<Option<Exited>> {
    run_disturbed(network, inputs, None)
}

/// As [`run_all`], with noise in the results of all operators.
fn run_disturbed(
    network: &Network,
    inputs: &[&[f32]],
    noise: Option<Noise>,
) -> Vec<Option<Exited>> {
    let mut values = Values::new();
    assert_eq!(
        inputs.len(),
        1 + network.vectors.len(),
        "the inputs' number"
    );
    for (tensor, input) in network.input_tensors().zip(inputs) {
        let elements = network.tensors[tensor.index()].elements();
        assert_eq!(input.len() as u64, elements, "the input's size");
        let mut input = input.to_vec();
        if let Some(noise) = noise {
            noise.read(tensor, &mut input);
        }
        values.insert(tensor, input);
    }
    let stages = network.stages.iter();
    stages
        .map(|stage| run_stage_disturbed(network, stage, &mut values, noise))
        .collect()
}

/// Runs one stage for one image: reads its inputs from `values`, leaves its outputs there and
/// nothing else of its own, and returns what its exit gives, if it ends in one.
///
/// # Panics
/// When the network is not valid or an input is missing.
#[must_use]
pub fn run_stage(network: &Network, stage: &Stage, values: &mut Values) -> Option<Exited> {
    run_stage_disturbed(network, stage, values, None)
}

fn run_stage_disturbed(
    network: &Network,
    stage: &Stage,
    values: &mut Values,
    noise: Option<Noise>,
) -> Option<Exited> {
    let mut local: Values = stage
        .inputs
        .iter()
        .map(|id| (*id, values[id].clone()))
        .collect();
    let last_reads = last_reads(stage);
    for (at, operator) in stage.operators.iter().enumerate() {
        let operation = Operation {
            network,
            operator,
            values: &local,
        };
        let mut result = operation.run();
        if let Some(noise) = noise {
            noise.disturb(&operation, &mut result);
        }
        local.insert(operator.output, result);
        local.retain(|tensor, _| last_reads.get(tensor) != Some(&at));
    }
    for output in &stage.outputs {
        values.insert(*output, local[output].clone());
    }
    let exit = stage.exit.as_ref()?;
    let viewed = |output: &Output| {
        let shape = network.tensors[output.tensor.index()];
        let data = &local[&output.tensor];
        let at = |[channel, row, column]: [u32; 3]| {
            data[((channel * shape.height + row) * shape.width + column) as usize]
        };
        output.view.positions().map(at).collect()
    };
    Some(Exited {
        outputs: exit.outputs.iter().map(viewed).collect(),
        scores: exit
            .scores
            .map_or(vec![], |scores| local[&scores.tensor].clone()),
        confidence: exit.confidence.map(|tensor| local[&tensor][0]),
    })
}

/// The last operators that read tensors, by position; without what is needed after the stage's last operator.
fn last_reads(stage: &Stage) -> BTreeMap<TensorId, usize> {
    let operators = stage.operators.iter().enumerate();
    let mut last: BTreeMap<TensorId, usize> = operators
        .flat_map(|(at, operator)| operator.reads().map(move |tensor| (tensor, at)))
        .collect();
    let needed = stage.exit.iter().flat_map(|exit| exit.reads());
    for tensor in needed.chain(stage.outputs.iter().copied()) {
        last.remove(&tensor);
    }
    last
}

/// The softmax of `logits`: the class with the largest probability (the first of equals) and that probability.
///
/// # Panics
/// Without logits.
#[must_use]
pub fn classify(logits: &[f32]) -> (usize, f32) {
    let best = (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
    let largest = f64::from(logits[best]);
    let sum: f64 = logits
        .iter()
        .map(|&logit| (f64::from(logit) - largest).exp())
        .sum();
    (best, (1.0 / sum) as f32)
}

/// The mean of what is there.
const AVERAGE: PoolKind = PoolKind::Average {
    counts_padding: false,
};

/// An operator with the tensors and weights that it reads.
struct Operation<'a> {
    network: &'a Network,
    operator: &'a Operator,
    values: &'a Values,
}

impl<'a> Operation<'a> {
    fn planar(&self, id: TensorId) -> Planar<'a> {
        Planar {
            shape: self.network.tensors[id.index()],
            data: &self.values[&id],
        }
    }

    fn input(&self) -> Planar<'a> {
        self.planar(self.operator.input)
    }

    fn output(&self) -> Tensor {
        self.network.tensors[self.operator.output.index()]
    }

    fn weights(&self, range: WeightRange) -> &'a [f32] {
        &self.network.weights[range.start as usize..][..range.len as usize]
    }

    fn quantisation(&self, tensor: TensorId) -> Option<Quantisation> {
        self.network.quantisation(tensor)
    }

    /// The quantisations of input and output, if both are of bytes.
    fn quantisations(&self) -> Option<(Quantisation, Quantisation)> {
        let from = self.quantisation(self.operator.input);
        from.zip(self.quantisation(self.operator.output))
    }

    fn run(&self) -> Vec<f32> {
        match &self.operator.kind {
            OperatorKind::Conv2d { .. }
            | OperatorKind::QuantisedConv2d { .. }
            | OperatorKind::Linear { .. }
            | OperatorKind::Pool { .. }
            | OperatorKind::GlobalAveragePool
            | OperatorKind::Resize { .. } => self.weighted(),
            OperatorKind::Convert
            | OperatorKind::Add { .. }
            | OperatorKind::Multiply { .. }
            | OperatorKind::Binary { .. }
            | OperatorKind::Unary { .. }
            | OperatorKind::Softmax { .. } => self.elementwise(),
            OperatorKind::Gather { .. }
            | OperatorKind::Copy { .. }
            | OperatorKind::Token { .. }
            | OperatorKind::GridSample { .. }
            | OperatorKind::TopK { .. }
            | OperatorKind::Take { .. } => self.moved(),
            OperatorKind::LayerNorm { .. }
            | OperatorKind::Attention { .. }
            | OperatorKind::Product { .. }
            | OperatorKind::Embedding { .. }
            | OperatorKind::Tokens { .. }
            | OperatorKind::Recurrent { .. } => self.sequence(),
            OperatorKind::BestScore { .. } | OperatorKind::Detections { .. } => self.detected(),
        }
    }

    /// Convolutions, fully connected layers, pools and resizes.
    fn weighted(&self) -> Vec<f32> {
        let (input, output) = (self.input(), self.output());
        match &self.operator.kind {
            &OperatorKind::Conv2d {
                weights: kernels,
                bias,
                window,
                groups,
                residual,
                activation,
            } => {
                let residual = residual.map(|id| self.planar(id).data);
                let sums = convolve(
                    input,
                    output,
                    self.weights(kernels),
                    self.weights(bias),
                    groups,
                    window,
                );
                let sums = sums.into_iter().enumerate();
                sums.map(|(at, sum)| activation.of(sum + residual.map_or(0.0, |r| r[at])))
                    .collect()
            }
            &OperatorKind::QuantisedConv2d {
                weights: kernels,
                scales,
                bias,
                window,
                groups,
                activation,
            } => {
                let integers = &self.network.quantised.weights[kernels.start as usize..];
                let weights = quantised::Weights {
                    weights: &integers[..kernels.len as usize],
                    scales: self.weights(scales),
                    bias: self.weights(bias),
                    groups,
                };
                let from = self.quantisation(self.operator.input);
                let from = from.expect("it reads bytes");
                let to = self.quantisation(self.operator.output);
                quantised::convolve(input, from, &weights, window, output, to, activation)
            }
            &OperatorKind::Linear {
                weights: matrix,
                bias,
                activation,
            } => linear(
                input.data,
                self.weights(matrix),
                self.weights(bias),
                activation,
            ),
            &OperatorKind::Pool {
                kind,
                kernel,
                stride,
                padding,
            } => {
                let window = Window::new(kernel, stride, padding);
                match self.quantisations() {
                    Some((from, to)) => quantised::pool(input, from, kind, window, output, to),
                    None => pool(input, output, kind, window),
                }
            }
            OperatorKind::GlobalAveragePool => match self.quantisations() {
                Some((from, to)) => {
                    let (kind, window) = (AVERAGE, Window::whole(input.shape.extent()));
                    quantised::pool(input, from, kind, window, output, to)
                }
                None => global_average(input),
            },
            OperatorKind::Resize { resampling } => windows::resize(input, resampling),
            _ => unreachable!("`run` knows the families"),
        }
    }

    /// Functions of each value, and softmaxes.
    fn elementwise(&self) -> Vec<f32> {
        let (input, output) = (self.input(), self.output());
        match &self.operator.kind {
            OperatorKind::Convert => {
                let from = self.quantisation(self.operator.input);
                quantised::convert(input.data, from, self.quantisation(self.operator.output))
            }
            &OperatorKind::Add { other, activation } => {
                let (a, b) = (input.data, self.planar(other).data);
                match self.quantisations().zip(self.quantisation(other)) {
                    Some(((of_a, to), of_b)) => {
                        quantised::add((a, of_a), (b, of_b), to, activation)
                    }
                    None => add(a, b, activation),
                }
            }
            &OperatorKind::Multiply { other, activation } => {
                let factors = self.planar(other).data;
                // One factor a value, or one a channel.
                let each = input.data.len() / factors.len();
                let pairs = input.data.iter().enumerate();
                pairs
                    .map(|(at, a)| activation.of(a * factors[at / each]))
                    .collect()
            }
            &OperatorKind::Binary {
                function,
                second,
                swapped,
                activation,
            } => {
                let other = match second {
                    SecondOperand::Tensor(id) => self.planar(id),
                    SecondOperand::Constant { values, shape } => Planar {
                        shape,
                        data: self.weights(values),
                    },
                };
                let (a, b) = match swapped {
                    false => (input, other),
                    true => (other, input),
                };
                arithmetic::binary(a, b, output, |a, b| activation.of(function.of(a, b)))
            }
            &OperatorKind::Unary { function } => {
                input.data.iter().map(|x| function.of(*x)).collect()
            }
            &OperatorKind::Softmax { digit, logarithm } => {
                arithmetic::softmax(input, digit, logarithm)
            }
            _ => unreachable!("`run` knows the families"),
        }
    }

    /// Values at other places, and positions of values.
    fn moved(&self) -> Vec<f32> {
        let (input, output) = (self.input(), self.output());
        match &self.operator.kind {
            OperatorKind::Gather { others, runs } => {
                let plane = (output.height * output.width) as usize;
                let picked = runs.iter().flat_map(|run| {
                    let source = match run.source {
                        0 => self.operator.input,
                        source => others[usize::from(source) - 1],
                    };
                    self.planar(source).data[run.first as usize * plane..]
                        [..run.count as usize * plane]
                        .iter()
                });
                picked.copied().collect()
            }
            OperatorKind::Copy {
                others,
                table,
                pieces,
            } => {
                let table = table.map(|table| Planar {
                    shape: Tensor::features(table.len),
                    data: self.weights(table),
                });
                let sources = [input]
                    .into_iter()
                    .chain(others.iter().copied().map(|id| self.planar(id)));
                copy(&sources.chain(table).collect::<Vec<_>>(), output, pieces)
            }
            &OperatorKind::Token { column } => {
                let rows = input.data.chunks_exact(input.shape.width as usize);
                rows.map(|row| row[column as usize]).collect()
            }
            &OperatorKind::GridSample {
                grid,
                groups,
                sampling,
            } => computed::grid_sample(input, self.planar(grid), groups, sampling),
            &OperatorKind::TopK { axis, ranking, .. } => {
                computed::top_k(input, output, axis, ranking)
            }
            &OperatorKind::Take { indices, axis } => {
                computed::take(input, self.planar(indices), output, axis)
            }
            _ => unreachable!("`run` knows the families"),
        }
    }

    /// What a detector's places become.
    fn detected(&self) -> Vec<f32> {
        match &self.operator.kind {
            &OperatorKind::BestScore {
                objectness,
                scoring,
            } => {
                let objectness = objectness.map(|tensor| self.planar(tensor).data);
                detections::best_score(self.input(), objectness, scoring)
            }
            OperatorKind::Detections {
                others: [boxes, scores],
                scoring,
                decoder,
            } => {
                let places = detections::Places {
                    best: self.input().data,
                    boxes: self.planar(*boxes).data,
                    scores: self.planar(*scores).data,
                    scoring: *scoring,
                };
                places.detections(decoder)
            }
            _ => unreachable!("`run` knows the families"),
        }
    }

    /// Sequences of tokens.
    fn sequence(&self) -> Vec<f32> {
        let (input, output) = (self.input(), self.output());
        match &self.operator.kind {
            &OperatorKind::LayerNorm {
                scale,
                bias,
                epsilon,
            } => sequence::layer_norm(input.data, self.weights(scale), self.weights(bias), epsilon),
            OperatorKind::Attention {
                others,
                heads,
                scale,
                by_row,
                bias,
            } => {
                let operands = [input]
                    .into_iter()
                    .chain(others.iter().map(|id| self.planar(*id)));
                let operands: Vec<Planar> = operands.collect();
                let bias = bias.map(|bias| sequence::Bias {
                    values: self.weights(bias.values),
                    by_row: bias.by_row,
                    by_head: bias.by_head,
                });
                let heads = sequence::Heads {
                    count: *heads as usize,
                    scale: *scale,
                    bias,
                };
                sequence::attention(&operands, &heads, *by_row)
            }
            &OperatorKind::Product { other } => {
                sequence::product(input, self.planar(other), output)
            }
            &OperatorKind::Embedding { table } => {
                sequence::embedding(input.data, self.weights(table), output.channels as usize)
            }
            &OperatorKind::Tokens { prefix, table } => {
                sequence::tokens(input.data, self.weights(table), output, prefix as usize)
            }
            &OperatorKind::Recurrent {
                cell,
                weights: matrices,
                bias,
                initial,
                backwards,
            } => {
                let initial = initial.map(|id| self.planar(id).data);
                cell.run(
                    input.data,
                    self.weights(matrices),
                    self.weights(bias),
                    initial,
                    backwards,
                )
            }
            _ => unreachable!("`run` knows the families"),
        }
    }
}

fn convolve(
    input: Planar,
    output: Tensor,
    kernels: &[f32],
    bias: &[f32],
    groups: u32,
    window: Window,
) -> Vec<f32> {
    let inputs = (input.shape.channels / groups) as usize;
    let outputs = (output.channels / groups) as usize;
    let area = window.kernel.area();
    let mut result = Vec::with_capacity(output.elements() as usize);
    for channel in 0..output.channels as usize {
        let kernel = &kernels[channel * inputs * area..][..inputs * area];
        let first = channel / outputs * inputs;
        let mut sums = vec![f64::from(bias[channel]); (output.height * output.width) as usize];
        for (at, weight) in kernel.iter().enumerate() {
            let (weight, step) = (f64::from(*weight), window.stride.width as usize);
            for Line { from, to, count } in windows::lines(&window, at % area, input, output) {
                let values = &input.data[(first + at / area) * input.plane() + from..];
                let sums = sums[to..][..count].iter_mut();
                match step {
                    // The same, but the compiler makes vectors of it.
                    1 => sums
                        .zip(values)
                        .for_each(|(sum, v)| *sum += weight * f64::from(*v)),
                    _ => {
                        let values = values.iter().step_by(step);
                        sums.zip(values)
                            .for_each(|(sum, v)| *sum += weight * f64::from(*v));
                    }
                }
            }
        }
        result.extend(sums.into_iter().map(|sum| sum as f32));
    }
    result
}

fn pool(input: Planar, output: Tensor, kind: PoolKind, window: Window) -> Vec<f32> {
    let mut result = Vec::with_capacity(output.elements() as usize);
    let mut seen = Vec::new();
    for channel in 0..output.channels as usize {
        for row in 0..output.height as usize {
            for column in 0..output.width as usize {
                seen.clear();
                visit(&window, row, column, |_, y, x| {
                    seen.extend(input.at(channel, y, x))
                });
                result.push(match kind {
                    PoolKind::Max => seen.iter().copied().fold(f32::NEG_INFINITY, f32::max),
                    PoolKind::Average {
                        counts_padding: true,
                    } => (sum(&seen) / window.kernel.area() as f64) as f32,
                    PoolKind::Average { .. } => (sum(&seen) / seen.len() as f64) as f32,
                });
            }
        }
    }
    result
}

fn global_average(input: Planar) -> Vec<f32> {
    let pixels = (input.shape.height * input.shape.width) as usize;
    let planes = input.data.chunks_exact(pixels);
    planes
        .map(|plane| (sum(plane) / pixels as f64) as f32)
        .collect()
}

fn linear(input: &[f32], matrix: &[f32], bias: &[f32], activation: Activation) -> Vec<f32> {
    let rows = matrix.chunks_exact(input.len()).zip(bias);
    rows.map(|(row, &bias)| {
        let products = row.iter().zip(input);
        let sum: f64 = products.map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
        activation.of((sum + f64::from(bias)) as f32)
    })
    .collect()
}

fn add(a: &[f32], b: &[f32], activation: Activation) -> Vec<f32> {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| activation.of(a + b)).collect()
}

fn copy(sources: &[Planar], output: Tensor, pieces: &[Piece]) -> Vec<f32> {
    let at = |tensor: Tensor, [channel, row, column]: [u32; 3]| {
        let rows = u64::from(channel) * u64::from(tensor.height) + u64::from(row);
        (rows * u64::from(tensor.width) + u64::from(column)) as usize
    };
    let mut result = vec![0.0; output.elements() as usize];
    for piece in pieces {
        let source = &sources[usize::from(piece.source)];
        let mut filled = View::plain(piece.sizes);
        filled.start = piece.at;
        for (to, from) in filled.positions().zip(piece.view.positions()) {
            result[at(output, to)] = source.data[at(source.shape, from)];
        }
    }
    result
}

fn sum(values: &[f32]) -> f64 {
    values.iter().copied().map(f64::from).sum()
}
