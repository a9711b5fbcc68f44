//! Shapes, weights and lists that follow from a change.

use std::ops::Range;

use punctual_model::{
    Network, Operator, OperatorKind, SecondOperand, Tensor, TensorId, WeightRange,
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
        OperatorKind::Multiply { other, .. } => {
            if others[0] != input && others[0] != Tensor::features(input.channels) {
                *other = own;
            }
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
        OperatorKind::Gather { others: ids, runs } => {
            for (id, other) in ids.iter_mut().zip(others) {
                if other.extent() != input.extent() {
                    *id = own;
                }
            }
            ids.truncate(7);
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
        OperatorKind::Conv2d { groups, .. } | OperatorKind::QuantisedConv2d { groups, .. } => {
            if *groups == 0 || !input.channels.is_multiple_of(*groups) {
                *groups = 1;
            }
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

/// Weights of the lengths that the shapes ask for: their own, some of the network's others, or new ones.
fn weights(
    network: &mut Network,
    operator: &mut Operator,
    [input, output]: [Tensor; 2],
    others: &[Tensor],
    random: &mut Random,
) -> Option<()> {
    let channels = u64::from(output.channels);
    let mut fit = |range: &mut WeightRange, expected: u64, values: Range<f32>| {
        let len = u32::try_from(expected).ok().filter(|len| *len <= 1 << 18)?;
        let end = u64::from(range.start) + expected;
        if range.len != len || end > network.weights.len() as u64 {
            *range = WeightRange {
                start: network.weights.len() as u32,
                len,
            };
            let drawn =
                (0..len).map(|_| values.start + random.unit_f32() * (values.end - values.start));
            network.weights.to_mut().extend(drawn);
        }
        Some(())
    };
    let scaled = |fan_in: u64| {
        let scale = (3.0 / fan_in.max(1) as f32).sqrt();
        -scale..scale
    };
    match &mut operator.kind {
        OperatorKind::Conv2d {
            weights,
            bias,
            window,
            groups,
            ..
        } => {
            let fan_in = u64::from(input.channels / *groups) * window.kernel.area() as u64;
            fit(weights, channels * fan_in, scaled(fan_in))?;
            fit(bias, channels, scaled(16))
        }
        OperatorKind::QuantisedConv2d {
            weights,
            scales,
            bias,
            window,
            groups,
            ..
        } => {
            let fan_in = u64::from(input.channels / *groups) * window.kernel.area() as u64;
            fit(scales, channels, 0.001..0.01)?;
            fit(bias, channels, scaled(16))?;
            weights.len = u32::try_from(channels * fan_in)
                .ok()
                .filter(|len| *len <= 1 << 18)?;
            let end = (weights.start + weights.len) as usize;
            while network.quantised.weights.len() < end {
                let value = random.next_u64() as i8;
                network.quantised.weights.push(value);
            }
            Some(())
        }
        OperatorKind::Linear { weights, bias, .. } => {
            fit(
                weights,
                channels * input.elements(),
                scaled(input.elements()),
            )?;
            fit(bias, channels, scaled(16))
        }
        OperatorKind::LayerNorm { scale, bias, .. } => {
            fit(scale, channels, scaled(3))?;
            fit(bias, channels, scaled(3))
        }
        OperatorKind::Recurrent {
            cell,
            weights,
            bias,
            ..
        } => {
            let hidden = u64::from(input.channels / cell.gates());
            fit(weights, u64::from(input.channels) * hidden, scaled(hidden))?;
            fit(bias, u64::from(input.channels), scaled(16))
        }
        OperatorKind::Embedding { table } => {
            let rows = (u64::from(table.len) / channels).max(1);
            fit(table, rows * channels, scaled(3))
        }
        OperatorKind::Tokens { table, .. } => fit(table, output.elements(), scaled(3)),
        OperatorKind::Binary {
            second: SecondOperand::Constant { values, shape },
            ..
        } => fit(values, shape.elements(), scaled(3)),
        OperatorKind::Attention {
            bias: Some(bias),
            heads,
            by_row,
            ..
        } => {
            let expected = bias.elements([input, *others.first()?], *heads, *by_row);
            fit(&mut bias.values, expected, scaled(3))
        }
        _ => Some(()),
    }
}
