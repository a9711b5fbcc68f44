//! Networks whose operators have weights in common.

use std::collections::BTreeSet;

use punctual_model::{
    AnswerKind, Attention, BiasForm, Binary, ChannelRun, Conv2d, Convert, Copy, Embedding, Exit,
    Gather, InputSpec, LayerNorm, Linear, Network, Operands, Operator, OperatorKind, Pool,
    Quantised, QuantisedConv2d, Resize, Stage, Tensor, TensorId, Tokens, WeightRange,
};
use punctual_types::{
    Activation, Axis, BinaryFunction, Coordinates, Digit, Extent, Filter, Padding, Piece, PoolKind,
    Quantisation, Random, Resampling, Rounding, View, Window,
};

/// Classes of all networks here.
const CLASSES: u32 = 5;

/// A network in the making. Its first tensor is a picture.
struct Maker {
    input: InputSpec,
    random: Random,
    tensors: Vec<Tensor>,
    weights: Vec<f32>,
    quantised: Quantised,
    open: Vec<Operator>,
    stages: Vec<(Vec<Operator>, Exit)>,
}

const IMAGE: TensorId = TensorId(0);

impl Maker {
    fn new(height: u32, width: u32) -> Self {
        let input = InputSpec::rgb(height, width, [0.5; 3], [0.25; 3]);
        Self {
            tensors: vec![input.tensor()],
            input,
            random: Random::new(17),
            weights: Vec::new(),
            quantised: Quantised::default(),
            open: Vec::new(),
            stages: Vec::new(),
        }
    }

    fn shape(&self, tensor: TensorId) -> Tensor {
        self.tensors[tensor.index()]
    }

    /// Weights that keep the scale of what is summed, `fan_in` values a sum.
    fn draw(&mut self, len: u32, fan_in: u32) -> WeightRange {
        let start = self.weights.len() as u32;
        let scale = (3.0 / fan_in as f32).sqrt();
        let values = (0..len).map(|_| self.random.signed_unit() * scale);
        self.weights.extend(values);
        WeightRange { start, len }
    }

    /// Weights of `outputs` sums of `terms` terms each, and their biases.
    fn layer(&mut self, outputs: u32, terms: u32) -> [WeightRange; 2] {
        [self.draw(outputs * terms, terms), self.draw(outputs, 16)]
    }

    fn push(
        &mut self,
        reads: &[TensorId],
        kind: impl Into<OperatorKind>,
        weights: &[WeightRange],
    ) -> TensorId {
        let output = TensorId(self.tensors.len() as u32);
        let name = format!("operator {}", output.0);
        let operator = Operator::new(name, reads, output, kind).with_weights(weights.to_vec());
        let others: Vec<Tensor> = operator.others.iter().map(|id| self.shape(*id)).collect();
        let lengths: Vec<u32> = weights.iter().map(|range| range.len).collect();
        let of = Operands {
            input: self.shape(operator.input),
            others: &others,
            weights: &lengths,
        };
        let shape = operator.kind.output_shape(&of).expect("the operands fit");
        self.tensors.push(shape);
        self.open.push(operator);
        output
    }

    /// Padded so that a stride of 1 keeps the size.
    fn conv(
        &mut self,
        input: TensorId,
        [height, width]: [u32; 2],
        groups: u32,
        weights: [WeightRange; 2],
    ) -> TensorId {
        let conv = Conv2d {
            window: same([height, width]),
            groups,
            activation: Activation::Relu,
        };
        self.push(&[input], conv, &weights)
    }

    /// The largest of windows of `side` x `side` that lie next to each other.
    fn largest(&mut self, input: TensorId, side: u32) -> TensorId {
        let pool = Pool {
            kind: PoolKind::Max,
            kernel: Extent::square(side),
            stride: Extent::square(side),
            padding: Padding::uniform(0),
        };
        let output = self.push(&[input], pool, &[]);
        if let Some(quantisation) = self.quantised.tensors.get(&input).copied() {
            self.keep(output, quantisation);
        }
        output
    }

    fn mean(&mut self, input: TensorId) -> TensorId {
        let mean = Pool::mean_of_all(self.shape(input).extent());
        self.push(&[input], mean, &[])
    }

