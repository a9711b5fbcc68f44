//! What operators read: other tensors, or the same in another order.

use punctual_model::{Network, TensorId};
use punctual_types::Random;

use super::super::drawing::{any, index};
use super::super::graph;

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
    let at = index(operator.reads().count(), random);
    let old = operator.reads().nth(at)?;
    let shape = network.tensors.get(old.index());
    let same = |id: &TensorId| *id != old && network.tensors.get(id.index()) == shape;
    let equal: Vec<TensorId> = there.iter().copied().filter(same).collect();
    let fitting = if random.one_in(3) { &there } else { &equal };
    let new = any(fitting, random)?;
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
    let (a, b) = (index(others.len(), random), index(others.len(), random));
    if a == b {
        std::mem::swap(&mut operator.input, &mut others[a]);
    } else {
        others.swap(a, b);
    }
    Some(format!("operands of {} are exchanged", operator.name))
}
