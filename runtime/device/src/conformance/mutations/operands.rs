//! What operators read: other tensors, in another order, constants, channels and pieces.

use punctual_model::{ChannelRun, Copy, Gather, Network, OperatorKind, Tensor, TensorId};
use punctual_types::{BinaryFunction, Random};

use super::{any, fields, graph};

/// Another tensor for one that an operator reads: mostly one of the same shape.
pub(super) fn replace(network: &mut Network, random: &mut Random) -> Option<String> {
    let place = graph::any_operator(network, random)?;
    let there = if random.one_in(24) {
        (0..network.tensors.len() as u32 + 2)
            .map(TensorId)
            .collect()
    } else {
        graph::written_before(network, place)
    };
    let operator = &network.stages[place.0].operators[place.1];
    let at = random.below(operator.reads().count() as u64) as usize;
    let old = operator.reads().nth(at)?;
    let shape = network.tensors.get(old.index());
    let same = |id: &TensorId| *id != old && network.tensors.get(id.index()) == shape;
    let equal: Vec<TensorId> = there.iter().copied().filter(same).collect();
    let new = match random.one_in(3) {
        true => any(&there, random),
        false => any(&equal, random),
    }?;
    let operator = &mut network.stages[place.0].operators[place.1];
    *operator.reads_mut().nth(at)? = new;
    Some(format!(
        "{} reads {new:?} instead of {old:?}",
        operator.name
    ))
}

/// Two tensors that an operator reads change places.
pub(super) fn exchange(network: &mut Network, random: &mut Random) -> Option<String> {
    let (stage, at) = graph::find(network, random, |each| each.reads().count() > 1)?;
    let operator = &mut network.stages[stage].operators[at];
    let others = &mut operator.others;
    let (a, b) = (
        random.below(others.len() as u64) as usize,
        random.below(others.len() as u64) as usize,
    );
    match a == b {
        true => std::mem::swap(&mut operator.input, &mut others[a]),
        false => others.swap(a, b),
    }
    Some(format!("operands of {} are exchanged", operator.name))
}

/// A function of two with its operands swapped, another function, or another second operand.
pub(super) fn binary(network: &mut Network, random: &mut Random) -> Option<String> {
    let place = graph::find(network, random, |each| {
        let mut reads = each.reads();
        matches!(each.kind, OperatorKind::Binary(_))
            && reads.all(|read| network.quantisation(read).is_none())
    })?;
    let there = graph::written_before(network, place);
    let input = network.stages[place.0].operators[place.1].input;
    let input = *network.tensors.get(input.index())?;
    let operator = &mut network.stages[place.0].operators[place.1];
    let OperatorKind::Binary(binary) = &mut operator.kind else {
        return None;
    };
    match random.below(6) {
        0 | 1 => binary.swapped = !binary.swapped,
        2 => binary.function = function_of_two(random),
        3 => {
            binary.constant = Some(constant(input, random));
            operator.others.clear();
        }
        4 => {
            binary.constant = None;
            operator.weights.clear();
            operator.others = vec![any(&there, random)?];
        }
        _ => binary.activation = fields::activation(random),
    }
    Some(format!("{} is {:?}", operator.name, operator.kind))
}

/// The shape of constants that fit the operator's input, whole or repeated along any axis; sometimes larger than it.
pub(super) fn constant(input: Tensor, random: &mut Random) -> Tensor {
    let side = |side: u32, random: &mut Random| match random.below(4) {
        0 | 1 => 1,
        2 if side == 1 => 1 + random.below(6) as u32,
        _ => side,
    };
    Tensor {
        channels: side(input.channels, random),
        height: side(input.height, random),
        width: side(input.width, random),
    }
}

pub(super) fn function_of_two(random: &mut Random) -> BinaryFunction {
    let all = BinaryFunction::ALL;
    all[random.below(all.len() as u64) as usize]
}

