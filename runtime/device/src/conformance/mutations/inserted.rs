//! Operators and vectors that were not there.

use punctual_model::{
    ChannelRun, Network, Operator, OperatorKind, SecondOperand, Tensor, TensorId, VECTORS_MAX,
    VectorSpec, WeightRange,
};
use punctual_types::{Axis, Piece, Random, View};

use super::{any, fields, graph, operands};

/// Filled when the network is repaired.
const RANGE: WeightRange = WeightRange { start: 0, len: 0 };

/// An operator of any kind, whose result somebody reads in place of what he read before.
pub(super) fn operator(network: &mut Network, random: &mut Random) -> Option<String> {
    let place = graph::any_operator(network, random)?;
    let there = graph::written_before(network, place);
    let own = network.stages[place.0].operators[place.1].input;
    let input = match random.one_in(2) {
        true => own,
        false => any(&there, random)?,
    };
    let shape = *network.tensors.get(input.index())?;
    let is_bytes = network.quantisation(input).is_some();
    let kind = match random.below(4) {
        _ if is_bytes => of_bytes(shape, random),
        0 => computed(shape, random),
        1 => moved(shape, input, &there, network, random)?,
        2 => of_two(&there, shape, random)?,
        _ => weighted(shape, random),
    };
    insert(network, place, input, kind, random)
}

/// Puts an operator before the one at `place`, and gives its result to that one or to another that comes later.
fn insert(
    network: &mut Network,
    (stage, at): (usize, usize),
    input: TensorId,
    kind: OperatorKind,
    random: &mut Random,
) -> Option<String> {
    let output = graph::new_tensor(network, *network.tensors.get(input.index())?);
    if let Some(of) = network.quantisation(input) {
        network.quantised.tensors.insert(output, of);
    }
    let name = format!("inserted {}", output.0);
    let what = format!("{name} {output:?} of {input:?} is {kind:?}");
    let operators = &mut network.stages[stage].operators;
    let readers: Vec<usize> = (at..operators.len())
        .filter(|&each| operators[each].reads().any(|read| read == input))
        .collect();
    let reader = any(&readers, random).unwrap_or(at);
    let reader = &mut operators[reader];
    let old = match reader.reads().any(|read| read == input) {
        true => input,
        false => reader.input,
    };
    let others = reader.kind.others_mut().iter_mut();
    let mut reads: Vec<&mut TensorId> = others
        .chain([&mut reader.input])
        .filter(|read| **read == old)
        .collect();
    let which = random.below(reads.len() as u64) as usize;
    *reads[which] = output;
    let new = Operator {
        name,
        input,
        output,
        kind,
    };
    operators.insert(at, new);
    Some(what)
}

/// A convolution, dense or depthwise.
fn convolution(shape: Tensor, random: &mut Random) -> OperatorKind {
    OperatorKind::Conv2d {
        weights: RANGE,
        bias: RANGE,
        window: fields::window(random),
        groups: match random.one_in(3) {
            true => shape.channels,
            false => 1,
        },
        residual: None,
        activation: fields::activation(random),
    }
}

fn weighted(shape: Tensor, random: &mut Random) -> OperatorKind {
    let activation = fields::activation(random);
    match random.below(6) {
        0 | 1 => convolution(shape, random),
        2 => OperatorKind::LayerNorm {
            scale: RANGE,
            bias: RANGE,
            epsilon: 1e-5,
        },
        3 => OperatorKind::Linear {
            weights: RANGE,
            bias: RANGE,
            activation,
        },
        4 => OperatorKind::Tokens {
            prefix: random.below(3) as u32,
            table: RANGE,
        },
        _ => pool(random),
    }
}

fn pool(random: &mut Random) -> OperatorKind {
    let window = fields::window(random);
    match random.one_in(4) {
        true => OperatorKind::GlobalAveragePool,
        false => OperatorKind::Pool {
            kind: fields::pool_kind(random),
            kernel: window.kernel,
            stride: window.stride,
            padding: window.padding,
        },
    }
}

fn of_bytes(shape: Tensor, random: &mut Random) -> OperatorKind {
    match random.below(4) {
        0 => OperatorKind::Convert,
        1 => pool(random),
        2 => OperatorKind::Resize {
            resampling: fields::resampling(random),
        },
        _ => copy(shape, random),
    }
}

