//! A compiled network: fused operators with static shapes, cut into stages at the exits.
//!
//! Shapes are those of one image; a stage runs for a batch of images, each with its own tensors. Nothing here
//! knows how a device lays a tensor out: the CPU device blocks channels and adds halos, a GPU does otherwise.

use punctual_types::{
    Activation, Axis, BinaryFunction, Cell, Decoder, Digit, Extent, Padding, Piece, PoolKind,
    Ranking, Resampling, Sampling, Scoring, UnaryFunction, Window,
};
use serde::{Deserialize, Serialize};

use crate::{AnswerKind, Exit, Floats, Quantised};

/// A network, ready to be loaded by a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Its name, e.g. `signs`.
    pub name: String,
    /// Tensor 0.
    pub input: InputSpec,
    /// What comes with each input: tensors 1, 2, ...
    pub vectors: Vec<VectorSpec>,
    /// What its exits answer.
    pub answer: AnswerKind,
    /// Names of the classes or labels, one for each score; of detections as many as the author named, or none.
    pub classes: Vec<String>,
    /// All tensors, named by position.
    pub tensors: Vec<Tensor>,
    /// From input to last exit.
    pub stages: Vec<Stage>,
    /// All weights and biases, in the logical layout that each operator's doc gives. Not encoded
    /// with the rest: a package has a section for them.
    #[serde(skip)]
    pub weights: Floats,
    /// What of it is kept in bytes.
    pub quantised: Quantised,
}

/// Most channels of an image.
pub const IMAGE_CHANNELS_MAX: usize = 4;
/// Most vectors that come with an input.
pub const VECTORS_MAX: usize = 4;
/// Most numbers of such a vector.
pub const VECTOR_LENGTH_MAX: u32 = 256;

/// What the network takes first: planes of `height x width` values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputSpec {
    pub channels: u32,
    pub height: u32,
    pub width: u32,
    pub form: InputForm,
}

/// What a network's input means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum InputForm {
    /// A camera's picture of 1 channel (grey), 3 (red, green, blue) or 4 (a further one). Each value is
    /// `(pixel / full scale - mean) / std`; what is said of channels that are not there is 0 and 1.
    Image {
        /// Subtracted a channel, in units of the full scale.
        mean: [f32; IMAGE_CHANNELS_MAX],
        /// Divided by a channel, in units of the full scale.
        std: [f32; IMAGE_CHANNELS_MAX],
    },
    /// Numbers that the client computed, as they are. A series is one row for each of its channels.
    Prepared,
    /// One row of tokens, as many as it has columns: their numbers in the first channel, as floats.
    Tokens {
        /// A second channel says which of them count: 0 is padding.
        mask: bool,
    },
}

impl InputForm {
    /// A picture whose first channels are normalised with these figures.
    ///
    /// # Panics
    /// With more than [`IMAGE_CHANNELS_MAX`] figures.
    #[must_use]
    pub fn image(mean: &[f32], std: &[f32]) -> Self {
        let mut all = ([0.0; IMAGE_CHANNELS_MAX], [1.0; IMAGE_CHANNELS_MAX]);
        all.0[..mean.len()].copy_from_slice(mean);
        all.1[..std.len()].copy_from_slice(std);
        Self::Image {
            mean: all.0,
            std: all.1,
        }
    }

    /// Mean and deviation by channel; of what is not normalised 0 and 1.
    #[must_use]
    pub const fn normalisation(&self) -> ([f32; IMAGE_CHANNELS_MAX], [f32; IMAGE_CHANNELS_MAX]) {
        match *self {
            Self::Image { mean, std } => (mean, std),
            Self::Prepared | Self::Tokens { .. } => {
                ([0.0; IMAGE_CHANNELS_MAX], [1.0; IMAGE_CHANNELS_MAX])
            }
        }
    }

    #[must_use]
    pub const fn is_image(&self) -> bool {
        matches!(self, Self::Image { .. })
    }
}

impl InputSpec {
    /// A picture of red, green and blue.
    #[must_use]
    pub fn rgb(height: u32, width: u32, mean: [f32; 3], std: [f32; 3]) -> Self {
        Self {
            channels: 3,
            height,
            width,
            form: InputForm::image(&mean, &std),
        }
    }

    /// The shape of the input tensor.
    #[must_use]
    pub const fn tensor(&self) -> Tensor {
        Tensor {
            channels: self.channels,
            height: self.height,
            width: self.width,
        }
    }
}

/// Numbers that come with each input: a speed, an angle, a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorSpec {
    /// That of the ONNX file's input.
    pub name: String,
    /// How many numbers: at most [`VECTOR_LENGTH_MAX`].
    pub length: u32,
}

/// Position of a tensor in [`Network::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorId(pub u32);

/// The shape of one image's tensor. A vector of features has `height = width = 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Channels, or features.
    pub channels: u32,
    pub height: u32,
    pub width: u32,
}

