//! Shapes, weights and lists that follow from a change.

use std::ops::Range;

use punctual_model::{
    ChannelRun, GATHER_SOURCES_MAX, Network, Operator, OperatorKind, SecondOperand, Tensor,
    TensorId, WeightRange,
};
use punctual_types::{Piece, Random, View, Window};

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
    let others: Option<Vec<Tensor>> = operator.kind.others().iter().copied().map(shape).collect();
    fit_operands(operator, input, &others?);
    fit_figures(&mut operator.kind, input);
    let others: Option<Vec<Tensor>> = operator.kind.others().iter().copied().map(shape).collect();
    let others = others?;
    let depthwise = match operator.kind {
        OperatorKind::Conv2d { groups, .. } => groups == input.channels && groups > 1,
        _ => false,
    };
    let channels = if depthwise {
        input.channels
    } else {
        declared.channels
    };
    let output = operator.kind.output_shape(input, channels, &others).ok()?;
    if output.elements() > ELEMENTS_MAX {
        return None;
    }
    network.tensors[operator.output.index()] = output;
    elements(network, operator);
    weights(network, operator, [input, output], &others, random)
}

/// What is read besides the input, where its shape cannot be: left out, or the input again.
fn fit_operands(operator: &mut Operator, input: Tensor, others: &[Tensor]) {
    let own = operator.input;
    match &mut operator.kind {
        OperatorKind::Add { other, .. } if others[0] != input => *other = own,
        OperatorKind::Multiply { other, .. }
            if others[0] != input && others[0] != Tensor::features(input.channels) =>
        {
            *other = own;
        }
        OperatorKind::Binary {
            second: SecondOperand::Tensor(other),
            ..
        } => {
            let fits = |a: u32, b: u32| a == b || a == 1 || b == 1;
            let mut sides = std::iter::zip(input.sides(), others[0].sides());
            if !sides.all(|(a, b)| fits(a, b)) {
                *other = own;
            }
        }
        OperatorKind::Conv2d {
            residual, window, ..
        } => {
            let output = window.output(input.extent()).ok();
            if others
                .first()
                .is_some_and(|other| Some(other.extent()) != output)
            {
                *residual = None;
            }
        }
        OperatorKind::Gather { others: ids, runs } => fit_gather((own, input), (ids, others), runs),
        OperatorKind::Attention { others: ids, .. } => {
            let channels = |at: usize| others.get(at).map(|other| other.channels);
            let extents = others.iter().map(|other| other.extent());
            let alike = extents
                .clone()
                .all(|extent| Some(extent) == others.first().map(|o| o.extent()));
            if channels(0) != Some(input.channels)
                || channels(2).is_some_and(|mask| mask != 1)
                || !alike
            {
                *ids = vec![own, own];
            }
        }
        OperatorKind::Recurrent { initial, cell, .. } => {
            let hidden = input.channels / cell.gates() * cell.values();
            if others
                .first()
                .is_some_and(|other| *other != Tensor::features(hidden))
            {
                *initial = None;
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
fn fit_figures(kind: &mut OperatorKind, input: Tensor) {
    match kind {
        OperatorKind::Binary {
            second: SecondOperand::Constant { shape, .. },
            ..
        } => {
            let fit = |own: u32, of: u32| if own == of || of == 1 { own } else { 1 };
            *shape = Tensor {
                channels: fit(shape.channels, input.channels),
                height: fit(shape.height, input.height),
                width: fit(shape.width, input.width),
            };
        }
        OperatorKind::Conv2d { groups, .. } | OperatorKind::QuantisedConv2d { groups, .. }
            if *groups == 0 || !input.channels.is_multiple_of(*groups) =>
        {
            *groups = 1;
        }
        OperatorKind::Softmax { digit, .. } => {
            if let Some(axis) = digit.axis.index()
                && !input.sides()[axis].is_multiple_of((digit.step * digit.extent).max(1))
            {
                (digit.step, digit.extent) = (1, input.sides()[axis]);
            }
        }
        OperatorKind::Token { column } => *column %= input.width,
        OperatorKind::TopK { count, .. } => *count = (*count).clamp(1, input.width),
        OperatorKind::Attention { heads, bias, .. } => {
            if *heads == 0 || !input.channels.is_multiple_of(*heads) {
                *heads = 1;
            }
            *bias = None;
        }
        OperatorKind::Copy {
            others,
            table: None,
            pieces,
        } if others.is_empty() => {
            let inside = pieces.iter().all(|piece| piece.view.lies_in(input.sides()));
            if !inside {
                *pieces = vec![Piece::whole(View::plain(input.sides()), input.sides())];
            }
        }
        OperatorKind::Detections { decoder, .. } => {
            decoder.candidates = decoder.candidates.min(input.channels);
        }
        _ => {}
    }
}

/// Whether what it writes is bytes follows from what it reads, but for conversions and convolutions.
fn elements(network: &mut Network, operator: &Operator) {
    let of = network.quantisation(operator.input);
    let bytes = &mut network.quantised.tensors;
    match operator.kind {
        OperatorKind::Convert | OperatorKind::QuantisedConv2d { .. } => {}
        OperatorKind::Copy { .. } | OperatorKind::Resize { .. } => match of {
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
    shapes: [Tensor; 2],
    others: &[Tensor],
    random: &mut Random,
) -> Option<()> {
    let wanted = lengths(&operator.kind, shapes, others)?;
    let ranges = operator.kind.weight_ranges_mut();
    for (range, (wanted, values)) in ranges.zip(wanted) {
        let len = u32::try_from(wanted)
            .ok()
            .filter(|_| wanted <= WEIGHTS_MAX)?;
        let there = network.weights.len();
        if range.len != len || u64::from(range.start) + wanted > there as u64 {
            let start = there as u32;
            *range = WeightRange { start, len };
            let length = values.end - values.start;
            let drawn = (0..len).map(|_| values.start + random.unit_f32() * length);
            network.weights.to_mut().extend(drawn);
        }
    }
    if let OperatorKind::QuantisedConv2d {
        weights,
        window,
        groups,
        ..
    } = &mut operator.kind
    {
        let [input, output] = shapes;
        let wanted = u64::from(output.channels) * fan_in(input, *groups, window);
        weights.len = u32::try_from(wanted)
            .ok()
            .filter(|_| wanted <= WEIGHTS_MAX)?;
        let missing = (weights.start + weights.len) as usize;
        let missing = missing.saturating_sub(network.quantised.weights.len());
        let drawn = random.bytes(missing).into_iter().map(|byte| byte as i8);
        network.quantised.weights.extend(drawn);
    }
    Some(())
}

fn fan_in(input: Tensor, groups: u32, window: &Window) -> u64 {
    u64::from(input.channels / groups) * window.kernel.area() as u64
}

/// How many values each range of an operator's weights needs, and between which new ones lie.
fn lengths(
    kind: &OperatorKind,
    [input, output]: [Tensor; 2],
    others: &[Tensor],
) -> Option<Vec<(u64, Range<f32>)>> {
    let (inputs, channels) = (u64::from(input.channels), u64::from(output.channels));
    // Values of a variance that keeps the scale of activations.
    let of = |len: u64, fan_in: u64| {
        let scale = (3.0 / fan_in.max(1) as f32).sqrt();
        (len, -scale..scale)
    };
    Some(match kind {
        OperatorKind::Conv2d { window, groups, .. } => {
            let fan_in = fan_in(input, *groups, window);
            vec![of(channels * fan_in, fan_in), of(channels, 16)]
        }
        OperatorKind::QuantisedConv2d { .. } => vec![(channels, 0.001..0.01), of(channels, 16)],
        OperatorKind::Linear { .. } => {
            let fan_in = input.elements();
            vec![of(channels * fan_in, fan_in), of(channels, 16)]
        }
        OperatorKind::LayerNorm { .. } => vec![of(channels, 3), of(channels, 3)],
        OperatorKind::Recurrent { cell, .. } => {
            let hidden = inputs / u64::from(cell.gates());
            vec![of(inputs * hidden, hidden), of(inputs, 16)]
        }
        OperatorKind::Embedding { table } => {
            let rows = (u64::from(table.len) / channels).max(1);
            vec![of(rows * channels, 3)]
        }
        OperatorKind::Tokens { .. } => vec![of(output.elements(), 3)],
        OperatorKind::Binary {
            second: SecondOperand::Constant { shape, .. },
            ..
        } => {
            vec![of(shape.elements(), 3)]
        }
        OperatorKind::Attention {
            bias: Some(bias),
            heads,
            by_row,
            ..
        } => {
            let expected = bias.elements([input, *others.first()?], *heads, *by_row);
            vec![of(expected, 3)]
        }
        _ => Vec::new(),
    })
}
