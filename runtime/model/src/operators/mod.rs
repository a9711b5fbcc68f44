//! The vocabulary of operators: one file defines each.
//!
//! An operator's file has its attributes, its shape, what it holds, its checks, its arithmetic, and its reference, which
//! shares no code with any device. [`OperatorKind`] and [`with_operator`](crate::with_operator) list them.

mod attention;
mod best_score;
mod binary;
mod conv2d;
mod convert;
mod copy;
mod detections;
mod embedding;
mod gather;
mod grid_sample;
mod layer_norm;
mod linear;
pub(crate) mod meaning;
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

use punctual_types::Activation;
use serde::{Deserialize, Serialize};

pub use attention::{Attention, BiasForm};
pub use best_score::BestScore;
pub use binary::Binary;
pub use conv2d::Conv2d;
pub use convert::Convert;
pub use copy::Copy;
pub use detections::Detections;
pub use embedding::Embedding;
pub use gather::{ChannelRun, Gather};
pub use grid_sample::GridSample;
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use pool::Pool;
pub use product::Product;
pub use quantised_conv2d::QuantisedConv2d;
pub use recurrent::Recurrent;
pub use resize::Resize;
pub use softmax::Softmax;
pub use take::Take;
pub use tokens::Tokens;
pub use top_k::TopK;
pub use unary::Unary;

pub use meaning::Operands;
use meaning::{Meaning, Plain, Site};

use crate::{Network, OperatorError, ShapeError, Tensor, TensorId, WeightRange};

/// An operator of a network. `W` is what its weights are: ranges of the network's, or lists while it is compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operator<W = WeightRange> {
    /// Name of the (first) ONNX node it came from, for messages and profiles.
    pub name: String,
    /// What it reads first.
    pub input: TensorId,
    /// What else it reads, in the order that its kind says.
    pub others: Vec<TensorId>,
    pub output: TensorId,
    /// In the order that its kind says. Several operators may have the same.
    pub weights: Vec<W>,
    pub kind: OperatorKind,
}

/// The list of operators that a device must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OperatorKind {
    Conv2d(Conv2d),
    QuantisedConv2d(QuantisedConv2d),
    Linear(Linear),
    Pool(Pool),
    Binary(Binary),
    Unary(Unary),
    Softmax(Softmax),
    Convert(Convert),
    Gather(Gather),
    Copy(Copy),
    Resize(Resize),
    GridSample(GridSample),
    TopK(TopK),
    Take(Take),
    LayerNorm(LayerNorm),
    Attention(Attention),
    Product(Product),
    Embedding(Embedding),
    Tokens(Tokens),
    Recurrent(Recurrent),
    BestScore(BestScore),
    Detections(Detections),
}

/// Evaluates an expression with the attributes of an operator of any kind. Other crates use it to call a trait of their own,
/// which they implement for each kind.
#[macro_export]
macro_rules! with_operator {
    ($kind:expr, $operator:ident => $body:expr) => {
        match $kind {
            $crate::OperatorKind::Conv2d($operator) => $body,
            $crate::OperatorKind::QuantisedConv2d($operator) => $body,
            $crate::OperatorKind::Linear($operator) => $body,
            $crate::OperatorKind::Pool($operator) => $body,
            $crate::OperatorKind::Binary($operator) => $body,
            $crate::OperatorKind::Unary($operator) => $body,
            $crate::OperatorKind::Softmax($operator) => $body,
            $crate::OperatorKind::Convert($operator) => $body,
            $crate::OperatorKind::Gather($operator) => $body,
            $crate::OperatorKind::Copy($operator) => $body,
            $crate::OperatorKind::Resize($operator) => $body,
            $crate::OperatorKind::GridSample($operator) => $body,
            $crate::OperatorKind::TopK($operator) => $body,
            $crate::OperatorKind::Take($operator) => $body,
            $crate::OperatorKind::LayerNorm($operator) => $body,
            $crate::OperatorKind::Attention($operator) => $body,
            $crate::OperatorKind::Product($operator) => $body,
            $crate::OperatorKind::Embedding($operator) => $body,
            $crate::OperatorKind::Tokens($operator) => $body,
            $crate::OperatorKind::Recurrent($operator) => $body,
            $crate::OperatorKind::BestScore($operator) => $body,
            $crate::OperatorKind::Detections($operator) => $body,
        }
    };
}

macro_rules! kinds {
    ($($name:ident)*) => {
        $(impl From<$name> for OperatorKind {
            fn from(operator: $name) -> Self {
                Self::$name(operator)
            }
        })*
    };
}

kinds! {
    Conv2d QuantisedConv2d Linear Pool Binary Unary Softmax Convert Gather Copy Resize GridSample TopK Take LayerNorm
    Attention Product Embedding Tokens Recurrent BestScore Detections
}

