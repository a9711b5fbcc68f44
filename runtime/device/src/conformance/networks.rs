//! Small networks that use every operator, with seeded weights.

use std::collections::BTreeSet;

use punctual_model::{
    Activation, Extent, InputForm, InputSpec, Network, Operator, OperatorKind, Padding, PoolKind,
    Stage, Tensor, TensorId, WeightRange,
};

use crate::random::SplitMix64;

/// Three exits; every operator; odd channels; a tensor that skips a stage; the network's input
/// read again, by an operator that wants no planes, in the last stage.
#[must_use]
pub fn every_operator(seed: u64) -> Network {
    let mut b = Builder::new("every-operator", seed, 13, 11, 7);
    let image = b.input;
    let a = b.conv(image, 20, 3, 2, 1, None); // 7x6
    let depthwise = b.conv(a, 20, 3, 1, 20, Some(a));
    let pooled = b.pool(depthwise, PoolKind::Max, 3, 2, 1); // 4x3
    let mean = b.mean(pooled);
    b.head(mean);
    let grouped = b.conv(depthwise, 24, 1, 1, 4, None);
    let narrow = b.conv(grouped, 20, 3, 1, 1, None);
    let sum = b.add(narrow, depthwise);
    let mean = b.mean(sum);
    b.head(mean);
    let shrunk = b.pool(
        image,
        PoolKind::Average {
            counts_padding: false,
        },
        3,
        2,
        1,
    ); // 7x6, 3 channels
    let wide = b.conv(shrunk, 20, 5, 1, 1, Some(sum));
    let last = b.pool(wide, PoolKind::Max, 2, 2, 0); // 3x3
    let joined = b.conv(pooled, 20, 1, 1, 1, None); // 4x3
    let joined = b.mean(joined);
    let flat = b.linear(
        last,
        20,
        Activation::Clip {
            low: -1.0,
            high: 6.0,
        },
    );
    let both = b.add(flat, joined);
    b.head(both);
    b.finish()
}

/// Two exits of plain residual convolutions, large enough to be interrupted between operators.
#[must_use]
pub fn residual(seed: u64) -> Network {
    let mut b = Builder::new("residual", seed, 24, 24, 5);
    let image = b.input;
    let mut x = b.conv(image, 32, 3, 1, 1, None);
    for _ in 0..2 {
        for _ in 0..2 {
            let y = b.conv(x, 32, 3, 1, 1, None);
            x = b.conv(y, 32, 3, 1, 1, Some(x));
        }
        let mean = b.mean(x);
        b.head(mean);
    }
    b.finish()
}

/// An image for `network`, `[channel][row][column]`, with values like normalised pixels.
#[must_use]
pub fn image(network: &Network, seed: u64) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    let values = 3 * network.input.height * network.input.width;
    (0..values).map(|_| 2.0 * random.signed_unit()).collect()
}

struct Builder {
    name: &'static str,
    input: TensorId,
    classes: usize,
    size: (u32, u32),
    random: SplitMix64,
    tensors: Vec<Tensor>,
    weights: Vec<f32>,
    open: Vec<Operator>,
    stages: Vec<(Vec<Operator>, TensorId)>,
}

impl Builder {
    fn new(name: &'static str, seed: u64, height: u32, width: u32, classes: usize) -> Self {
        Self {
            name,
            input: TensorId(0),
            classes,
            size: (height, width),
            random: SplitMix64::new(seed),
            tensors: vec![Tensor {
                channels: 3,
                height,
                width,
            }],
            weights: Vec::new(),
            open: Vec::new(),
            stages: Vec::new(),
        }
    }

    fn shape(&self, tensor: TensorId) -> Tensor {
        self.tensors[tensor.0 as usize]
    }

    /// Uniform weights of a variance that keeps the scale of activations.
    fn draw(&mut self, len: u32, fan_in: u32) -> WeightRange {
        let start = self.weights.len() as u32;
        let scale = (3.0 / fan_in as f32).sqrt();
        for _ in 0..len {
            self.weights.push(self.random.signed_unit() * scale);
        }
        WeightRange { start, len }
    }

    fn push(&mut self, input: TensorId, kind: OperatorKind, shape: Tensor) -> TensorId {
        let output = TensorId(self.tensors.len() as u32);
        self.tensors.push(shape);
        self.open.push(Operator {
            name: format!("operator {}", output.0),
            input,
            output,
            kind,
        });
        output
    }

