//! Small networks that use every operator, with seeded weights.

use punctual_model::{Network, Tensor};
use punctual_types::{
    Activation, Axis, BinaryFunction, BoxForm, Cell, Coordinates, Decoder, Filter, Interpolation,
    Outside, Piece, PoolKind, Quantisation, Random, Ranking, Rounding, Sampling, Scoring,
    UnaryFunction, View,
};

use super::builder::Builder;
use super::operators::copy::{digit, view};

fn average(counts_padding: bool) -> PoolKind {
    PoolKind::Average { counts_padding }
}

/// Three exits; every operator; odd channels; a tensor that skips a stage; the network's input
/// read again, by an operator that wants no planes, in the last stage.
#[must_use]
pub fn every_operator(seed: u64) -> Network {
    let mut b = Builder::new("every-operator", seed, 13, 11, 7);
    let image = b.input;
    let a = b.conv(image, 20, 3, 2, 1, None); // 7x6
    let depthwise = b.conv(a, 20, 3, 1, 20, Some(a));
    let pooled = b.pool(depthwise, PoolKind::Max, 3, 2, 1); // 4x3
    b.mean_head(pooled);
    let grouped = b.conv(depthwise, 24, 1, 1, 4, None);
    let narrow = b.conv(grouped, 20, 3, 1, 1, None);
    let sum = b.add(narrow, depthwise);
    b.mean_head(sum);
    let shrunk = b.pool(image, average(false), 3, 2, 1); // 7x6, 3 channels
    let wide = b.conv(shrunk, 20, 5, 1, 1, Some(sum));
    let last = b.pool(wide, PoolKind::Max, 2, 2, 0); // 3x3
    let joined = b.conv(pooled, 20, 1, 1, 1, None); // 4x3
    let joined = b.mean(joined);
    let (low, high) = (-1.0, 6.0);
    let flat = b.linear(last, 20, Activation::Clip { low, high });
    let both = b.add(flat, joined);
    let mask = b.slice(last, 5, 1);
    let attended = b.attention(last, mask);
    let row = b.tokens(attended);
    let row = b.layer_norm(row);
    let token = b.token(row, 1);
    let both = b.add(both, token);
    let numbers = b.slice(image, 0, 1);
    let words = b.embedding(numbers, 20, 3); // 13x11
    let mean = b.mean(words);
    let both = b.add(both, mean);
    b.head(both);
    b.finish()
}

/// One exit; attention by two heads of 80 channels, wider than most transformers' are.
#[must_use]
pub fn wide_heads(seed: u64) -> Network {
    let mut b = Builder::new("wide-heads", seed, 5, 4, 6);
    let image = b.input;
    let tokens = b.conv(image, 160, 1, 1, 1, None);
    let mask = b.slice(tokens, 5, 1);
    let attended = b.attention(tokens, mask);
    b.mean_head(attended);
    b.finish()
}

/// One exit of one convolution: it takes a few microseconds, for what is about everything else that a frame takes.
#[must_use]
pub fn tiny(seed: u64) -> Network {
    let mut b = Builder::new("tiny", seed, 24, 24, 5);
    let image = b.input;
    let features = b.conv(image, 16, 3, 4, 1, None); // 6x6
    b.mean_head(features);
    b.finish()
}

/// Two exits of one convolution each: for what is about anything else than operators.
#[must_use]
pub fn pair(seed: u64) -> Network {
    let mut b = Builder::new("pair", seed, 12, 10, 5);
    let image = b.input;
    let first = b.conv(image, 16, 3, 2, 1, None); // 6x5
    b.mean_head(first);
    let second = b.conv(first, 16, 3, 1, 1, None);
    b.mean_head(second);
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
        b.mean_head(x);
    }
    b.finish()
}

/// Six exits of residual convolutions of 3x3, as deep classifiers have them: 200 MB of weights, of which the first exit
/// needs two hundredths. For what is about the time that weights take.
#[must_use]
pub fn heavy(seed: u64) -> Network {
    let mut b = Builder::new("heavy", seed, 112, 112, 100);
    let image = b.input;
    let stem = b.conv(image, 64, 3, 4, 1, None); // 28x28
    let mut x = b.conv(stem, 128, 3, 2, 1, None); // 14x14
    for (exit, blocks) in [2, 2, 2, 2, 2, 2].into_iter().enumerate() {
        if exit == 1 {
            x = b.conv(x, 512, 3, 2, 1, None); // 7x7
        }
        let channels = b.shape(x).sides()[0];
        for _ in 0..blocks {
            let y = b.conv(x, channels, 3, 1, 1, None);
            x = b.conv(y, channels, 3, 1, 1, Some(x));
        }
        b.mean_head(x);
    }
    b.finish()
}