    /// All channels of each.
    fn join(&mut self, sources: &[TensorId]) -> TensorId {
        let run = |(source, &id): (u8, &TensorId)| ChannelRun {
            source,
            first: 0,
            count: self.shape(id).channels,
        };
        let runs = (0..).zip(sources).map(run).collect();
        self.push(sources, Gather { runs }, &[])
    }

    /// The nearest pixels of another size.
    fn resized(&mut self, input: TensorId, [height, width]: [u32; 2]) -> TensorId {
        let shape = self.shape(input);
        let resampling = Resampling {
            size: Extent { height, width },
            scale: [
                height as f32 / shape.height as f32,
                width as f32 / shape.width as f32,
            ],
            coordinates: Coordinates::Asymmetric,
            filter: Filter::Nearest(Rounding::Floor),
        };
        self.push(&[input], Resize { resampling }, &[])
    }

    fn with_constant(&mut self, input: TensorId, shape: Tensor, table: WeightRange) -> TensorId {
        let plus = Binary {
            constant: Some(shape),
            ..Binary::new(BinaryFunction::Add)
        };
        self.push(&[input], plus, &[table])
    }

    fn keep(&mut self, tensor: TensorId, quantisation: Quantisation) {
        self.quantised.tensors.insert(tensor, quantisation);
    }

    fn bytes(&mut self, input: TensorId, quantisation: Quantisation) -> TensorId {
        let output = self.push(&[input], Convert, &[]);
        self.keep(output, quantisation);
        output
    }

    fn floats(&mut self, input: TensorId) -> TensorId {
        self.push(&[input], Convert, &[])
    }

    /// Integers, scales and biases of a convolution of bytes.
    fn integers(&mut self, outputs: u32, terms: u32) -> [WeightRange; 3] {
        let integers = &mut self.quantised.weights;
        let (start, len) = (integers.len() as u32, outputs * terms);
        let values = (0..len).map(|_| (self.random.signed_unit() * 127.0) as i8);
        integers.extend(values);
        let scales = self.draw(outputs, 16);
        for scale in &mut self.weights[scales.start as usize..] {
            *scale = (0.5 + scale.abs()) / (64.0 * (terms as f32).sqrt());
        }
        [WeightRange { start, len }, scales, self.draw(outputs, 16)]
    }

    fn conv_of_bytes(
        &mut self,
        input: TensorId,
        side: u32,
        weights: [WeightRange; 3],
        to: Quantisation,
    ) -> TensorId {
        let conv = QuantisedConv2d {
            window: same([side, side]),
            groups: 1,
            activation: Activation::Relu,
        };
        let output = self.push(&[input], conv, &weights);
        self.keep(output, to);
        output
    }

    /// Ends a stage: class scores of the means of these, by a layer with its own weights or these.
    fn end(&mut self, of: &[TensorId], head: Option<[WeightRange; 2]>) {
        let means: Vec<TensorId> = of.iter().map(|&tensor| self.mean(tensor)).collect();
        let all = match means[..] {
            [mean] => mean,
            _ => self.join(&means),
        };
        let terms = self.shape(all).channels;
        let head = head.unwrap_or_else(|| self.layer(CLASSES, terms));
        let linear = Linear {
            activation: Activation::None,
        };
        let scores = self.push(&[all], linear, &head);
        let exit = Exit::of_scores(scores, CLASSES);
        self.stages.push((std::mem::take(&mut self.open), exit));
    }

    fn finish(self, name: &str) -> Network {
        let reads = |operators: &[Operator]| -> BTreeSet<TensorId> {
            operators.iter().flat_map(Operator::reads).collect()
        };
        let stages = self.stages.iter().enumerate();
        let stages = stages.map(|(at, (operators, exit))| {
            let later = &self.stages[at + 1..];
            let later: BTreeSet<_> = later.iter().flat_map(|(all, _)| reads(all)).collect();
            let written: BTreeSet<_> = operators.iter().map(|each| each.output).collect();
            Stage {
                inputs: reads(operators).difference(&written).copied().collect(),
                outputs: written.intersection(&later).copied().collect(),
                operators: operators.clone(),
                exit: Some(exit.clone()),
            }
        });
        let network = Network {
            name: name.to_owned(),
            input: self.input,
            vectors: vec![],
            answer: AnswerKind::Classes,
            classes: (0..CLASSES).map(|class| format!("class {class}")).collect(),
            stages: stages.collect(),
            tensors: self.tensors,
            weights: self.weights.into(),
            quantised: self.quantised,
        };
        assert_eq!(network.validate(), Ok(()), "{name}");
        network
    }
}