fn computed(shape: Tensor, random: &mut Random) -> OperatorKind {
    match random.below(5) {
        0 => OperatorKind::Unary {
            function: fields::unary(random),
        },
        1 => {
            let (size, axis) = match random.below(3) {
                0 => (shape.channels, Axis::Channel),
                1 => (shape.height, Axis::Row),
                _ => (shape.width, Axis::Column),
            };
            OperatorKind::Softmax {
                digit: fields::digit(size, axis, random),
                logarithm: random.one_in(3),
            }
        }
        2 => OperatorKind::Resize {
            resampling: fields::resampling(random),
        },
        3 => OperatorKind::TopK {
            axis: [Axis::Channel, Axis::Column][random.below(2) as usize],
            count: 1 + random.below(4) as u32,
            ranking: fields::ranking(random),
        },
        _ => OperatorKind::Token {
            column: random.below(shape.width.into()) as u32,
        },
    }
}

fn moved(
    shape: Tensor,
    input: TensorId,
    there: &[TensorId],
    network: &Network,
    random: &mut Random,
) -> Option<OperatorKind> {
    if random.one_in(3) {
        return Some(copy(shape, random));
    }
    let fits = |id: &&TensorId| {
        let other = network.tensors.get(id.index());
        other.is_some_and(|other| other.extent() == shape.extent())
            && network.quantisation(**id).is_none()
    };
    let fitting: Vec<TensorId> = there.iter().filter(fits).copied().collect();
    let others: Vec<TensorId> = (0..random.below(3))
        .filter_map(|_| any(&fitting, random))
        .collect();
    let sources = [input]
        .into_iter()
        .chain(others.iter().copied())
        .enumerate();
    let mut runs = Vec::new();
    for (source, id) in sources {
        let channels = network.tensors[id.index()].channels;
        let first = match random.one_in(2) {
            true => 0,
            false => random.below(channels.into()) as u32 / 4 * 4,
        };
        let count = match random.one_in(2) {
            true => channels - first,
            false => 1 + random.below((channels - first).into()) as u32,
        };
        runs.push(ChannelRun {
            source: source as u8,
            first,
            count,
        });
    }
    if random.one_in(4) {
        runs.push(*runs.first()?);
    }
    Some(OperatorKind::Gather { others, runs })
}

/// Axes in another order, from a start, or the whole and a part of it again.
fn copy(shape: Tensor, random: &mut Random) -> OperatorKind {
    let mut view = View::plain(shape.sides());
    let (a, b) = (random.below(3) as usize, random.below(3) as usize);
    view.digits.swap(a, b);
    if random.one_in(3) {
        let axis = view.digits[a].axis;
        let at = axis.index().unwrap_or(0);
        view.start[at] = random.below(view.digits[a].extent.into()) as u32;
        view.digits[a].extent -= view.start[at];
    }
    let sizes = [0, 1, 2].map(|at| view.digits[at].extent);
    let mut pieces = vec![Piece::whole(view, sizes)];
    if random.one_in(3) {
        let mut again = pieces[0].clone();
        let axis = random.below(3) as usize;
        again.at[axis] = sizes[axis];
        pieces.push(again);
    }
    OperatorKind::Copy {
        others: Vec::new(),
        table: None,
        pieces,
    }
}

fn of_two(there: &[TensorId], shape: Tensor, random: &mut Random) -> Option<OperatorKind> {
    let other = any(there, random)?;
    Some(match random.below(8) {
        0 => OperatorKind::Product { other },
        1 => OperatorKind::GridSample {
            grid: other,
            groups: 1,
            sampling: fields::sampling(random),
        },
        2 => OperatorKind::Take {
            indices: other,
            axis: [Axis::Channel, Axis::Row, Axis::Column][random.below(3) as usize],
        },
        3 => OperatorKind::Attention {
            others: vec![other, other],
            heads: 1 + random.below(3) as u32,
            scale: 0.3,
            by_row: random.one_in(2),
            bias: None,
        },
        _ => OperatorKind::Binary {
            function: operands::function_of_two(random),
            second: match random.one_in(2) {
                true => SecondOperand::Tensor(other),
                false => operands::constant(shape, random),
            },
            swapped: random.one_in(2),
            activation: fields::activation(random),
        },
    })
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
        0 => 1 + random.below(40) as u32,
        _ => shape.channels.min(256),
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
        // Beside what the operator reads: added to each channel.
        0 | 1 => {
            let kind = OperatorKind::Binary {
                function: operands::function_of_two(random),
                second: SecondOperand::Tensor(vector),
                swapped: random.one_in(2),
                activation: fields::activation(random),
            };
            insert(network, place, reader, kind, random)?
        }
        2 => {
            network.stages[place.0].operators[place.1].input = vector;
            "read first".to_owned()
        }
        // As an image of one pixel, which is padded; as anything.
        _ => {
            let shape = Tensor::features(length);
            let kind = match random.below(4) {
                0 => weighted(shape, random),
                1 => of_two(&[vector, reader], shape, random)?,
                _ => convolution(shape, random),
            };
            insert(network, place, vector, kind, random)?
        }
    };
    Some(format!("a vector of {length} is {vector:?}; {what}"))
}