/// Two exits; convolutions dilated by less and by more than their image has, resizes of every kind,
/// of one pixel and of what is carried to the next stage.
#[must_use]
pub fn segments(seed: u64) -> Network {
    let mut b = Builder::new("segments", seed, 15, 13, 5);
    let image = b.input;
    let stem = b.conv(image, 20, 3, 2, 1, None); // 8x7
    let near = b.dilated(stem, 24, 2, 1);
    let far = b.dilated(stem, 20, 6, 1);
    let beyond = b.dilated(stem, 16, 9, 1);
    let pooled = b.mean(stem);
    let pooled = b.mix(pooled, 16, Activation::Relu);
    let pooled = b.resize(pooled, 8, 7, Coordinates::HalfPixel, Filter::Linear);
    let joined = b.concat(&[near, far, beyond, pooled]);
    let depthwise = b.dilated(joined, 76, 3, 76);
    b.mean_head(depthwise);
    let corners = Coordinates::AlignCorners;
    let smooth = b.resize(depthwise, 15, 13, corners, Filter::Linear);
    let floor = Filter::Nearest(Rounding::Floor);
    let repeated = b.resize(stem, 15, 13, Coordinates::Asymmetric, floor);
    let both = b.concat(&[smooth, repeated]);
    let both = b.conv(both, 20, 3, 1, 1, None);
    let nearest = Filter::Nearest(Rounding::PreferFloor);
    let small = b.resize(image, 6, 5, Coordinates::HalfPixel, nearest);
    let shrunk = b.resize(both, 6, 5, Coordinates::PytorchHalfPixel, Filter::Linear);
    let both = b.concat(&[shrunk, small]);
    let last = b.mix(both, 8, Activation::Silu);
    b.head(last);
    b.finish()
}

/// Two exits that give back tensors from the middle, joined ones among them, most of one size; one that is carried on and
/// given back again; vectors that scale channels, that a padded convolution reads.
#[must_use]
pub fn heads(seed: u64) -> Network {
    let mut b = Builder::new("heads", seed, 8, 8, 4);
    let image = b.input;
    let (gains, command) = (b.vector(8), b.vector(6));
    let first = b.conv(image, 8, 3, 1, 1, None);
    let second = b.conv(first, 8, 3, 1, 1, None);
    let second = b.multiply(second, gains);
    let third = b.conv(second, 8, 3, 1, 1, None);
    let joined = b.concat(&[second, third]);
    let mixed = b.conv(third, 16, 1, 1, 1, None);
    let product = b.multiply(mixed, joined);
    let upper = b.slice(product, 8, 8);
    let steered = b.conv(command, 12, 3, 1, 1, None);
    let mean = b.mean(product);
    let both = b.concat(&[mean, steered]);
    for tensor in [joined, mixed, upper] {
        b.output(tensor);
    }
    b.head(both);
    let fourth = b.conv(joined, 8, 3, 1, 1, Some(third));
    let fifth = b.add(fourth, upper);
    let again = b.concat(&[fifth, joined, fifth]);
    let mean = b.mean(again);
    for tensor in [again, joined, fourth] {
        b.output(tensor);
    }
    b.head(mean);
    b.finish()
}

/// An image for `network`, `[channel][row][column]`, with values like normalised pixels.
#[must_use]
pub fn image(network: &Network, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let values = network.input.tensor().elements();
    (0..values).map(|_| 2.0 * random.signed_unit()).collect()
}