    /// A convolution padded by half its kernel.
    fn conv(
        &mut self,
        input: TensorId,
        channels: u32,
        kernel: u32,
        stride: u32,
        groups: u32,
        residual: Option<TensorId>,
    ) -> TensorId {
        let shape = self.shape(input);
        let fan_in = shape.channels / groups * kernel * kernel;
        let weights = self.draw(channels * fan_in, fan_in);
        let bias = self.draw(channels, 16);
        let steps = |size: u32| (size + 2 * (kernel / 2) - kernel) / stride + 1;
        let output = Tensor {
            channels,
            height: steps(shape.height),
            width: steps(shape.width),
        };
        let kind = OperatorKind::Conv2d {
            weights,
            bias,
            kernel: square(kernel),
            stride: square(stride),
            padding: around(kernel / 2),
            groups,
            residual,
            activation: Activation::Relu,
        };
        self.push(input, kind, output)
    }

    fn pool(
        &mut self,
        input: TensorId,
        kind: PoolKind,
        kernel: u32,
        stride: u32,
        padding: u32,
    ) -> TensorId {
        let shape = self.shape(input);
        let steps = |size: u32| (size + 2 * padding - kernel) / stride + 1;
        let output = Tensor {
            channels: shape.channels,
            height: steps(shape.height),
            width: steps(shape.width),
        };
        let kind = OperatorKind::Pool {
            kind,
            kernel: square(kernel),
            stride: square(stride),
            padding: around(padding),
        };
        self.push(input, kind, output)
    }

    fn mean(&mut self, input: TensorId) -> TensorId {
        let output = features(self.shape(input).channels);
        self.push(input, OperatorKind::GlobalAveragePool, output)
    }

    fn linear(&mut self, input: TensorId, outputs: u32, activation: Activation) -> TensorId {
        let shape = self.shape(input);
        let inputs = shape.channels * shape.height * shape.width;
        let weights = self.draw(outputs * inputs, inputs);
        let bias = self.draw(outputs, 16);
        let kind = OperatorKind::Linear {
            weights,
            bias,
            activation,
        };
        self.push(input, kind, features(outputs))
    }

    fn add(&mut self, input: TensorId, other: TensorId) -> TensorId {
        let output = self.shape(input);
        let kind = OperatorKind::Add {
            other,
            activation: Activation::None,
        };
        self.push(input, kind, output)
    }

    /// Ends a stage.
    fn head(&mut self, input: TensorId) {
        let logits = self.linear(input, self.classes as u32, Activation::None);
        self.stages.push((std::mem::take(&mut self.open), logits));
    }

    fn finish(self) -> Network {
        let reads = |operators: &[Operator]| -> BTreeSet<TensorId> {
            operators.iter().flat_map(Operator::reads).collect()
        };
        let writes = |operators: &[Operator]| -> BTreeSet<TensorId> {
            operators.iter().map(|operator| operator.output).collect()
        };
        let stages = self
            .stages
            .iter()
            .enumerate()
            .map(|(index, (operators, logits))| {
                let later: BTreeSet<TensorId> = self.stages[index + 1..]
                    .iter()
                    .flat_map(|(operators, _)| reads(operators))
                    .collect();
                let written = writes(operators);
                Stage {
                    inputs: reads(operators).difference(&written).copied().collect(),
                    outputs: written.intersection(&later).copied().collect(),
                    operators: operators.clone(),
                    logits: *logits,
                }
            });
        let network = Network {
            name: self.name.to_owned(),
            input: InputSpec {
                height: self.size.0,
                width: self.size.1,
                mean: [0.5; 3],
                std: [0.25; 3],
                form: InputForm::Image,
            },
            classes: (0..self.classes)
                .map(|class| format!("class {class}"))
                .collect(),
            stages: stages.collect(),
            tensors: self.tensors,
            weights: self.weights,
        };
        if let Err(error) = network.validate() {
            panic!("the network `{}` is invalid: {error}", network.name);
        }
        network
    }
}

fn features(channels: u32) -> Tensor {
    Tensor {
        channels,
        height: 1,
        width: 1,
    }
}

fn square(side: u32) -> Extent {
    Extent {
        height: side,
        width: side,
    }
}

fn around(pixels: u32) -> Padding {
    Padding {
        top: pixels,
        left: pixels,
        bottom: pixels,
        right: pixels,
    }
}
