//! Operators and vectors that were not there.

use punctual_model::{
    Network, Operator, Tensor, TensorId, VECTOR_LENGTH_MAX, VECTORS_MAX, VectorSpec,
};
use punctual_types::Random;

use super::super::drawing::{any, below, index, pick};
use super::super::graph;
use super::super::operators::{self, Site};

/// An operator of any kind, whose result somebody reads in place of what he read before.
pub(super) fn operator(network: &mut Network, random: &mut Random) -> Option<String> {
    let place = graph::any_operator(network, random)?;
    let there = graph::written_before(network, place);
    let own = network.stages[place.0].operators[place.1].input;
    let input = pick(&[own, any(&there, random)?], random);
    let new = operators::new(&Site::new(network, input, &there)?, random);
    insert(network, place, new, random)
}

/// Puts an operator before the one at `place`, and gives its result to that one or to another that comes later.
fn insert(
    network: &mut Network,
    (stage, at): (usize, usize),
    new: Operator,
    random: &mut Random,
) -> Option<String> {
    let (input, output) = (new.input, new.output);
    network.tensors.push(*network.tensors.get(input.index())?);
    if let Some(of) = network.quantisation(input) {
        network.quantised.tensors.insert(output, of);
    }
    let what = format!("{} {output:?} of {input:?} is {:?}", new.name, new.kind);
    let operators = &mut network.stages[stage].operators;
    let readers: Vec<usize> = (at..operators.len())
        .filter(|&each| operators[each].reads().any(|read| read == input))
        .collect();
    let reader = any(&readers, random).unwrap_or(at);
    let reader = &mut operators[reader];
    let old = if reader.reads().any(|read| read == input) {
        input
    } else {
        reader.input
    };
    let reads = reader.reads_mut();
    let mut reads: Vec<&mut TensorId> = reads.filter(|read| **read == old).collect();
    let which = index(reads.len(), random);
    *reads[which] = output;
    operators.insert(at, new);
    Some(what)
}

/// A vector that comes with the input, or another length of one; an operator reads it.
pub(super) fn vector(network: &mut Network, random: &mut Random) -> Option<String> {
    let count = network.vectors.len();
    if count >= VECTORS_MAX {
        return None;
    }
    let place = graph::any_operator(network, random)?;
    let operator = &network.stages[place.0].operators[place.1];
    let shape = network.tensors.get(operator.input.index())?;
    let length = match random.below(3) {
        0 => 1 + below(40, random),
        _ => shape.channels.min(VECTOR_LENGTH_MAX),
    };
    let names = [0, 1, 2, 3, 4].map(|at| format!("vector {at}"));
    let mut names = names.into_iter();
    let name = names.find(|name| network.vectors.iter().all(|vector| vector.name != *name))?;
    network.vectors.push(VectorSpec { name, length });
    graph::insert_tensor(network, count + 1, Tensor::features(length));
    let vector = TensorId(count as u32 + 1);
    let operator = &network.stages[place.0].operators[place.1];
    let reader = operator.input;
    let what = match random.below(5) {
        // Together with what the operator reads: added to each channel.
        0 | 1 => {
            let new = operators::binary::of_two(&Site::new(network, reader, &[vector])?, random);
            insert(network, place, new, random)?
        }
        2 => {
            network.stages[place.0].operators[place.1].input = vector;
            "read first".to_owned()
        }
        // As an image of one pixel, which is padded; as anything.
        _ => {
            let there = [vector, reader];
            let new = operators::of_vector(&Site::new(network, vector, &there)?, random);
            insert(network, place, new, random)?
        }
    };
    Some(format!("a vector of {length} is {vector:?}; {what}"))
}