/// Two exits; concatenations, slices and shuffles, whole blocks and broken ones for every number of
/// lanes, extended, repeated and carried to the next stage; squeeze and excitation; every curve.
#[must_use]
pub fn gathers(seed: u64) -> Network {
    let mut b = Builder::new("gathers", seed, 12, 10, 5);
    let image = b.input;
    let stem = b.conv(image, 32, 3, 2, 1, None); // 6x5
    // Dense: each concatenation extends the last.
    let mut dense = stem;
    for activation in [Activation::Silu, Activation::HardSwish, Activation::Gelu] {
        let squeezed = b.mix(dense, 24, activation);
        let new = b.conv(squeezed, 16, 3, 1, 1, None);
        dense = b.concat(&[dense, new]); // 48, 64, 80
    }
    // Halves, as ShuffleNet has them, but of 40 channels: one begins inside a block of 16.
    let (left, right) = (b.slice(dense, 0, 40), b.slice(dense, 40, 40));
    let right = b.conv(right, 40, 3, 1, 40, None);
    let pairs: Vec<_> = (0..40).flat_map(|at| [(0, at, 1), (1, at, 1)]).collect();
    let shuffled = b.gather(&[left, right], &pairs);
    let upper = b.slice(shuffled, 48, 32);
    let mean = b.mean(upper);
    let gate = b.linear(mean, 8, Activation::Tanh);
    let gate = b.linear(gate, 32, Activation::Sigmoid);
    let gated = b.multiply(upper, gate);
    let squared = b.multiply(gated, upper);
    b.activate(Activation::HardSigmoid);
    let carried = b.slice(shuffled, 16, 64);
    // Repeated: only one of them can lie in the result.
    let twice = b.concat(&[gated, squared, gated]);
    b.mean_head(twice);
    let pooled = b.pool(carried, average(true), 3, 2, 1); // 3x3
    let narrow = b.conv(twice, 20, 3, 2, 1, None);
    let broken = b.concat(&[narrow, pooled]);
    let last = b.conv(broken, 16, 3, 1, 1, None);
    let flat = b.slice(last, 4, 12);
    b.head(flat);
    b.finish()
}

/// Two exits; slices of the input, as of pictures that are stacked: for convolutions with narrow and wide borders, with the
/// same weights and with others, and for what cannot read planes.
#[must_use]
pub fn stacked(seed: u64) -> Network {
    let mut b = Builder::new("stacked", seed, 12, 10, 5);
    let image = b.input;
    let pictures = [(0, 2), (1, 2), (1, 1), (2, 1)];
    let [left, right, both, pooled] = pictures.map(|(first, count)| b.slice(image, first, count));
    let left = b.conv(left, 20, 3, 2, 1, None);
    let right = b.conv(right, 20, 7, 2, 1, None);
    let wide = b.conv(both, 16, 5, 2, 1, None);
    let unread = b.pool(both, average(true), 3, 2, 1);
    let pooled = b.pool(pooled, average(true), 3, 2, 1);
    let all = b.concat(&[left, right, wide, unread, pooled]);
    b.mean_head(all);
    // Nothing in the stage before reads so far around it.
    let last = b.slice(image, 0, 2);
    let last = b.conv(last, 16, 9, 2, 1, None);
    let all = b.concat(&[all, last]);
    b.mean_head(all);
    b.finish()
}

/// Two exits; pixels shuffled and unshuffled, transposed, sliced, rows and columns and constants joined; copies of the
/// network's input, of what is carried, and between convolutions that read beyond the image.
#[must_use]
pub fn copies(seed: u64) -> Network {
    use Axis::{Channel, Column, Row};
    let mut b = Builder::new("copies", seed, 12, 10, 5);
    // As YOLO's first layer: each pixel's three neighbours become channels of it.
    let unshuffled = [
        digit(Column, 1, 2),
        digit(Row, 1, 2),
        digit(Channel, 1, 3),
        digit(Row, 2, 6),
        digit(Column, 2, 5),
    ];
    let focus = b.rearranged(b.input, &unshuffled, [12, 6, 5]);
    let stem = b.conv(focus, 36, 3, 1, 1, None);
    // Four channels become four pixels.
    let shuffled = [
        digit(Channel, 4, 9),
        digit(Row, 1, 6),
        digit(Channel, 2, 2),
        digit(Column, 1, 5),
        digit(Channel, 1, 2),
    ];
    let large = b.rearranged(stem, &shuffled, [9, 12, 10]);
    let large = b.conv(large, 20, 3, 1, 1, None);
    let flipped = [
        digit(Column, 1, 10),
        digit(Channel, 1, 20),
        digit(Row, 1, 12),
    ];
    let flipped = b.rearranged(large, &flipped, [10, 20, 12]);
    let mixed = b.conv(flipped, 17, 3, 2, 1, None); // 17x10x6
    b.mean_head(mixed);
    // Two levels' anchors as tokens of five channels, behind two constant ones.
    let narrow = b.conv(stem, 10, 3, 2, 1, None); // 10x3x3
    let wide = b.conv(mixed, 10, 1, 1, 1, None); // 10x10x6
    let anchors = |source, shape: [u32; 3], column| {
        let [_, height, width] = shape;
        let digits = [
            digit(Channel, 1, 5),
            digit(Row, 1, height),
            digit(Column, 1, width),
            digit(Channel, 5, 2),
        ];
        Piece {
            source,
            view: view([0; 3], &digits),
            at: [0, 0, column],
            sizes: [5, 1, 2 * height * width],
        }
    };
    let constant = Piece {
        source: 2,
        view: view([0; 3], &[digit(Channel, 1, 5), digit(Channel, 5, 2)]),
        at: [0; 3],
        sizes: [5, 1, 2],
    };
    let pieces = vec![
        anchors(0, [10, 3, 3], 2),
        constant,
        anchors(1, [10, 10, 6], 20),
    ];
    let tokens = b.copy(&[narrow, wide], 10, pieces); // 5x1x140
    let tokens = b.mix(tokens, 5, Activation::Tanh);
    let part = view([1, 0, 3], &[digit(Channel, 2, 2), digit(Column, 7, 19)]);
    let part = b.copy(&[tokens], 0, vec![Piece::whole(part, [2, 1, 19])]);
    let flat = View::plain([2, 1, 19]);
    let flat = b.copy(&[part], 0, vec![Piece::whole(flat, [38, 1, 1])]);
    b.head(flat);
    b.finish()
}

