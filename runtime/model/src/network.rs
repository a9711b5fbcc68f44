//! A compiled network: fused operators with static shapes, cut into stages at the exits.
//!
//! Shapes are those of one image; a stage runs for a batch of images, each with its own tensors. Nothing here
//! knows how a device lays a tensor out: the CPU device blocks channels and adds halos, a GPU does otherwise.

use punctual_types::{Activation, Extent, Padding, PoolKind, Resampling, Window};
use serde::{Deserialize, Serialize};

use crate::{Floats, Quantised};

/// A network, ready to be loaded by a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Its name, e.g. `signs`.
    pub name: String,
    pub input: InputSpec,
    /// Names of the classes; every exit has one output for each.
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

/// What the network takes. An image is planar RGB, each value `(pixel / 255 - mean) / std`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputSpec {
    pub height: u32,
    pub width: u32,
    /// Subtracted a channel (R, G, B), in units of the full scale.
    pub mean: [f32; 3],
    /// Divided by a channel, in units of the full scale.
    pub std: [f32; 3],
    pub form: InputForm,
}

/// What a network's input means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputForm {
    /// A camera's image: three channels, normalised as above.
    #[default]
    Image,
    /// One row of tokens, as many as it has columns: their numbers in the first channel, as floats.
    /// Nothing is normalised.
    Tokens {
        /// A second channel says which of them count: 0 is padding.
        mask: bool,
    },
}

impl InputSpec {
    /// The shape of the input tensor.
    #[must_use]
    pub const fn tensor(&self) -> Tensor {
        let channels = match self.form {
            InputForm::Image => 3,
            InputForm::Tokens { mask: false } => 1,
            InputForm::Tokens { mask: true } => 2,
        };
        Tensor {
            channels,
            height: self.height,
            width: self.width,
        }
    }
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
    /// Tensors that live in the request buffer when the stage starts: the network's input, or
    /// what earlier stages carried over. Sorted.
    pub inputs: Vec<TensorId>,
    /// Tensors that later stages need, written to the request buffer. Sorted. Disjoint from
    /// `inputs`: an input that is needed again later simply stays where it is.
    pub outputs: Vec<TensorId>,
    /// In order of execution. Each operator writes one tensor that no earlier one wrote.
    pub operators: Vec<Operator>,
    /// The exit's class scores before softmax. None: it ends in no exit, and only leads on to the
    /// next stage, as what networks have in common does. The last stage has one.
    #[serde(with = "exit")]
    pub logits: Option<TensorId>,
}

/// In a package, the largest number stands for no tensor.
mod exit {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::TensorId;

    const NONE: TensorId = TensorId(u32::MAX);

    pub(super) fn serialize<S: Serializer>(
        logits: &Option<TensorId>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        logits.unwrap_or(NONE).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<TensorId>, D::Error> {
        let tensor = TensorId::deserialize(deserializer)?;
        Ok((tensor != NONE).then_some(tensor))
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
    /// share of the channels: `softmax(scale * query . key)` over the key's pixels weighs the
    /// value's pixels. The result has the query's shape.
    Attention {
        /// Key and value, which have equal shapes and the query's channels, and a mask if there is one: one
        /// channel of the key's pixels, 0 for those that do not count (`f32::MIN` is added to their products).
        others: Vec<TensorId>,
        heads: u32,
        /// Factor of the products; finite.
        scale: f32,
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
    /// The image with other rows and columns.
    Resize {
        resampling: Resampling,
    },
}

/// Most tensors that one [`OperatorKind::Gather`] reads.
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
