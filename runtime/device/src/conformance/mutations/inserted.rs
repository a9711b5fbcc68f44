//! Operators and vectors that were not there.

use punctual_model::{
    Attention, Binary, ChannelRun, Conv2d, Convert, Copy, Gather, GridSample, LayerNorm, Linear,
    Network, Operator, OperatorKind, Pool, Product, Resize, Softmax, Take, Tensor, TensorId,
    Tokens, TopK, Unary, VECTORS_MAX, VectorSpec,
};
use punctual_types::{Axis, Piece, Random, View};

use super::{any, fields, graph, operands};

/// An operator's attributes, and what it reads besides its input. Its weights are drawn when the network is repaired.
struct New {
    kind: OperatorKind,
    others: Vec<TensorId>,
}

impl<K: Into<OperatorKind>> From<K> for New {
    fn from(kind: K) -> Self {
        let (kind, others) = (kind.into(), Vec::new());
        Self { kind, others }
    }
}

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
    let new = match random.below(4) {
        _ if is_bytes => of_bytes(shape, random),
        0 => computed(shape, random),
        1 => moved(shape, input, &there, network, random)?,
        2 => of_two(&there, shape, random)?,
        _ => weighted(shape, random),
    };
    insert(network, place, input, new, random)
}

/// Puts an operator before the one at `place`, and gives its result to that one or to another that comes later.
fn insert(
    network: &mut Network,
    (stage, at): (usize, usize),
    input: TensorId,
    New { kind, others }: New,
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
    let reads = reader.reads_mut();
    let mut reads: Vec<&mut TensorId> = reads.filter(|read| **read == old).collect();
    let which = random.below(reads.len() as u64) as usize;
    *reads[which] = output;
    let new = Operator {
        name,
        input,
        others,
        output,
        weights: Vec::new(),
        kind,
    };
    operators.insert(at, new);
    Some(what)
}

/// A convolution, dense or depthwise.
fn convolution(shape: Tensor, random: &mut Random) -> New {
    let conv = Conv2d {
        window: fields::window(random),
        groups: match random.one_in(3) {
            true => shape.channels,
            false => 1,
        },
        activation: fields::activation(random),
    };
    conv.into()
}

fn weighted(shape: Tensor, random: &mut Random) -> New {
    let activation = fields::activation(random);
    match random.below(6) {
        0 | 1 => convolution(shape, random),
        2 => LayerNorm { epsilon: 1e-5 }.into(),
        3 => Linear { activation }.into(),
        4 => {
            let prefix = random.below(3) as u32;
            Tokens { prefix }.into()
        }
        _ => pool(shape, random),
    }
}

fn pool(shape: Tensor, random: &mut Random) -> New {
    let window = fields::window(random);
    if random.one_in(4) {
        return Pool::mean_of_all(shape.extent()).into();
    }
    let pool = Pool {
        kind: fields::pool_kind(random),
        kernel: window.kernel,
        stride: window.stride,
        padding: window.padding,
    };
    pool.into()
}

fn resize(random: &mut Random) -> New {
    let resampling = fields::resampling(random);
    Resize { resampling }.into()
}

fn of_bytes(shape: Tensor, random: &mut Random) -> New {
    match random.below(4) {
        0 => Convert.into(),
        1 => pool(shape, random),
        2 => resize(random),
        _ => copy(shape, random),
    }
}

fn computed(shape: Tensor, random: &mut Random) -> New {
    match random.below(5) {
        0 => {
            let function = fields::unary(random);
            Unary { function }.into()
        }
        1 => {
            let (size, axis) = match random.below(3) {
                0 => (shape.channels, Axis::Channel),
                1 => (shape.height, Axis::Row),
                _ => (shape.width, Axis::Column),
            };
            let softmax = Softmax {
                digit: fields::digit(size, axis, random),
                logarithm: random.one_in(3),
            };
            softmax.into()
        }
        2 => resize(random),
        3 => {
            let top = TopK {
                axis: [Axis::Channel, Axis::Column][random.below(2) as usize],
                count: 1 + random.below(4) as u32,
                ranking: fields::ranking(random),
            };
            top.into()
        }
        _ => Copy::of_column(random.below(shape.width.into()) as u32, shape.channels).into(),
    }
}

fn moved(
    shape: Tensor,
    input: TensorId,
    there: &[TensorId],
    network: &Network,
    random: &mut Random,
) -> Option<New> {
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
    let kind = Gather { runs }.into();
    Some(New { kind, others })
}

/// Axes in another order, from a start, or the whole and a part of it again.
fn copy(shape: Tensor, random: &mut Random) -> New {
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
    Copy { pieces }.into()
}

fn of_two(there: &[TensorId], shape: Tensor, random: &mut Random) -> Option<New> {
    let other = any(there, random)?;
    let new = |kind: OperatorKind| New {
        kind,
        others: vec![other],
    };
    Some(match random.below(8) {
        0 => new(Product.into()),
        1 => {
            let sampling = fields::sampling(random);
            let groups = 1;
            new(GridSample { groups, sampling }.into())
        }
        2 => {
            let axis = [Axis::Channel, Axis::Row, Axis::Column][random.below(3) as usize];
            new(Take { axis }.into())
        }
        3 => {
            let attention = Attention {
                heads: 1 + random.below(3) as u32,
                scale: 0.3,
                by_row: random.one_in(2),
                bias: None,
            };
            New {
                others: vec![other; 2],
                kind: attention.into(),
            }
        }
        _ => with(other, shape, random),
    })
}

/// A function of a tensor of this shape, and of another or of constants.
fn with(other: TensorId, shape: Tensor, random: &mut Random) -> New {
    let constant = match random.one_in(2) {
        true => None,
        false => Some(operands::constant(shape, random)),
    };
    let binary = Binary {
        function: operands::function_of_two(random),
        constant,
        swapped: random.one_in(2),
        activation: fields::activation(random),
    };
    New {
        kind: binary.into(),
        others: constant.map_or_else(|| vec![other], |_| Vec::new()),
    }
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
            let binary = Binary {
                function: operands::function_of_two(random),
                constant: None,
                swapped: random.one_in(2),
                activation: fields::activation(random),
            };
            let new = New {
                kind: binary.into(),
                others: vec![vector],
            };
            insert(network, place, reader, new, random)?
        }
        2 => {
            network.stages[place.0].operators[place.1].input = vector;
            "read first".to_owned()
        }
        // As an image of one pixel, which is padded; as anything.
        _ => {
            let shape = Tensor::features(length);
            let new = match random.below(4) {
                0 => weighted(shape, random),
                1 => of_two(&[vector, reader], shape, random)?,
                _ => convolution(shape, random),
            };
            insert(network, place, vector, new, random)?
        }
    };
    Some(format!("a vector of {length} is {vector:?}; {what}"))
}
