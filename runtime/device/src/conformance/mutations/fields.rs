//! The figures of operators: windows, groups, axes, activations, steps of bytes.

use punctual_model::{
    BestScore, Conv2d, Detections, Network, Operator, OperatorKind, QuantisedConv2d, TensorId,
};
use punctual_types::{
    Activation, Axis, Cell, Coordinates, Digit, Extent, Filter, Interpolation, Outside, Padding,
    PoolKind, Quantisation, Random, Ranking, Resampling, Rounding, Sampling, UnaryFunction, Window,
};

use super::graph;

fn below(limit: u32, random: &mut Random) -> u32 {
    random.below(limit.into()) as u32
}

pub(super) fn axis(random: &mut Random) -> Axis {
    [Axis::Channel, Axis::Row, Axis::Column, Axis::Repeat][random.below(4) as usize]
}

pub(super) fn activation(random: &mut Random) -> Activation {
    let (a, b) = (2.0 * random.signed_unit(), 2.0 * random.signed_unit());
    let all = [
        Activation::None,
        Activation::Relu,
        Activation::Clip { low: a, high: b },
        Activation::Sigmoid,
        Activation::Silu,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::Gelu,
        Activation::Tanh,
        Activation::LeakyRelu { slope: a },
        Activation::Elu {
            above: a,
            below: b,
            rate: 1.0 + a,
        },
        Activation::Mish,
        Activation::Softplus,
        Activation::Softsign,
        Activation::TanhGelu,
    ];
    all[random.below(all.len() as u64) as usize]
}

/// Rows and columns that are mostly alike; few are large.
fn extent(least: u32, limit: u32, random: &mut Random) -> Extent {
    let side = |random: &mut Random| match random.one_in(40) {
        true => [17, 64, 300, 1024, 1025][below(5, random) as usize],
        false => least + below(limit, random),
    };
    let (height, width) = (side(random), side(random));
    let width = if random.one_in(3) { width } else { height };
    Extent { height, width }
}

pub(super) fn window(random: &mut Random) -> Window {
    let kernel = extent(1, 5, random);
    let most = kernel.height.min(kernel.width);
    let padding = match random.below(4) {
        0 => Padding::uniform(0),
        1 => Padding {
            top: below(most, random),
            left: below(most, random),
            bottom: below(most, random),
            right: below(most, random),
        },
        _ => Padding::uniform(most / 2),
    };
    let mut window = Window::new(kernel, extent(1, 3, random), padding);
    if random.one_in(4) {
        window.dilation = extent(1, 3, random);
        window.padding = Padding::uniform(below(most * window.dilation.height, random));
    }
    window
}

/// A change of one side of a window.
fn rewindow(window: &mut Window, random: &mut Random) {
    let new = self::window(random);
    match random.below(6) {
        0 => window.kernel = new.kernel,
        1 => window.stride = new.stride,
        2 | 3 => window.padding = new.padding,
        4 => window.dilation = new.dilation,
        _ => *window = new,
    }
}

pub(super) fn pool_kind(random: &mut Random) -> PoolKind {
    match random.below(3) {
        0 => PoolKind::Max,
        other => PoolKind::Average {
            counts_padding: other == 1,
        },
    }
}

pub(super) fn sampling(random: &mut Random) -> Sampling {
    Sampling {
        interpolation: [Interpolation::Linear, Interpolation::Nearest][random.below(2) as usize],
        outside: [Outside::Zeros, Outside::Border, Outside::Reflection][random.below(3) as usize],
        align_corners: random.one_in(2),
    }
}

pub(super) fn ranking(random: &mut Random) -> Ranking {
    Ranking {
        largest: random.one_in(2),
        last: random.one_in(2),
    }
}

pub(super) fn resampling(random: &mut Random) -> Resampling {
    use Coordinates as C;
    let coordinates = [
        C::Asymmetric,
        C::HalfPixel,
        C::HalfPixelSymmetric,
        C::PytorchHalfPixel,
        C::AlignCorners,
    ];
    let rounding = [
        Rounding::Floor,
        Rounding::Ceil,
        Rounding::PreferFloor,
        Rounding::PreferCeil,
    ];
    let nearest = Filter::Nearest(rounding[random.below(4) as usize]);
    Resampling {
        size: extent(1, 14, random),
        scale: [0, 1].map(|_| [0.5, 1.0, 1.7, 2.0, 1e-38, 3e38][random.below(6) as usize]),
        coordinates: coordinates[random.below(5) as usize],
        filter: [Filter::Linear, nearest][random.below(2) as usize],
    }
}

pub(super) fn unary(random: &mut Random) -> UnaryFunction {
    UnaryFunction::ALL[random.below(UnaryFunction::ALL.len() as u64) as usize]
}

/// A figure of any operator, or an operand or weights that it can do without, or those of another.
pub(super) fn any(network: &mut Network, random: &mut Random) -> Option<String> {
    let (stage, at) = graph::any_operator(network, random)?;
    let there = network.weights.len() as u32;
    let operator = &mut network.stages[stage].operators[at];
    let old = operator.clone();
    match random.below(12) {
        0 => drop(operator.others.pop()),
        1 => {
            if let Some(range) = super::any_mut(&mut operator.weights, random) {
                range.start = below(1 + there, random);
            }
        }
        2 if operator.kind.activation().is_some() => {
            operator.kind.set_activation(activation(random));
        }
        _ => vary(&mut operator.kind, random),
    }
    let is_other = *operator != old;
    is_other.then(|| format!("{} is {operator:?}, was {old:?}", old.name))
}