/// One segment of the backbone, as a rule with its exit head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Tensors that live in the request buffer when the stage starts: inputs of the network, or
    /// what earlier stages carried over. Sorted.
    pub inputs: Vec<TensorId>,
    /// Tensors that later stages need, written to the request buffer. Sorted. Disjoint from
    /// `inputs`: an input that is needed again later simply stays where it is.
    pub outputs: Vec<TensorId>,
    /// In order of execution. Each operator writes one tensor that no earlier one wrote.
    pub operators: Vec<Operator>,
    /// The exit that it ends in. None: it only leads on to the next stage, as what networks have in common does. The
    /// last stage has one.
    pub exit: Option<Exit>,
}

impl Stage {
    /// The tensor of its exit's class scores, if it has one.
    #[must_use]
    pub fn scores(&self) -> Option<TensorId> {
        let scores = self.exit.as_ref()?.scores?;
        Some(scores.tensor)
    }

    /// The tensors that its operators and its exit read, with repetitions.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        let operators = self.operators.iter().flat_map(Operator::reads);
        operators.chain(self.exit.iter().flat_map(Exit::reads))
    }
}

/// A range of [`Network::weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightRange {
    /// First element.
    pub start: u32,
    pub len: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    /// Name of the (first) ONNX node it came from, for messages and profiles.
    pub name: String,
    /// What it reads first.
    pub input: TensorId,
    pub output: TensorId,
    pub kind: OperatorKind,
}

