//! What operators hold: attributes, weights, what bytes stand for.

use punctual_model::{Network, Operator, TensorId, with_operator};
use punctual_types::{Quantisation, Random};

use super::super::drawing::{below, index, pick};
use super::super::graph;
use super::super::operators::{Mutable, attributes};

/// An attribute of any operator, or an operand or weights that it can do without, or those of another.
pub(super) fn any(network: &mut Network, random: &mut Random) -> Option<String> {
    let (stage, at) = graph::any_operator(network, random)?;
    let there = network.weights.len() as u32;
    let operator = &mut network.stages[stage].operators[at];
    let old = operator.clone();
    match random.below(12) {
        0 => drop(operator.others.pop()),
        1 => {
            let at = index(operator.weights.len(), random);
            if let Some(range) = operator.weights.get_mut(at) {
                range.start = below(1 + there, random);
            }
        }
        2 if operator.kind.activation().is_some() => {
            let activation = attributes::activation(random);
            operator.kind.set_activation(activation);
        }
        _ => with_operator!(&mut operator.kind, of => of.vary(random)),
    }
    let is_other = *operator != old;
    is_other.then(|| format!("{} is {operator:?}, was {old:?}", old.name))
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
        scale: pick(&[0.01, 0.03, 1.0, 1e-30, 0.0], random),
        zero: pick(&[0, 1, 128, 255], random),
    };
    let there: Vec<TensorId> = network.quantised.tensors.keys().copied().collect();
    let tensor = if random.one_in(4) || there.is_empty() {
        TensorId(below(network.tensors.len() as u32, random))
    } else {
        pick(&there, random)
    };
    if random.one_in(6) {
        network.quantised.tensors.remove(&tensor);
        return Some(format!("{tensor:?} is of floats"));
    }
    network.quantised.tensors.insert(tensor, of);
    Some(format!("{tensor:?} is of bytes, {of:?}"))
}