/// A window of a stride of 1 that keeps the size.
fn same([height, width]: [u32; 2]) -> Window {
    let padding = Padding {
        top: height / 2,
        bottom: height / 2,
        left: width / 2,
        right: width / 2,
    };
    Window::new(Extent { height, width }, Extent::square(1), padding)
}

/// The levels of a [`pyramid`].
pub const LEVELS: usize = 3;

/// The same two convolutions on a picture of features, its half and its quarter.
pub fn pyramid() -> Network {
    pyramid_of(LEVELS)
}

pub fn pyramid_of(levels: usize) -> Network {
    let mut m = Maker::new(24, 20);
    let stem = m.layer(16, 3 * 9);
    let mut level = m.conv(IMAGE, [3, 3], 1, stem);
    let (tower, scores) = (m.layer(16, 16 * 9), m.layer(6, 16));
    let mut all = Vec::new();
    for at in 0..levels {
        if at > 0 {
            level = m.largest(level, 2);
        }
        let features = m.conv(level, [3, 3], 1, tower);
        all.push(m.conv(features, [1, 1], 1, scores));
    }
    m.end(&all, None);
    m.finish("pyramid")
}

/// The same on bytes.
pub fn pyramid_of_bytes() -> Network {
    let of = |scale, zero| Quantisation { scale, zero };
    let mut m = Maker::new(24, 20);
    let stem = m.integers(16, 3 * 9);
    let image = m.bytes(IMAGE, of(4.0 / 255.0, 128));
    let mut level = m.conv_of_bytes(image, 3, stem, of(0.03, 3));
    let (tower, scores) = (m.integers(16, 16 * 9), m.integers(6, 16));
    let mut all = Vec::new();
    for at in 0..LEVELS {
        if at > 0 {
            level = m.largest(level, 2);
        }
        let features = m.conv_of_bytes(level, 3, tower, of(0.03, 5));
        let scored = m.conv_of_bytes(features, 1, scores, of(0.02, 7));
        all.push(m.floats(scored));
    }
    m.end(&all, None);
    m.finish("pyramid of bytes")
}

/// `stages` stages that do the same with the same weights, behind a first convolution.
pub fn chain(stages: usize) -> Network {
    let mut m = Maker::new(12, 10);
    let stem = m.layer(16, 3 * 9);
    let mut x = m.conv(IMAGE, [3, 3], 1, stem);
    let (step, head) = (m.layer(16, 16 * 9), m.layer(CLASSES, 16));
    for _ in 0..stages {
        x = m.conv(x, [3, 3], 1, step);
        m.end(&[x], Some(head));
    }
    m.finish("chain")
}

/// A network whose two operators with the same weights read them in another order. The name says why.
fn pair(
    name: &str,
    height: u32,
    width: u32,
    make: impl Fn(&mut Maker) -> [TensorId; 2],
) -> Network {
    let mut m = Maker::new(height, width);
    let both = make(&mut m);
    m.end(&both, None);
    m.finish(name)
}

/// Sixteen channels of the picture.
fn features(m: &mut Maker, channels: u32) -> TensorId {
    let layer = m.layer(channels, 3);
    m.conv(IMAGE, [1, 1], 1, layer)
}

/// A convolution of the network's input, which has planes on a processor, and of a tensor.
pub fn planes_and_blocks() -> Network {
    pair("planes and blocks", 12, 10, |m| {
        let layer = m.layer(16, 3 * 9);
        let small = m.largest(IMAGE, 2);
        [IMAGE, small].map(|input| m.conv(input, [3, 3], 1, layer))
    })
}

pub fn dense_and_groups() -> Network {
    pair("dense and groups", 12, 10, |m| {
        let (narrow, wide) = (features(m, 8), features(m, 16));
        let layer = m.layer(8, 8);
        [(narrow, 1), (wide, 2)].map(|(input, groups)| m.conv(input, [1, 1], groups, layer))
    })
}