/// A gather's runs: other sources and channels, repeated, left out, in another order, or one only.
pub(super) fn gather(network: &mut Network, random: &mut Random) -> Option<String> {
    let place = graph::find(network, random, |each| {
        matches!(each.kind, OperatorKind::Gather(_))
    })?;
    let there = graph::written_before(network, place);
    let tensors = network.tensors.clone();
    let operator = &mut network.stages[place.0].operators[place.1];
    let OperatorKind::Gather(Gather { runs }) = &mut operator.kind else {
        return None;
    };
    let others = &mut operator.others;
    let at = random.below(runs.len() as u64) as usize;
    let size = tensors.get(operator.input.index())?.extent();
    let below = |limit: u32, random: &mut Random| random.below(u64::from(limit.max(1))) as u32;
    match random.below(9) {
        0 => runs[at].source = random.below(others.len() as u64 + 2) as u8,
        1 => runs[at].first = below(runs[at].first + runs[at].count, random),
        2 => runs[at].count = 1 + below(runs[at].count + 1, random),
        3 => runs.insert(at, runs[random.below(runs.len() as u64) as usize]),
        4 if runs.len() > 1 => drop(runs.remove(at)),
        5 => {
            let other = random.below(runs.len() as u64) as usize;
            runs.swap(at, other);
        }
        6 => {
            let fits = |id: &TensorId| tensors.get(id.index()).is_some_and(|t| t.extent() == size);
            let fitting: Vec<TensorId> = there.into_iter().filter(fits).collect();
            let source = any(&fitting, random)?;
            others.push(source);
            runs.push(ChannelRun {
                source: others.len() as u8,
                first: 0,
                count: tensors[source.index()].channels,
            });
        }
        7 => {
            // One run, of any source.
            let source = random.below(others.len() as u64 + 1) as u8;
            let lanes = [1, 4, 8, 16][random.below(4) as usize];
            let first = lanes * below(3, random);
            let count = 1 + below(24, random);
            *runs = vec![ChannelRun {
                source,
                first,
                count,
            }];
        }
        _ => {
            let ChannelRun {
                source,
                first,
                count,
            } = runs[at];
            let cut = 1 + below(count, random);
            runs[at].count = cut;
            let (first, count) = (first + cut, count - cut.min(count));
            runs.insert(
                at + 1,
                ChannelRun {
                    source,
                    first,
                    count,
                },
            );
        }
    }
    Some(format!("{} is {:?}", operator.name, operator.kind))
}

/// A copy's pieces: other sources, starts, orders and places.
pub(super) fn copy(network: &mut Network, random: &mut Random) -> Option<String> {
    let (stage, at) = graph::find(network, random, |each| {
        matches!(each.kind, OperatorKind::Copy(_))
    })?;
    let operator = &mut network.stages[stage].operators[at];
    let OperatorKind::Copy(Copy { pieces }) = &mut operator.kind else {
        return None;
    };
    let (at, other) = (
        random.below(pieces.len() as u64) as usize,
        random.below(pieces.len() as u64) as usize,
    );
    let axis = random.below(3) as usize;
    let digits = pieces[at].view.digits.len() as u64;
    let (a, b) = (random.below(digits) as usize, random.below(digits) as usize);
    match random.below(7) {
        0 => pieces[at].source = random.below(3) as u8,
        1 => pieces[at].view.start[axis] = random.below(3) as u32,
        2 => pieces[at].view.digits.swap(a, b),
        3 => {
            let (first, second) = (pieces[at].at, pieces[other].at);
            (pieces[at].at, pieces[other].at) = (second, first);
        }
        4 => {
            let digit = pieces[at].view.digits.get_mut(a)?;
            digit.step = random.below(4) as u32;
        }
        5 => {
            // Of a sample of the values, in their order.
            let digit = pieces[at].view.digits.get_mut(a)?;
            digit.axis = fields::axis(random);
        }
        _ => pieces[at].sizes.swap(axis, (axis + 1) % 3),
    }
    Some(format!("{} is {:?}", operator.name, operator.kind))
}
