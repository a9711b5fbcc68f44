//! The network between lowering and staging: operators with static shapes that own their weights
//! and are not fused yet. One list; the passes of [`fuse`](crate::fuse) work on it.

use std::collections::BTreeMap;
use std::rc::Rc;

use punctual_model::{ChannelRun, Tensor, TensorId};
use punctual_types::{
    Activation, Axis, BinaryFunction, Cell, Decoder, Digit, Extent, Padding, Piece, PoolKind,
    Quantisation, Ranking, Resampling, Sampling, Scoring, UnaryFunction, Window,
};

/// Operators in order of execution.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// The network's inputs are so many first tensors.
    pub inputs: usize,
    pub tensors: Vec<Tensor>,
    pub operators: Vec<DraftOperator>,
    /// The tensors of bytes.
    pub quantised: BTreeMap<TensorId, Quantisation>,
    /// Where an operator's weights are whole numbers of steps, what a step is worth: one value, or
    /// one an output channel. By the tensor that the operator writes.
    pub steps: BTreeMap<TensorId, Rc<[f32]>>,
}

#[derive(Clone, Debug)]
pub(crate) struct DraftOperator {
    pub name: String,
    pub input: TensorId,
    /// What else it reads: the second operand of an `Add`, `Multiply` or `Binary`, once fused the residual of a
    /// convolution, the further sources of a `Gather`.
    pub others: Vec<TensorId>,
    pub output: TensorId,
    pub kind: DraftKind,
}

#[derive(Clone, Debug)]
pub(crate) enum DraftKind {
    Conv {
        weights: Vec<f32>,
        bias: Vec<f32>,
        window: Window,
        groups: u32,
        activation: Activation,
    },
    Linear {
        weights: Vec<f32>,
        bias: Vec<f32>,
        activation: Activation,
    },
    Pool {
        kind: PoolKind,
        kernel: Extent,
        stride: Extent,
        padding: Padding,
    },
    GlobalAveragePool,
    /// Floats to bytes, bytes to floats, or bytes to other bytes.
    Convert,
    /// A convolution of bytes, or a linear layer as one.
    QuantisedConv {
        weights: Vec<i8>,
        scales: Vec<f32>,
        bias: Vec<f32>,
        window: Window,
        groups: u32,
        activation: Activation,
    },
    Add {
        activation: Activation,
    },
    /// The second factor is of the same shape or has one value a channel.
    Multiply {
        activation: Activation,
    },
    /// Channels of the input (source 0) and the others.
    Gather {
        runs: Vec<ChannelRun>,
    },
    /// A tensor made of pieces of the input (source 0), the others, and the table, which is empty if there is none.
    Copy {
        table: Vec<f32>,
        pieces: Vec<Piece>,
    },
    Resize {
        resampling: Resampling,
    },
    Sequence(Sequence),
    /// `activation(function(a, b))` of two tensors, or of one and a table, repeated to each other.
    Binary {
        function: BinaryFunction,
        table: Option<Table>,
        activation: Activation,
    },
    Unary {
        function: UnaryFunction,
    },
    Softmax {
        digit: Digit,
        logarithm: bool,
    },
    /// The second input is the grid.
    GridSample {
        groups: u32,
        sampling: Sampling,
    },
    TopK {
        axis: Axis,
        count: u32,
        ranking: Ranking,
    },
    /// The second input has the indices.
    Take {
        axis: Axis,
    },
    /// The second input, if there is one, is the objectness.
    BestScore {
        scoring: Scoring,
    },
    /// Boxes and scores are the second and the third input.
    Detections {
        scoring: Scoring,
        decoder: Decoder,
    },
    /// `scale * x + shift` a channel: batch normalisation, or a constant added. Gone after fusing.
    Affine {
        scale: Vec<f32>,
        shift: Vec<f32>,
    },
    /// An activation alone. Gone after fusing.
    Activate {
        activation: Activation,
        channels: u32,
    },
}

/// A constant operand.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// `[channel][row][column]`.
    pub values: Vec<f32>,
    pub shape: Tensor,
    /// Whether it is the first operand.
    pub swapped: bool,
}

/// An operator of a sequence of tokens, as [`OperatorKind`](punctual_model::OperatorKind) has it.
#[derive(Clone, Debug)]
pub(crate) enum Sequence {
    LayerNorm {
        scale: Vec<f32>,
        bias: Vec<f32>,
        epsilon: f32,
    },
    Attention {
        heads: u32,
        scale: f32,
        by_row: bool,
        bias: Option<Bias>,
    },
    Product,
    Embedding {
        table: Vec<f32>,
    },
    Tokens {
        prefix: u32,
        table: Vec<f32>,
    },
    Token {
        column: u32,
    },
    Recurrent {
        cell: Cell,
        weights: Vec<f32>,
        bias: Vec<f32>,
        backwards: bool,
    },
}

/// The bias that an attention adds to its products, `[row][head][query][key]`: one for all rows, or heads, unless
/// `by_row`, or `by_head`, is set.
#[derive(Clone, Debug)]
pub(crate) struct Bias {
    pub values: Vec<f32>,
    pub by_row: bool,
    pub by_head: bool,
}