pub fn dense_and_depthwise() -> Network {
    pair("dense and depthwise", 12, 10, |m| {
        let (narrow, wide) = (features(m, 1), features(m, 16));
        let layer = m.layer(16, 9);
        [(narrow, 1), (wide, 16)].map(|(input, groups)| m.conv(input, [3, 3], groups, layer))
    })
}

pub fn few_groups_and_many() -> Network {
    pair("few groups and many", 12, 10, |m| {
        let (few, many) = (features(m, 8), features(m, 16));
        let layer = m.layer(16, 4);
        [(few, 2), (many, 4)].map(|(input, groups)| m.conv(input, [1, 1], groups, layer))
    })
}

pub fn upright_and_lying() -> Network {
    pair("upright and lying", 12, 10, |m| {
        let input = features(m, 16);
        let layer = m.layer(16, 16 * 3);
        [[3, 1], [1, 3]].map(|kernel| m.conv(input, kernel, 1, layer))
    })
}

pub fn narrow_and_wide_windows() -> Network {
    pair("narrow and wide windows", 12, 10, |m| {
        let (narrow, wide) = (features(m, 4), features(m, 36));
        let layer = m.layer(16, 36);
        [(narrow, 3), (wide, 1)].map(|(input, side)| m.conv(input, [side; 2], 1, layer))
    })
}

pub fn a_layer_and_a_window() -> Network {
    pair("a layer and a window", 12, 12, |m| {
        let input = features(m, 16);
        let layer = m.layer(16, 16 * 9);
        let small = m.largest(input, 4);
        let linear = Linear {
            activation: Activation::Tanh,
        };
        let flat = m.push(&[small], linear, &layer);
        [flat, m.conv(input, [3, 3], 1, layer)]
    })
}

pub fn layers_of_other_shapes() -> Network {
    pair("layers of other shapes", 12, 12, |m| {
        let (few, many) = (features(m, 4), features(m, 16));
        let layer = m.layer(16, 16 * 9);
        [(few, 2), (many, 4)].map(|(input, side)| {
            let small = m.largest(input, side);
            let linear = Linear {
                activation: Activation::Tanh,
            };
            m.push(&[small], linear, &layer)
        })
    })
}

/// Scales and biases, which are a depthwise convolution's, too.
pub fn a_norm_and_a_scale() -> Network {
    pair("a norm and a scale", 12, 10, |m| {
        let input = features(m, 20);
        let layer = [m.draw(20, 3), m.draw(20, 3)];
        let norm = LayerNorm { epsilon: 1e-5 };
        let normed = m.push(&[input], norm, &layer);
        [normed, m.conv(input, [1, 1], 20, layer)]
    })
}

/// A table whose rows are looked up, and are added to tokens, in networks that tie the two.
pub fn words_and_places() -> Network {
    pair("words and places", 1, 7, |m| {
        let number = Gather {
            runs: vec![ChannelRun {
                source: 0,
                first: 0,
                count: 1,
            }],
        };
        let numbers = m.push(&[IMAGE], number, &[]);
        let table = m.draw(8 * 20, 4);
        let words = m.push(&[numbers], Embedding { channels: 20 }, &[table]);
        [words, m.push(&[words], Tokens { prefix: 1 }, &[table])]
    })
}

/// What is added to the products of an attention of each row, and to a tensor of as many channels.
pub fn a_bias_and_a_constant() -> Network {
    pair("a bias and a constant", 16, 5, |m| {
        let x = features(m, 16);
        let table = m.draw(16 * 5 * 5, 3);
        let attention = Attention {
            heads: 1,
            scale: 0.3,
            by_row: true,
            bias: Some(BiasForm {
                by_row: true,
                by_head: false,
            }),
        };
        let attended = m.push(&[x, x, x], attention, &[table]);
        let small = m.resized(x, [5, 5]);
        let shape = m.shape(small);
        [attended, m.with_constant(small, shape, table)]
    })
}

pub fn constants_of_other_shapes() -> Network {
    pair("constants of other shapes", 5, 5, |m| {
        let x = features(m, 20);
        let table = m.draw(100, 3);
        let shape = |channels, height, width| Tensor {
            channels,
            height,
            width,
        };
        [shape(20, 5, 1), shape(20, 1, 5)].map(|shape| m.with_constant(x, shape, table))
    })
}

