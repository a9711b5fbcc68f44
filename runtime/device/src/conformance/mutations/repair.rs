//! Shapes, weights and lists that follow from a change.

use punctual_model::{
    ChannelRun, Conv2d, Copy, GATHER_SOURCES_MAX, Network, Operands, Operator, OperatorKind,
    QuantisedConv2d, Softmax, Tensor, TensorId, WeightRange,
};
use punctual_types::{Piece, Random, View};

use super::{exits, graph};

/// Larger tensors would keep the interpreter busy.
const ELEMENTS_MAX: u64 = 1 << 14;

/// Follows a change through the network. What cannot be mended stays wrong.
pub(super) fn repair(network: &mut Network, random: &mut Random) {
    let mut stages = std::mem::take(&mut network.stages);
    for operator in stages.iter_mut().flat_map(|stage| &mut stage.operators) {
        let _ = settle(network, operator, random);
    }
    network.stages = stages;
    exits::repair(network);
    graph::prune(network);
    graph::carry(network);
}

/// An operator's figures, shape, elements and weights; none if they cannot fit what it reads.
fn settle(network: &mut Network, operator: &mut Operator, random: &mut Random) -> Option<()> {
    let shape = |id: TensorId| network.tensors.get(id.index()).copied();
    let (input, declared) = (shape(operator.input)?, shape(operator.output)?);
    let others = |operator: &Operator| -> Option<Vec<Tensor>> {
        operator.others.iter().copied().map(shape).collect()
    };
    fit_operands(operator, input, &others(operator)?);
    fit_figures(operator, input);
    let others = others(operator)?;
    let mut lengths: Vec<u32> = operator.weights.iter().map(|range| range.len).collect();
    if let Some(biases) = biases(&operator.kind) {
        lengths.resize(biases + 1, 0);
        lengths[biases] = match &operator.kind {
            OperatorKind::Conv2d(conv) if conv.groups == input.channels => input.channels,
            _ => declared.channels,
        };
    }
    let of = Operands {
        input,
        others: &others,
        weights: &lengths,
    };
    let output = operator.kind.output_shape(&of).ok()?;
    if output.elements() > ELEMENTS_MAX {
        return None;
    }
    network.tensors[operator.output.index()] = output;
    elements(network, operator);
    let wanted = operator.kind.weight_lengths(&of, output);
    weights(network, operator, &wanted, random)
}

/// Which of its weights are one a channel of the result, so that they say how many there are.
fn biases(kind: &OperatorKind) -> Option<usize> {
    match kind {
        OperatorKind::Conv2d(_) | OperatorKind::Linear(_) => Some(1),
        OperatorKind::QuantisedConv2d(_) => Some(2),
        _ => None,
    }
}

/// What is read besides the input, where its shape cannot be: left out, or the input again.
fn fit_operands(operator: &mut Operator, input: Tensor, others: &[Tensor]) {
    let own = operator.input;
    let first = others.first();
    match &mut operator.kind {
        OperatorKind::Binary(_) => {
            let fits = |a: u32, b: u32| a == b || a == 1 || b == 1;
            let fits = |other: &Tensor| {
                let mut sides = std::iter::zip(input.sides(), other.sides());
                sides.all(|(a, b)| fits(a, b))
            };
            if !first.is_none_or(fits) {
                operator.others = vec![own];
            }
        }
        OperatorKind::Conv2d(conv) => {
            let output = conv.window.output(input.extent()).ok();
            if first.is_some_and(|other| Some(other.extent()) != output) {
                operator.others.clear();
            }
        }
        OperatorKind::Gather(gather) => {
            let ids = &mut operator.others;
            fit_gather((own, input), (ids, others), &mut gather.runs);
        }
        OperatorKind::Attention(_) => {
            let channels = |at: usize| others.get(at).map(|other| other.channels);
            let mut extents = others.iter().map(|other| other.extent());
            let alike = extents.all(|extent| Some(extent) == first.map(|o| o.extent()));
            if channels(0) != Some(input.channels)
                || channels(2).is_some_and(|mask| mask != 1)
                || !alike
            {
                operator.others = vec![own, own];
            }
        }
        OperatorKind::Recurrent(layer) => {
            let hidden = input.channels / layer.cell.gates() * layer.cell.values();
            if first.is_some_and(|other| *other != Tensor::features(hidden)) {
                operator.others.clear();
            }
        }
        _ => {}
    }
}