/// Two recurrent layers over `steps` columns of a row, the second one backwards from a state that is computed.
#[must_use]
pub fn recurrent(seed: u64, steps: u32) -> Network {
    let mut b = Builder::new("recurrent", seed, 1, steps, 7);
    let resets_product = true;
    let gates = b.mix(b.input, 15, Activation::None);
    let states = b.recurrent(Cell::Gru { resets_product }, gates, None, false); // 5 units
    let first = b.linear(states, 12, Activation::Tanh);
    let gates = b.mix(states, 24, Activation::None);
    let states = b.recurrent(Cell::Lstm, gates, Some(first), true); // 6 units, 2 values
    b.head(states);
    b.finish()
}

/// A network of random gathers, convolutions, sums and products, all of one image size.
#[must_use]
pub fn tangle(seed: u64) -> Network {
    const CHANNELS: [u32; 6] = [4, 12, 16, 20, 32, 48];
    let mut b = Builder::new("tangle", seed, 6, 5, 3);
    let first = b.conv(b.input, 32, 3, 1, 1, None);
    let mut tensors = vec![b.input, first];
    for _ in 0..3 {
        for _ in 0..7 {
            let any = |b: &mut Builder| tensors[b.below(tensors.len())];
            let input = any(&mut b);
            let channels = CHANNELS[b.below(CHANNELS.len())];
            let have = b.shape(input).channels;
            let made = match b.below(8) {
                0 => b.conv(input, channels, 3, 1, 1, None),
                _ if have > 200 => b.slice(input, 32, channels),
                1 => b.mix(input, channels, Activation::Tanh),
                2 => b.conv(input, have, 3, 1, have, None),
                3 => b.multiply(input, input),
                4 => {
                    let first = b.below(have as usize) as u32;
                    let first = if first >= 16 { 16 } else { first };
                    let count = 1 + b.below((have - first) as usize) as u32;
                    b.slice(input, first, count)
                }
                _ => {
                    let mut sources = vec![input];
                    for _ in 0..1 + b.below(3) {
                        sources.push(any(&mut b));
                    }
                    b.concat(&sources)
                }
            };
            tensors.push(made);
        }
        let unread = b.unread();
        let all = b.concat(&unread);
        // The curve keeps the scale of what later stages read.
        let newest = b.mix(all, 16, Activation::Sigmoid);
        b.mean_head(newest);
    }
    b.finish()
}