fn vary(kind: &mut OperatorKind, random: &mut Random) {
    match kind {
        OperatorKind::Conv2d(Conv2d { window, groups, .. })
        | OperatorKind::QuantisedConv2d(QuantisedConv2d { window, groups, .. }) => {
            match random.below(6) {
                0 => *groups = [1, 2, 3, 4, 5, 16, 20][random.below(7) as usize],
                _ => rewindow(window, random),
            }
        }
        OperatorKind::Pool(pool) => {
            let mut window = pool.window();
            match random.below(4) {
                0 => pool.kind = pool_kind(random),
                _ => rewindow(&mut window, random),
            }
            (pool.kernel, pool.stride, pool.padding) =
                (window.kernel, window.stride, window.padding);
        }
        OperatorKind::LayerNorm(norm) => {
            norm.epsilon = [1e-5, 1.0, 1e-30, 0.0, f32::NAN][random.below(5) as usize];
        }
        OperatorKind::Attention(attention) => match random.below(3) {
            0 => attention.heads = below(6, random),
            1 => attention.scale = [0.0, -1.0, 0.3, 20.0, f32::INFINITY][below(5, random) as usize],
            _ => attention.by_row = !attention.by_row,
        },
        OperatorKind::Tokens(tokens) => tokens.prefix = below(4, random),
        OperatorKind::Embedding(embedding) => embedding.channels = below(20, random),
        OperatorKind::Unary(of) => of.function = unary(random),
        OperatorKind::Softmax(softmax) => match random.below(4) {
            0 => softmax.digit.axis = axis(random),
            1 => softmax.digit.step = 1 + below(6, random),
            2 => softmax.digit.extent = 1 + below(12, random),
            _ => softmax.logarithm = !softmax.logarithm,
        },
        OperatorKind::Resize(resize) => resize.resampling = resampling(random),
        OperatorKind::GridSample(sample) => match random.one_in(3) {
            true => sample.groups = 1 + below(5, random),
            false => sample.sampling = sampling(random),
        },
        OperatorKind::TopK(top) => match random.below(3) {
            0 => top.axis = axis(random),
            1 => top.count = below(8, random),
            _ => top.ranking = ranking(random),
        },
        OperatorKind::Take(take) => take.axis = axis(random),
        OperatorKind::Recurrent(layer) => match random.below(3) {
            0 => layer.backwards = !layer.backwards,
            _ => layer.cell = Cell::ALL[random.below(5) as usize],
        },
        kind => detected(kind, random),
    }
}

fn detected(kind: &mut OperatorKind, random: &mut Random) {
    match kind {
        OperatorKind::BestScore(BestScore { scoring }) => match random.below(3) {
            0 => scoring.first = below(4, random),
            1 => scoring.classes = below(9, random),
            _ => scoring.logits = !scoring.logits,
        },
        OperatorKind::Detections(Detections { scoring, decoder }) => match random.below(8) {
            0 => scoring.first = below(4, random),
            1 => scoring.logits = !scoring.logits,
            2 => decoder.rows = below(60, random),
            3 => decoder.candidates = below(60, random),
            4 => decoder.by_class = !decoder.by_class,
            5 => decoder.overlap = None,
            6 => decoder.averaged = below(6, random),
            _ => decoder.threshold = random.signed_unit(),
        },
        _ => {}
    }
}

/// The weights of an operator are those of another, where both have as many: shared layers, as towers have them.
pub(super) fn tie(network: &mut Network, random: &mut Random) -> Option<String> {
    let (stage, at) = graph::find(network, random, |each| !each.weights.is_empty())?;
    let own = network.stages[stage].operators[at].clone();
    let lengths = |of: &Operator| of.weights.iter().map(|range| range.len).collect::<Vec<_>>();
    let (stage, at) = graph::find(network, random, |each| {
        each.kind.integers() == own.kind.integers()
            && each.weights != own.weights
            && lengths(each) == lengths(&own)
    })?;
    let tied = &mut network.stages[stage].operators[at];
    tied.weights.clone_from(&own.weights);
    Some(format!("{} has the weights of {}", tied.name, own.name))
}

/// What the bytes of a tensor stand for; or bytes where floats were.
pub(super) fn bytes(network: &mut Network, random: &mut Random) -> Option<String> {
    let of = Quantisation {
        scale: [0.01, 0.03, 1.0, 1e-30, 0.0][random.below(5) as usize],
        zero: [0, 1, 128, 255][random.below(4) as usize],
    };
    let there: Vec<TensorId> = network.quantised.tensors.keys().copied().collect();
    let tensor = match random.one_in(4) || there.is_empty() {
        true => TensorId(random.below(network.tensors.len() as u64) as u32),
        false => super::any(&there, random)?,
    };
    if random.one_in(6) {
        network.quantised.tensors.remove(&tensor);
        return Some(format!("{tensor:?} is of floats"));
    }
    network.quantised.tensors.insert(tensor, of);
    Some(format!("{tensor:?} is of bytes, {of:?}"))
}

pub(super) fn digit(size: u32, axis: Axis, random: &mut Random) -> Digit {
    let parts: Vec<u32> = (1..=size)
        .filter(|part| size.is_multiple_of(*part))
        .collect();
    let extent = super::any(&parts, random).unwrap_or(1);
    let steps: Vec<u32> = (1..=size / extent)
        .filter(|step| (size / extent).is_multiple_of(*step))
        .collect();
    let step = super::any(&steps, random).unwrap_or(1);
    Digit { axis, step, extent }
}
