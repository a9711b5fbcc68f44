//! The operators of the vocabulary: how networks get one, and what mutations do to it.
//!
//! An operator's file has all of this. Elsewhere, operators are named in lower case only: by networks that need one of
//! a kind, and by the lists that mutations draw from.

mod attention;
pub(super) mod attributes;
mod best_score;
pub(super) mod binary;
mod conv2d;
mod convert;
pub(super) mod copy;
mod detections;
mod embedding;
mod gather;
mod grid_sample;
mod layer_norm;
mod linear;
mod pool;
mod product;
mod quantised_conv2d;
mod recurrent;
mod resize;
mod softmax;
mod take;
mod tokens;
mod top_k;
mod unary;

use punctual_model::{Network, Operator, OperatorKind, Tensor, TensorId, WeightRange};
use punctual_types::{Quantisation, Random};

use super::builder::Builder;
use super::drawing::{any, below, index, pick};
use super::graph;

/// What mutations do to an operator of one kind.
pub(super) trait Mutable {
    /// Changes one of its attributes.
    fn vary(&mut self, _random: &mut Random) {}

    /// Makes it fit what is read now: attributes that must divide a size or lie below one, operands of other shapes.
    fn fit(&mut self, _reads: &mut Reads<'_>) {}

    /// The lengths of its weights, where its biases say how many channels the result has; it had `before` until now.
    fn lengths(&self, _input: Tensor, _before: u32) -> Option<Vec<u32>> {
        None
    }

    /// What its result's bytes stand for, if it is bytes, by what its input's do and its own did before.
    fn bytes(&self, input: Bytes, before: Bytes) -> Bytes {
        input.map(|input| before.unwrap_or(input))
    }
}

/// None of floats.
type Bytes = Option<Quantisation>;

/// What an operator reads, and its weights, while its attributes are made to fit them. All its tensors exist.
pub(super) struct Reads<'o> {
    pub tensors: &'o [Tensor],
    /// What it reads first, and the shape of that.
    pub input: TensorId,
    pub shape: Tensor,
    pub others: &'o mut Vec<TensorId>,
    pub weights: &'o mut Vec<WeightRange>,
}

impl Reads<'_> {
    /// The shapes of what it reads besides its input.
    pub fn shapes(&self) -> Vec<Tensor> {
        let others = self.others.iter();
        others.map(|other| self.tensors[other.index()]).collect()
    }
}

/// Where a new operator is to stand.
pub(super) struct Site<'n> {
    pub network: &'n Network,
    /// What it reads first, and the shape of that.
    pub input: TensorId,
    pub shape: Tensor,
    /// What else it can read.
    pub there: &'n [TensorId],
}

impl<'n> Site<'n> {
    /// None if there is no such input.
    pub fn new(network: &'n Network, input: TensorId, there: &'n [TensorId]) -> Option<Self> {
        let shape = *network.tensors.get(input.index())?;
        Some(Self {
            network,
            input,
            shape,
            there,
        })
    }

    fn other(&self, random: &mut Random) -> TensorId {
        any(self.there, random).unwrap_or(self.input)
    }

    /// An operator there. Its shape and its weights come when the network is repaired.
    fn operator(&self, others: &[TensorId], kind: impl Into<OperatorKind>) -> Operator {
        let output = TensorId(self.network.tensors.len() as u32);
        let reads = [&[self.input], others].concat();
        Operator::new(format!("inserted {}", output.0), &reads, output, kind)
    }
}

/// Draws the attributes of a new operator, and what else it reads.
type Draw = fn(&Site<'_>, &mut Random) -> Operator;

/// A list of operators, each as often as it is likely.
macro_rules! draws {
    ($($operator:ident)* $(; $other:path)?) => {
        &[$($operator::new,)* $($other)?]
    };
}

const OF_BYTES: &[Draw] = draws!(convert pool resize copy);
const COMPUTED: &[Draw] = draws!(unary softmax resize top_k; copy::column);
const MOVED: &[Draw] = draws!(copy gather gather);
const OF_TWO: &[Draw] = draws!(product grid_sample take attention binary binary binary binary);
const WEIGHTED: &[Draw] = draws!(conv2d conv2d layer_norm linear tokens pool);

/// An operator of any kind that can read this input.
pub(super) fn new(site: &Site<'_>, random: &mut Random) -> Operator {
    let draws: &[Draw] = if site.network.quantisation(site.input).is_some() {
        OF_BYTES
    } else {
        pick(&[COMPUTED, MOVED, OF_TWO, WEIGHTED], random)
    };
    pick(draws, random)(site, random)
}

/// One that reads a vector: mostly as an image of one pixel, which it pads.
pub(super) fn of_vector(site: &Site<'_>, random: &mut Random) -> Operator {
    let draw = match random.below(4) {
        0 => pick(WEIGHTED, random),
        1 => pick(OF_TWO, random),
        _ => conv2d::new,
    };
    draw(site, random)
}

/// Another order or choice of what an operator reads, and what it was; none if no operator has one.
pub(super) fn reread(network: &mut Network, random: &mut Random) -> Option<String> {
    pick(&[binary::reread, gather::reread, copy::reread], random)(network, random)
}