/// Two exits; functions of one value and of two, everything repeated and constant that can be; softmaxes along every
/// axis and along parts of the channels.
#[must_use]
pub fn arithmetic(seed: u64) -> Network {
    use BinaryFunction::{
        Add, Divide, KeepUnless, KeepWhere, Less, Maximum, Minimum, Multiply, Power, Slope,
        Subtract,
    };
    let shape = |channels, height, width| Tensor::of_sides([channels, height, width]);
    let mut b = Builder::new("arithmetic", seed, 13, 11, 7);
    let image = b.input;
    let a = b.conv(image, 20, 3, 2, 1, None); // 7x6
    let one = b.mix(a, 1, Activation::Tanh);
    let mean = b.mean(a);
    let gate = b.linear(mean, 20, Activation::Sigmoid);
    let sum = b.binary(Add, a, one);
    let difference = b.binary(Subtract, gate, sum);
    b.activate(Activation::HardSwish);
    let rows = b.with_constant(Multiply, difference, shape(1, 7, 1), false);
    let columns = b.with_constant(Subtract, rows, shape(20, 1, 6), true);
    let all = b.with_constant(Maximum, columns, shape(20, 7, 6), false);
    let clipped = b.with_constant(Minimum, all, shape(1, 1, 1), true);
    let wide = b.with_constant(Add, one, shape(5, 1, 1), false); // 5 channels
    let magnitude = b.unary(UnaryFunction::Absolute, wide);
    let large = b.unary(UnaryFunction::Exponential, magnitude); // at least 1
    let ratio = b.binary(Divide, wide, large);
    let reciprocal = b.unary(UnaryFunction::Reciprocal, large);
    let root = b.unary(UnaryFunction::SquareRoot, reciprocal);
    let part = b.with_constant(Divide, large, shape(5, 1, 1), true);
    let power = b.with_constant(Power, large, shape(5, 1, 1), false);
    let logarithm = b.unary(UnaryFunction::Logarithm, large);
    let sine = b.unary(UnaryFunction::Sine, wide);
    let small = b.concat(&[ratio, root, part, power, logarithm, sine]);
    let mixed = b.conv(small, 32, 3, 1, 1, None);
    b.activate(Activation::Mish);
    b.head(mixed);
    // Distributions of 8 of 32 channels, neighbours and apart from each other.
    let near = b.softmax(mixed, digit(Axis::Channel, 1, 8), false);
    let apart = b.softmax(mixed, digit(Axis::Channel, 4, 8), true);
    let along_rows = b.softmax(clipped, digit(Axis::Row, 1, 7), false);
    let along_columns = b.softmax(clipped, digit(Axis::Column, 2, 3), false);
    let channels = b.softmax(clipped, digit(Axis::Channel, 1, 20), true);
    // Continuous where the two are equal, as devices of halves may compare them differently.
    let difference = b.binary(Subtract, sum, clipped);
    let smaller = b.binary(Less, clipped, sum);
    let kept = b.binary(KeepWhere, difference, smaller);
    let scaled = b.binary(Multiply, difference, columns);
    let other = b.binary(KeepUnless, scaled, smaller);
    let chosen = b.binary(Add, kept, other);
    b.activate(Activation::Elu {
        above: 1.1,
        below: 0.7,
        rate: 0.5,
    });
    let slopes = b.with_constant(Slope, chosen, shape(20, 1, 1), false);
    let together = b.concat(&[near, apart, along_rows, along_columns, channels, slopes]);
    let last = b.conv(together, 16, 3, 2, 1, None);
    b.head(last);
    b.finish()
}

/// Two exits; samples at computed positions in one group, in several and in one for each channel; the best channels,
/// the best columns, and values taken at these.
#[must_use]
pub fn computed(seed: u64) -> Network {
    let sampling = |interpolation, outside, align_corners| Sampling {
        interpolation,
        outside,
        align_corners,
    };
    let ranking = |largest, last| Ranking { largest, last };
    let mut b = Builder::new("computed", seed, 13, 11, 7);
    let image = b.input;
    let a = b.conv(image, 32, 3, 2, 1, None); // 7x6
    let one = b.mix(a, 2, Activation::Tanh);
    let of_one = sampling(Interpolation::Linear, Outside::Zeros, false);
    let sampled = b.grid_sample(a, one, of_one);
    let four = b.conv(sampled, 8, 3, 1, 1, None); // some outside
    let of_four = sampling(Interpolation::Linear, Outside::Reflection, false);
    let groups = b.grid_sample(sampled, four, of_four);
    let each = b.mix(groups, 64, Activation::Tanh);
    let of_each = sampling(Interpolation::Linear, Outside::Border, true);
    let channels = b.grid_sample(groups, each, of_each);
    let nearest = sampling(Interpolation::Nearest, Outside::Zeros, true);
    let nearest = b.grid_sample(channels, one, nearest);
    b.mean_head(nearest);
    let best = b.best_channel(channels, ranking(true, false));
    let positions = b.best_columns(channels, 3, ranking(false, false));
    let own = b.take_columns(channels, positions);
    let score = b.mix(channels, 1, Activation::None);
    let positions = b.best_columns(score, 3, ranking(true, false));
    let shared = b.take_columns(nearest, positions);
    let both = b.add(own, shared); // 7x3
    let both = b.mean(both);
    let classes = b.mean(best);
    let both = b.concat(&[both, classes]);
    b.head(both);
    b.finish()
}

