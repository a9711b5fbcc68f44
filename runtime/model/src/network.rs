//! A compiled network: fused operators with static shapes, cut into stages at the exits.
//!
//! Shapes are those of one image; a stage runs for a batch of images, each with its own tensors. Nothing here
//! knows how a device lays a tensor out: the CPU device blocks channels and adds halos, a GPU does otherwise.

use punctual_types::Quantisation;
use serde::{Deserialize, Serialize};

use crate::limits::IMAGE_CHANNELS_MAX;
use crate::tensor::{Tensor, TensorId};
use crate::{AnswerKind, Exit, Floats, Operator, Quantised};

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
    /// `(pixel / full scale - mean) / std`; for channels that are not there, the mean is 0 and std is 1.
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
    /// How many numbers: at most [`VECTOR_LENGTH_MAX`](crate::VECTOR_LENGTH_MAX).
    pub length: u32,
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

impl Network {
    /// Multiply-accumulates of a stage for one image.
    ///
    /// # Panics
    /// When the stage is not one of this valid network.
    #[must_use]
    pub fn multiplications(&self, stage: &Stage) -> u64 {
        let operators = stage.operators.iter();
        operators
            .map(|operator| self.multiplications_of(operator))
            .fold(0, u64::saturating_add)
    }

    /// What the bytes of `tensor` stand for; `None` if it is f32.
    #[must_use]
    pub fn quantisation(&self, tensor: TensorId) -> Option<Quantisation> {
        self.quantised.tensors.get(&tensor).copied()
    }

    /// Bytes of one image's tensor, as it is without a device's layout.
    ///
    /// # Panics
    /// When there is no such tensor.
    #[must_use]
    pub fn tensor_bytes(&self, tensor: TensorId) -> u64 {
        let elements = self.tensors[tensor.index()].elements();
        match self.quantisation(tensor) {
            Some(_) => elements,
            None => 4 * elements,
        }
    }
}