impl<W> Operator<W> {
    /// An operator that reads these tensors, at least one, without weights.
    ///
    /// # Panics
    /// If it reads nothing.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        reads: &[TensorId],
        output: TensorId,
        kind: impl Into<OperatorKind>,
    ) -> Self {
        let (&input, others) = reads.split_first().expect("an operator reads something");
        Self {
            name: name.into(),
            input,
            others: others.to_vec(),
            output,
            weights: Vec::new(),
            kind: kind.into(),
        }
    }

    #[must_use]
    pub fn with_weights(self, weights: impl IntoIterator<Item = W>) -> Self {
        let weights = weights.into_iter().collect();
        Self { weights, ..self }
    }

    /// The tensors that it reads, its input first.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        std::iter::once(self.input).chain(self.others.iter().copied())
    }

    /// As [`reads`](Self::reads), to rename them.
    pub fn reads_mut(&mut self) -> impl Iterator<Item = &mut TensorId> {
        std::iter::once(&mut self.input).chain(&mut self.others)
    }
}

impl Operator {
    /// Its f32 weights, scales and biases.
    #[must_use]
    pub fn floats(&self) -> &[WeightRange] {
        let integers = self.integers().len();
        &self.weights[integers..]
    }

    /// Its i8 weights, ranges of [`Quantised::weights`](crate::Quantised::weights).
    #[must_use]
    pub fn integers(&self) -> &[WeightRange] {
        &self.weights[..self.kind.integers().min(self.weights.len())]
    }
}

impl OperatorKind {
    pub fn output_shape(&self, of: &Operands<'_>) -> Result<Tensor, ShapeError> {
        with_operator!(self, operator => operator.shape(of))
    }

    /// Elements of each of the weights that it must have, where its shapes fit.
    #[must_use]
    pub fn weight_lengths(&self, of: &Operands<'_>, output: Tensor) -> Vec<u64> {
        let held = with_operator!(self, operator => operator.weights(of, output));
        held.into_iter().map(|held| held.elements).collect()
    }

    /// Rows and columns of zeros that it wants around its input.
    #[must_use]
    pub fn border(&self) -> u32 {
        with_operator!(self, operator => operator.border())
    }

    pub(crate) fn plain(&self, input: Tensor) -> Plain {
        with_operator!(self, operator => operator.plain(input))
    }

    /// How many of its lists of weights, the first ones, are i8.
    #[must_use]
    pub const fn integers(&self) -> usize {
        match self {
            Self::QuantisedConv2d(_) => 1,
            _ => 0,
        }
    }

    /// What it applies last, if it can apply an activation.
    #[must_use]
    pub fn activation(&self) -> Option<Activation> {
        with_operator!(self, operator => operator.activation())
    }

    /// # Panics
    /// If it has no activation.
    pub fn set_activation(&mut self, activation: Activation) {
        with_operator!(self, operator => operator.set_activation(activation));
    }
}

impl Network {
    /// What a report calls an operator of this valid network, e.g. `convolution 3x3`.
    #[must_use]
    pub fn label(&self, operator: &Operator) -> String {
        let input = self.tensors[operator.input.index()];
        with_operator!(&operator.kind, kind => kind.label(input))
    }

    /// Multiply-accumulates of an operator of this valid network for one image.
    #[must_use]
    pub fn multiplications_of(&self, operator: &Operator) -> u64 {
        let network = self;
        let site = Site { network, operator };
        with_operator!(&operator.kind, kind => kind.multiplications(site))
    }

    /// An operator's weights, scales and biases that are f32, in its order.
    pub fn float_weights<'n>(&'n self, operator: &'n Operator) -> impl Iterator<Item = &'n [f32]> {
        let floats = operator.floats().iter();
        floats.map(|range| &self.weights[range.start as usize..][..range.len as usize])
    }

    /// An operator's weights that are i8.
    pub fn integer_weights<'n>(&'n self, operator: &'n Operator) -> impl Iterator<Item = &'n [i8]> {
        let integers = operator.integers().iter();
        integers.map(|range| &self.quantised.weights[range.start as usize..][..range.len as usize])
    }

    /// Shapes, weights, figures and elements of an operator whose tensors exist.
    pub(crate) fn check_operator(&self, operator: &Operator) -> Result<(), OperatorError> {
        let network = self;
        let site = Site { network, operator };
        let others: Vec<Tensor> = site.others().collect();
        let lengths: Vec<u32> = operator.weights.iter().map(|range| range.len).collect();
        let of = Operands {
            input: site.input(),
            others: &others,
            weights: &lengths,
        };
        let declared = site.output();
        let held = with_operator!(&operator.kind, kind => kind.weights(&of, declared));
        if held.len() != operator.weights.len() {
            let (found, expected) = (operator.weights.len(), held.len());
            return Err(OperatorError::WeightLists { found, expected });
        }
        let computed = operator.kind.output_shape(&of)?;
        if computed != declared {
            return Err(OperatorError::OutputShape { computed, declared });
        }
        for (at, (range, held)) in operator.weights.iter().zip(held).enumerate() {
            let there = if at < operator.kind.integers() {
                self.quantised.weights.len()
            } else {
                self.weights.len()
            };
            range.check(held.what, there, held.elements)?;
        }
        with_operator!(&operator.kind, kind => kind.check(site))
    }
}