/// Two exits that see lists of detections: of logits by class, and of probabilities with objectness, across classes.
#[must_use]
pub fn detectors(seed: u64) -> Network {
    let mut b = Builder::new("detectors", seed, 13, 11, 7);
    let image = b.input;
    let a = b.conv(image, 20, 3, 2, 1, None); // 7x6
    let boxes = b.mix(a, 4, Activation::Sigmoid);
    let scores = b.mix(a, 9, Activation::None);
    let scoring = Scoring {
        first: 1,
        classes: 8,
        logits: true,
    };
    let decoder = Decoder {
        form: BoxForm::CentreAndSize,
        unit: [11.0, 13.0],
        size: [0; 2],
        threshold: 0.5,
        rows: 12,
        candidates: 25,
        overlap: Some(0.3),
        by_class: true,
        averaged: 3,
    };
    let list = b.detections([boxes, scores], None, scoring, decoder);
    b.head(list);
    let a = b.conv(a, 24, 3, 1, 1, None);
    let boxes = b.mix(a, 4, Activation::Sigmoid);
    let scores = b.mix(a, 3, Activation::Sigmoid);
    let objectness = b.mix(a, 1, Activation::Sigmoid);
    let objectness = b.places(objectness);
    let scoring = Scoring {
        first: 0,
        classes: 2,
        logits: false,
    };
    let decoder = Decoder {
        form: BoxForm::CornerAndSize,
        threshold: 0.1,
        rows: 40,
        candidates: 50,
        by_class: false,
        ..decoder
    };
    let list = b.detections([boxes, scores], Some(objectness), scoring, decoder);
    b.head(list);
    b.finish()
}

/// Three exits; every operator on bytes; zero points at the ends and in between; bytes carried from
/// stage to stage; floats in the middle.
#[must_use]
pub fn quantised(seed: u64) -> Network {
    let of = |scale: f32, zero: u8| Some(Quantisation { scale, zero });
    let mut b = Builder::new("quantised", seed, 13, 11, 7);
    let image = b.convert(b.input, of(4.0 / 255.0, 128));
    let a = b.quantised_conv(image, 20, 3, 2, 1, of(0.02, 0)); // 7x6
    let depthwise = b.quantised_conv(a, 20, 3, 1, 20, of(0.015, 3));
    let sum = b.add(depthwise, a);
    b.keep(sum, of(0.03, 1));
    let pooled = b.pool(sum, PoolKind::Max, 3, 2, 1); // 4x3
    b.keep(pooled, of(0.03, 1));
    let mean = b.mean(pooled);
    b.keep(mean, of(0.02, 0));
    b.quantised_head(mean);
    let grouped = b.quantised_conv(sum, 24, 1, 1, 4, of(0.02, 255));
    let again = b.convert(grouped, of(0.05, 90));
    let floats = b.convert(again, None);
    let floats = b.conv(floats, 20, 3, 1, 1, None);
    let bytes = b.convert(floats, of(0.01, 0));
    let smooth = b.pool(bytes, average(true), 3, 1, 1);
    b.keep(smooth, of(0.01, 7));
    // Upside down, as bytes.
    let rows = |first, at| Piece {
        source: 0,
        view: View {
            start: [0, first, 0],
            ..View::plain([20, 4, 6])
        },
        at: [0, at, 0],
        sizes: [20, 4, 6],
    };
    let turned = b.copy(&[smooth], 0, vec![rows(0, 4), rows(3, 0)]); // 8x6
    b.keep(turned, of(0.01, 7));
    let floor = Filter::Nearest(Rounding::Floor);
    let double = b.resize(turned, 14, 12, Coordinates::Asymmetric, floor);
    b.keep(double, of(0.01, 7));
    let last = b.quantised_conv(double, 7, 5, 3, 1, None); // 5x4
    b.mean_head(last);
    let whole = b.quantised_conv_over(pooled, 7, of(0.03, 120));
    let scores = b.convert(whole, None);
    b.end(scores);
    b.finish()
}