/// The list of operators that a device must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OperatorKind {
    /// `activation(conv(input) + bias [+ residual])`, batch normalisation folded in.
    Conv2d {
        /// `[output channels][input channels / groups][kernel height][kernel width]`.
        weights: WeightRange,
        /// `[output channels]`.
        bias: WeightRange,
        window: Window,
        /// 1 is dense; equal to the channels is depthwise.
        groups: u32,
        /// Added before the activation; has the output's shape.
        residual: Option<TensorId>,
        /// Applied last.
        activation: Activation,
    },
    /// Largest (or mean) of a window.
    Pool {
        kind: PoolKind,
        kernel: Extent,
        stride: Extent,
        /// Around the input. Padding never wins a maximum.
        padding: Padding,
    },
    GlobalAveragePool,
    /// `activation(weights * input + bias)`; the input's order of elements is channel, row, column.
    Linear {
        /// `[output features][input features]`.
        weights: WeightRange,
        /// `[output features]`.
        bias: WeightRange,
        /// Applied last.
        activation: Activation,
    },
    /// `activation(input + other)`, where it could not be fused into a convolution.
    Add {
        /// The second addend, same shape.
        other: TensorId,
        /// Applied last.
        activation: Activation,
    },
    /// `activation(input * other)`.
    Multiply {
        /// The second factor: the same shape, or one value a channel (channels x 1 x 1) for all of
        /// the channel's pixels, as in squeeze-and-excitation.
        other: TensorId,
        /// Applied last.
        activation: Activation,
    },
    /// Channels picked from one or several tensors of equal rows and columns: a concatenation, a slice, a shuffle.
    Gather {
        /// Sources 1, 2, ...; source 0 is the input. At most [`GATHER_SOURCES_MAX`] in all.
        others: Vec<TensorId>,
        /// The output's channels, run after run.
        runs: Vec<ChannelRun>,
    },
    /// The channels of each pixel brought to mean 0 and variance 1, then `scale * x + bias`.
    LayerNorm {
        /// `[channels]`.
        scale: WeightRange,
        /// `[channels]`.
        bias: WeightRange,
        /// Added to the variance; positive.
        epsilon: f32,
    },
    /// Attention of each pixel of the input, the query, to the pixels of a key. A head takes its
    /// share of the channels: `softmax(scale * query . key + bias)` over the key's pixels weighs the
    /// value's pixels. The result has the query's pixels and the value's channels.
    Attention {
        /// Key and value, which have equal pixels, the key with the query's channels, and a mask if there is one: one
        /// channel of the key's pixels, 0 for those that do not count (`f32::MIN` is added to their products).
        others: Vec<TensorId>,
        heads: u32,
        /// Factor of the products; finite.
        scale: f32,
        /// Whether each row is an attention of its own, such as a window: all tensors have equally many rows then.
        by_row: bool,
        bias: Option<AttentionBias>,
    },
    /// A row of a table for each pixel, whose only channel holds the row's number; what is no row's
    /// number takes the nearest.
    Embedding {
        /// `[rows][channels]`, at most 2^24 rows, whose numbers f32 tells apart.
        table: WeightRange,
    },
    /// The pixels of an image in one row, behind some that are constant; a table is added to all.
    Tokens {
        /// How many constant pixels stand before the others.
        prefix: u32,
        /// `[prefix + pixels][channels]`.
        table: WeightRange,
    },
    Token {
        column: u32,
    },
    /// `activation(conv(input) + bias)` of bytes and i8 weights, to bytes or floats as the output
    /// is. A fully connected layer is one whose kernel covers the whole input.
    QuantisedConv2d {
        /// `[output channels][input channels / groups][kernel height][kernel width]`, of
        /// [`Quantised::weights`].
        weights: WeightRange,
        /// `[output channels]`: what a step of the channel's weights is worth.
        scales: WeightRange,
        /// `[output channels]`. Counts as the nearest whole number of what a step of the channel's
        /// sums is worth, the input's scale times the weights'.
        bias: WeightRange,
        window: Window,
        /// 1 is dense; equal to the channels is depthwise.
        groups: u32,
        /// Applied last; a clip.
        activation: Activation,
    },
    /// The same values, kept as the output is: floats as bytes, bytes as floats, or bytes as bytes
    /// of another quantisation.
    Convert,
    /// Values moved to other places: a transpose, a slice, a shuffle of pixels, a concatenation of rows or columns. All
    /// that it reads is kept as the output is.
    Copy {
        /// Sources 1, 2, ...; source 0 is the input. At most [`GATHER_SOURCES_MAX`] in all.
        others: Vec<TensorId>,
        /// Constants: the source behind these, of as many channels and one pixel. Not of bytes.
        table: Option<WeightRange>,
        /// Together the output, each value once.
        pieces: Vec<Piece>,
    },
    /// `activation(function(a, b))` of two tensors, or of one and a constant. Where one of the two has one channel,
    /// row or column and the other several, it is repeated.
    Binary {
        function: BinaryFunction,
        /// `b`; `a` is the input, unless they are swapped.
        second: SecondOperand,
        /// Whether the input is `b`.
        swapped: bool,
        /// Applied last.
        activation: Activation,
    },
    /// A function of each value.
    Unary {
        function: UnaryFunction,
    },
    /// `e^x / sum e^x` over the positions that a digit of an axis counts, for each position that the rest counts.
    Softmax {
        /// `extent` positions of the axis, `step` apart; both together divide the axis.
        digit: Digit,
        /// Whether the result is the logarithm of that.
        logarithm: bool,
    },
    /// The image with other rows and columns.
    Resize {
        resampling: Resampling,
    },
    /// A product of matrices in each row: `output[n][b][m] = sum_k input[k][b][m] * other[n][b][k]`, as channel, row,
    /// column.
    Product {
        other: TensorId,
    },
    /// The pixels of the image at a grid of computed positions; the result has the grid's rows and columns.
    GridSample {
        /// For each group of channels one with the columns' positions and one with the rows'.
        grid: TensorId,
        /// Groups of channels, each with positions of its own; a divisor of the channels.
        groups: u32,
        sampling: Sampling,
    },
    /// The positions of the values that come first along an axis, in their order: one of the channels of each pixel, or
    /// `count` of the columns of each row and channel.
    TopK {
        axis: Axis,
        count: u32,
        ranking: Ranking,
    },
    /// The values at the indices' positions along an axis; [`position`](punctual_types::position) defines these.
    Take {
        /// Positions for each line of the input along the axis. Along the other axes they may have one position that
        /// all lines share.
        indices: TensorId,
        axis: Axis,
    },
    /// A recurrent layer over the columns of one row. The input has what its steps add to each gate, with channels
    /// (gate, hidden unit); the result has the state after each step, with channels (value, hidden unit). At most
    /// [`HIDDEN_UNITS_MAX`](punctual_types::HIDDEN_UNITS_MAX) hidden units.
    Recurrent {
        cell: Cell,
        /// `[gate][hidden unit][hidden unit before]`.
        weights: WeightRange,
        /// `[gate][hidden unit]`, added to the state's product.
        bias: WeightRange,
        /// The state before the first step, one pixel; zeros without it.
        initial: Option<TensorId>,
        /// Whether the last column is the first step.
        backwards: bool,
    },
    /// The best score of each pixel, of the classes that count, as a vector: row after row. In 0 to 1; 0 where no score
    /// is a number.
    BestScore {
        /// For each pixel a factor of its score, which is a score itself: a vector.
        objectness: Option<TensorId>,
        scoring: Scoring,
    },
    /// A bounded list of objects, of the pixels whose scores in the input, a vector, are the best. The result is a row of
    /// pixels with the channels left, top, right, bottom (in pixels of the network's input), score and class, the best
    /// score first. Those behind the last object are zero. One pixel more has their count and the mean of the best scores.
    /// Devices do the same work whatever the values are.
    Detections {
        /// Boxes, of four channels, and scores, of one a class, both with as many pixels as the input has features.
        others: [TensorId; 2],
        scoring: Scoring,
        decoder: Decoder,
    },
}

/// The bias that an [`OperatorKind::Attention`] adds to its products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionBias {
    /// `[row][head][query][key]`: one for all rows, or heads, unless `by_row`, or `by_head`, is set.
    pub values: WeightRange,
    pub by_row: bool,
    pub by_head: bool,
}

/// What an [`OperatorKind::Binary`] reads besides its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecondOperand {
    Tensor(TensorId),
    Constant {
        /// `[channel][row][column]`.
        values: WeightRange,
        shape: Tensor,
    },
}

/// Most tensors that one [`OperatorKind::Gather`] or [`OperatorKind::Copy`] reads.
pub const GATHER_SOURCES_MAX: usize = 8;

/// Consecutive channels of one source of a [`OperatorKind::Gather`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRun {
    /// 0 is the operator's input, 1 the first of its other tensors, ...
    pub source: u8,
    /// The first channel.
    pub first: u32,
    /// How many; at least one.
    pub count: u32,
}