impl Sequence {
    /// All that it holds, in one or two lists.
    fn weights(&self) -> [&[f32]; 2] {
        match self {
            Self::LayerNorm { scale, bias, .. } => [scale, bias],
            Self::Recurrent { weights, bias, .. } => [weights, bias],
            Self::Embedding { table } | Self::Tokens { table, .. } => [table, &[]],
            Self::Attention {
                bias: Some(bias), ..
            } => [&bias.values, &[]],
            Self::Attention { bias: None, .. } | Self::Token { .. } | Self::Product => [&[], &[]],
        }
    }
}

impl DraftKind {
    /// `scale * x + shift` a channel as a convolution of one pixel and one channel: what an affine
    /// step or an activation becomes that nothing before it can take in.
    pub fn channelwise(scale: Vec<f32>, shift: Vec<f32>, activation: Activation) -> Self {
        Self::Conv {
            groups: scale.len() as u32,
            weights: scale,
            bias: shift,
            window: Window::whole(Extent::square(1)),
            activation,
        }
    }

    pub fn binary(function: BinaryFunction, table: Option<Table>) -> Self {
        Self::Binary {
            function,
            table,
            activation: Activation::None,
        }
    }

    /// Floats that the operator holds, or will hold once fused.
    pub fn weights(&self) -> usize {
        match self {
            Self::Conv { weights, bias, .. } | Self::Linear { weights, bias, .. } => {
                weights.len() + bias.len()
            }
            Self::Affine { scale, shift } => scale.len() + shift.len(),
            Self::Activate { channels, .. } => 2 * *channels as usize,
            Self::Sequence(sequence) => sequence.weights().iter().map(|list| list.len()).sum(),
            Self::Copy { table, .. } => table.len(),
            Self::Binary { table, .. } => table.as_ref().map_or(0, |table| table.values.len()),
            Self::Pool { .. }
            | Self::Unary { .. }
            | Self::Softmax { .. }
            | Self::GridSample { .. }
            | Self::TopK { .. }
            | Self::Take { .. }
            | Self::BestScore { .. }
            | Self::Detections { .. }
            | Self::Convert
            | Self::QuantisedConv { .. }
            | Self::GlobalAveragePool
            | Self::Resize { .. }
            | Self::Add { .. }
            | Self::Multiply { .. }
            | Self::Gather { .. } => 0,
        }
    }

    /// The first weight that is infinite or not a number.
    pub fn not_finite(&self) -> Option<f32> {
        if let Self::Sequence(sequence) = self {
            let mut all = sequence.weights().into_iter().flatten();
            return all.find(|weight| !weight.is_finite()).copied();
        }
        if let Self::Copy { table, .. } = self {
            return table.iter().find(|value| !value.is_finite()).copied();
        }
        if let Self::Binary {
            table: Some(table), ..
        } = self
        {
            let mut all = table.values.iter();
            return all.find(|value| !value.is_finite()).copied();
        }
        let (Self::Conv { weights, bias, .. }
        | Self::Linear { weights, bias, .. }
        | Self::Affine {
            scale: weights,
            shift: bias,
        }) = self
        else {
            return None;
        };
        let mut all = weights.iter().chain(bias);
        all.find(|weight| !weight.is_finite()).copied()
    }

    /// Whether each pixel's channels follow from those of the same pixel alone.
    pub fn is_of_each_pixel(&self) -> bool {
        match self {
            Self::Conv { window, .. } => *window == Window::whole(Extent::square(1)),
            Self::Affine { .. } | Self::Activate { .. } => true,
            Self::Sequence(sequence) => matches!(sequence, Sequence::LayerNorm { .. }),
            _ => false,
        }
    }

    pub fn activation(&self) -> Option<Activation> {
        match self {
            Self::Conv { activation, .. }
            | Self::Linear { activation, .. }
            | Self::Add { activation }
            | Self::Multiply { activation }
            | Self::Activate { activation, .. }
            | Self::Binary { activation, .. } => Some(*activation),
            _ => None,
        }
    }

    pub fn set_activation(&mut self, new: Activation) {
        match self {
            Self::Conv { activation, .. }
            | Self::Linear { activation, .. }
            | Self::Add { activation }
            | Self::Multiply { activation }
            | Self::Binary { activation, .. } => *activation = new,
            _ => unreachable!("only an operator with an activation gets another"),
        }
    }
}

impl DraftOperator {
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        std::iter::once(self.input).chain(self.others.iter().copied())
    }
}

impl Draft {
    /// The activation of the operator that writes a tensor.
    pub fn activation_of(&self, tensor: TensorId) -> Option<Activation> {
        let mut operators = self.operators.iter();
        let writer = operators.find(|operator| operator.output == tensor)?;
        writer.kind.activation()
    }

    /// Removes operators that no exit depends on; returns how many.
    pub fn remove_dead(&mut self, exits: &[TensorId]) -> usize {
        let mut needed = vec![false; self.tensors.len()];
        for exit in exits {
            needed[exit.index()] = true;
        }
        for operator in self.operators.iter().rev() {
            if needed[operator.output.index()] {
                operator
                    .reads()
                    .for_each(|read| needed[read.index()] = true);
            }
        }
        let before = self.operators.len();
        self.operators
            .retain(|operator| needed[operator.output.index()]);
        before - self.operators.len()
    }
}