/// Sources of other rows or columns are the first one again; runs lie in their sources.
fn fit_gather(
    (own, input): (TensorId, Tensor),
    (ids, others): (&mut Vec<TensorId>, &[Tensor]),
    runs: &mut [ChannelRun],
) {
    for (id, other) in ids.iter_mut().zip(others) {
        if other.extent() != input.extent() {
            *id = own;
        }
    }
    ids.truncate(GATHER_SOURCES_MAX - 1);
    for run in runs {
        run.source = run.source.min(ids.len() as u8);
        let channels = match usize::from(run.source).checked_sub(1) {
            Some(at) if ids[at] != own => others[at].channels,
            _ => input.channels,
        };
        run.first = run.first.min(channels - 1);
        run.count = run.count.clamp(1, channels - run.first);
    }
}

/// Figures that must divide a size, or lie below it.
fn fit_figures(operator: &mut Operator, input: Tensor) {
    match &mut operator.kind {
        OperatorKind::Binary(binary) => {
            let fit = |own: u32, of: u32| if own == of || of == 1 { own } else { 1 };
            binary.constant = binary.constant.map(|shape| Tensor {
                channels: fit(shape.channels, input.channels),
                height: fit(shape.height, input.height),
                width: fit(shape.width, input.width),
            });
        }
        OperatorKind::Conv2d(Conv2d { groups, .. })
        | OperatorKind::QuantisedConv2d(QuantisedConv2d { groups, .. })
            if *groups == 0 || !input.channels.is_multiple_of(*groups) =>
        {
            *groups = 1;
        }
        OperatorKind::Softmax(Softmax { digit, .. }) => {
            if let Some(axis) = digit.axis.index()
                && !input.sides()[axis].is_multiple_of((digit.step * digit.extent).max(1))
            {
                (digit.step, digit.extent) = (1, input.sides()[axis]);
            }
        }
        OperatorKind::TopK(top) => top.count = top.count.clamp(1, input.width),
        OperatorKind::Attention(attention) => {
            if attention.heads == 0 || !input.channels.is_multiple_of(attention.heads) {
                attention.heads = 1;
            }
            attention.bias = None;
            operator.weights.clear();
        }
        OperatorKind::Copy(Copy { pieces })
            if operator.others.is_empty() && operator.weights.is_empty() =>
        {
            let inside = pieces.iter().all(|piece| piece.view.lies_in(input.sides()));
            if !inside {
                *pieces = vec![Piece::whole(View::plain(input.sides()), input.sides())];
            }
        }
        OperatorKind::Detections(list) => {
            list.decoder.candidates = list.decoder.candidates.min(input.channels);
        }
        _ => {}
    }
}

/// Whether what it writes is bytes follows from what it reads, but for conversions and convolutions.
fn elements(network: &mut Network, operator: &Operator) {
    let of = network.quantisation(operator.input);
    let bytes = &mut network.quantised.tensors;
    match operator.kind {
        OperatorKind::Convert(_) | OperatorKind::QuantisedConv2d(_) => {}
        OperatorKind::Copy(_) | OperatorKind::Resize(_) => match of {
            Some(of) => drop(bytes.insert(operator.output, of)),
            None => drop(bytes.remove(&operator.output)),
        },
        _ => match of {
            Some(of) => drop(bytes.entry(operator.output).or_insert(of)),
            None => drop(bytes.remove(&operator.output)),
        },
    }
}

/// Most weights of a range: what a small network needs.
const WEIGHTS_MAX: u64 = 1 << 18;

/// Weights of the lengths that the shapes ask for: their own, or new ones.
fn weights(
    network: &mut Network,
    operator: &mut Operator,
    wanted: &[u64],
    random: &mut Random,
) -> Option<()> {
    let integers = operator.kind.integers();
    let none = WeightRange { start: 0, len: 0 };
    operator.weights.resize(wanted.len(), none);
    // Values of a variance that keeps the scale of activations.
    let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
        return Some(());
    };
    let fan_in = (first / last.max(1)).max(3);
    for (at, range) in operator.weights.iter_mut().enumerate() {
        let is_integer = at < integers;
        let scale = match at {
            0 => (3.0 / fan_in as f32).sqrt(),
            _ => 0.4,
        };
        let values = match integers > 0 && at == integers {
            // What a step of i8 is worth.
            true => 0.001..0.01,
            false => -scale..scale,
        };
        let len = u32::try_from(wanted[at]).ok();
        let len = len.filter(|_| wanted[at] <= WEIGHTS_MAX)?;
        let there = match is_integer {
            true => network.quantised.weights.len(),
            false => network.weights.len(),
        };
        if range.len == len && u64::from(range.start) + wanted[at] <= there as u64 {
            continue;
        }
        let start = there as u32;
        *range = WeightRange { start, len };
        if is_integer {
            let drawn = random.bytes(len as usize).into_iter();
            let integers = &mut network.quantised.weights;
            integers.extend(drawn.map(|byte| byte as i8));
        } else {
            let length = values.end - values.start;
            let drawn = (0..len).map(|_| values.start + random.unit_f32() * length);
            network.weights.to_mut().extend(drawn);
        }
    }
    Some(())
}
