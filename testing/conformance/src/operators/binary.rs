//! Functions of two values.

use std::iter::zip;

use punctual_model::{Binary, Network, OperatorKind, Tensor, TensorId};
use punctual_types::BinaryFunction;

use super::attributes::activation;
use super::{Builder, Mutable, Operator, Random, Reads, Site, any, below, graph, pick};

impl Builder {
    /// Of two tensors, each repeated where it has one channel, row or column.
    pub fn binary(&mut self, function: BinaryFunction, a: TensorId, b: TensorId) -> TensorId {
        self.push(&[a, b], Binary::new(function))
    }

    pub fn add(&mut self, input: TensorId, other: TensorId) -> TensorId {
        self.binary(BinaryFunction::Add, input, other)
    }

    /// `other` has the input's shape, or one value a channel.
    pub fn multiply(&mut self, input: TensorId, other: TensorId) -> TensorId {
        self.binary(BinaryFunction::Multiply, input, other)
    }

    /// Of a tensor and constants of this shape, which come first if they are swapped.
    pub fn with_constant(
        &mut self,
        function: BinaryFunction,
        input: TensorId,
        shape: Tensor,
        swapped: bool,
    ) -> TensorId {
        let values = self.draw(shape.elements() as u32, 3);
        let binary = Binary {
            constant: Some(shape),
            swapped,
            ..Binary::new(function)
        };
        self.push_weighted(&[input], binary, &[values])
    }
}

/// Of the input, and of another tensor or of constants.
pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    if random.one_in(2) {
        return of_two(site, random);
    }
    let constant = Some(constant(site.shape, random));
    let of_one = Binary {
        constant,
        ..drawn(random)
    };
    site.operator(&[], of_one)
}

/// Of the input and another tensor.
pub fn of_two(site: &Site<'_>, random: &mut Random) -> Operator {
    site.operator(&[site.other(random)], drawn(random))
}

fn drawn(random: &mut Random) -> Binary {
    Binary {
        function: pick(&BinaryFunction::ALL, random),
        constant: None,
        swapped: random.one_in(2),
        activation: activation(random),
    }
}

/// The shape of constants that fit the operator's input, whole or repeated along any axis; sometimes larger than it.
fn constant(input: Tensor, random: &mut Random) -> Tensor {
    Tensor::of_sides(input.sides().map(|side| match random.below(4) {
        0 | 1 => 1,
        2 if side == 1 => 1 + below(6, random),
        _ => side,
    }))
}

/// A function with its operands swapped, another function, or another second operand.
pub(super) fn reread(network: &mut Network, random: &mut Random) -> Option<String> {
    let place = graph::find(network, random, |each| {
        let mut reads = each.reads();
        matches!(each.kind, OperatorKind::Binary(_))
            && reads.all(|read| network.quantisation(read).is_none())
    })?;
    let there = graph::written_before(network, place);
    let operator = &mut network.stages[place.0].operators[place.1];
    let OperatorKind::Binary(binary) = &mut operator.kind else {
        return None;
    };
    let input = *network.tensors.get(operator.input.index())?;
    match random.below(6) {
        0 | 1 => binary.swapped = !binary.swapped,
        2 => binary.function = pick(&BinaryFunction::ALL, random),
        3 => {
            binary.constant = Some(constant(input, random));
            operator.others.clear();
        }
        4 => {
            binary.constant = None;
            operator.weights.clear();
            operator.others = vec![any(&there, random)?];
        }
        _ => binary.activation = activation(random),
    }
    Some(format!("{} is {:?}", operator.name, operator.kind))
}

impl Mutable for Binary {
    /// Another operand is the input again, or constants are repeated, where they cannot be combined with the input.
    fn fit(&mut self, reads: &mut Reads<'_>) {
        let shape = reads.shape;
        let fits = |other: &Tensor| {
            zip(shape.sides(), other.sides()).all(|(a, b)| a == b || a == 1 || b == 1)
        };
        if !reads.shapes().first().is_none_or(fits) {
            *reads.others = vec![reads.input];
        }
        if let Some(constant) = &mut self.constant {
            let mut sides = constant.sides();
            for (own, of) in zip(&mut sides, shape.sides()) {
                *own = if *own == of || of == 1 { *own } else { 1 };
            }
            *constant = Tensor::of_sides(sides);
        }
    }
}