/// Constants that a copy puts in places, and that are added to channels.
pub fn a_copy_and_a_constant() -> Network {
    pair("a copy and a constant", 1, 6, |m| {
        let x = features(m, 20);
        let table = m.draw(20, 3);
        let digit = |axis, extent| Digit {
            axis,
            step: 1,
            extent,
        };
        let piece = |source, width, at| Piece {
            source,
            view: View {
                start: [0; 3],
                digits: vec![digit(Axis::Channel, 20), digit(Axis::Column, width)],
            },
            at: [0, 0, at],
            sizes: [20, 1, width],
        };
        let pieces = vec![piece(0, 6, 1), piece(1, 1, 0)];
        let copied = m.push(&[x], Copy { pieces }, &[table]);
        let channels = Tensor {
            channels: 20,
            height: 1,
            width: 1,
        };
        [copied, m.with_constant(x, channels, table)]
    })
}

/// Convolutions of bytes that stand for something else, or give such.
pub fn other_bytes(read: bool) -> Network {
    let of = |scale, zero| Quantisation { scale, zero };
    let name = if read {
        "other bytes read"
    } else {
        "other bytes written"
    };
    pair(name, 12, 10, |m| {
        let layer = m.integers(16, 3 * 9);
        let (first, second) = if read {
            ((of(0.02, 100), of(0.03, 3)), (of(0.03, 90), of(0.03, 3)))
        } else {
            ((of(0.02, 100), of(0.03, 3)), (of(0.02, 100), of(0.05, 3)))
        };
        [first, second].map(|(from, to)| {
            let bytes = m.bytes(IMAGE, from);
            let sums = m.conv_of_bytes(bytes, 3, layer, to);
            m.floats(sums)
        })
    })
}

/// Pairs of operators that have the same weights, most of which kernels read in another order each.
pub fn pairs() -> Vec<Network> {
    vec![
        planes_and_blocks(),
        dense_and_groups(),
        dense_and_depthwise(),
        few_groups_and_many(),
        upright_and_lying(),
        narrow_and_wide_windows(),
        a_layer_and_a_window(),
        layers_of_other_shapes(),
        a_norm_and_a_scale(),
        words_and_places(),
        a_bias_and_a_constant(),
        constants_of_other_shapes(),
        a_copy_and_a_constant(),
        other_bytes(true),
        other_bytes(false),
    ]
}

/// The network with a copy of its weights for each operator that has them.
pub fn untied(network: &Network) -> Network {
    let mut own = network.clone();
    let (mut floats, mut integers) = (Vec::new(), Vec::new());
    for operator in own.stages.iter_mut().flat_map(|stage| &mut stage.operators) {
        let first_float = operator.kind.integers();
        for (at, range) in operator.weights.iter_mut().enumerate() {
            let (start, len) = (range.start as usize, range.len as usize);
            if at < first_float {
                range.start = integers.len() as u32;
                integers.extend_from_slice(&network.quantised.weights[start..][..len]);
            } else {
                range.start = floats.len() as u32;
                floats.extend_from_slice(&network.weights[start..][..len]);
            }
        }
    }
    own.weights = floats.into();
    own.quantised.weights = integers;
    assert_eq!(own.validate(), Ok(()), "{}", network.name);
    own
}

/// The network with as many of its weights tied as can be: a list has what an equally long one before it has.
pub fn tied(network: &Network) -> Network {
    let mut tied = network.clone();
    let (mut floats, mut integers) = (Vec::<WeightRange>::new(), Vec::<WeightRange>::new());
    let mut changed = 0;
    for operator in tied
        .stages
        .iter_mut()
        .flat_map(|stage| &mut stage.operators)
    {
        let first_float = operator.kind.integers();
        for (at, range) in operator.weights.iter_mut().enumerate() {
            let known = if at < first_float {
                &mut integers
            } else {
                &mut floats
            };
            match known.iter().find(|other| other.len == range.len) {
                Some(other) if other != range => {
                    *range = *other;
                    changed += 1;
                }
                Some(_) => {}
                None => known.push(*range),
            }
        }
    }
    assert!(changed > 0, "nothing of {} can be tied", network.name);
    assert_eq!(tied.validate(), Ok(()), "{}", network.name);
    tied
}
