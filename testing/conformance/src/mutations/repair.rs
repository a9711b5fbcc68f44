//! Shapes, weights and lists that follow from a change.

use punctual_model::{Network, Operands, Operator, TensorId, WeightRange, with_operator};
use punctual_types::Random;

use super::super::graph;
use super::super::operators::{Mutable, Reads};
use super::exits;

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

/// An operator's attributes, shape, elements and weights; none if they cannot fit what it reads.
fn settle(network: &mut Network, operator: &mut Operator, random: &mut Random) -> Option<()> {
    let shape = |id: TensorId| network.tensors.get(id.index()).copied();
    let (input, declared) = (shape(operator.input)?, shape(operator.output)?);
    if operator.reads().any(|id| shape(id).is_none()) {
        return None;
    }
    let kind = &mut operator.kind;
    let mut reads = Reads {
        tensors: &network.tensors,
        input: operator.input,
        shape: input,
        others: &mut operator.others,
        weights: &mut operator.weights,
    };
    with_operator!(kind, of => of.fit(&mut reads));
    let others = reads.shapes();
    let own = || operator.weights.iter().map(|range| range.len).collect();
    let lengths = with_operator!(kind, of => of.lengths(input, declared.channels));
    let lengths = lengths.unwrap_or_else(own);
    let of = Operands {
        input,
        others: &others,
        weights: &lengths,
    };
    let output = kind.output_shape(&of).ok()?;
    if !(1..=ELEMENTS_MAX).contains(&output.elements()) {
        return None;
    }
    network.tensors[operator.output.index()] = output;
    let (read, own) = (operator.input, operator.output);
    let (read, before) = (network.quantisation(read), network.quantisation(own));
    match with_operator!(kind, of => of.bytes(read, before)) {
        Some(of) => drop(network.quantised.tensors.insert(own, of)),
        None => drop(network.quantised.tensors.remove(&own)),
    }
    let wanted = operator.kind.weight_lengths(&of, output);
    weights(network, operator, &wanted, random)
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
    for (at, (range, &wanted)) in operator.weights.iter_mut().zip(wanted).enumerate() {
        let len = u32::try_from(wanted).ok();
        let len = len.filter(|_| wanted <= WEIGHTS_MAX)?;
        let there = if at < integers {
            network.quantised.weights.len()
        } else {
            network.weights.len()
        };
        if range.len == len && u64::from(range.start) + wanted <= there as u64 {
            continue;
        }
        let start = there as u32;
        *range = WeightRange { start, len };
        if at < integers {
            let drawn = random.bytes(len as usize).into_iter();
            let integers = &mut network.quantised.weights;
            integers.extend(drawn.map(|byte| byte as i8));
            continue;
        }
        let scale = (3.0 / fan_in as f32).sqrt();
        let (low, high) = match at {
            0 => (-scale, scale),
            // What a step of i8 is worth.
            _ if at == integers => (0.001, 0.01),
            _ => (-0.4, 0.4),
        };
        let drawn = (0..len).map(|_| low + random.unit_f32() * (high - low));
        network.weights.to_mut().extend(drawn);
    }
    Some(())
}
