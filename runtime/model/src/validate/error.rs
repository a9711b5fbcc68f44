//! The rules that a network can break.

use thiserror::Error;

use punctual_types::AREA_BYTES_MAX;

use crate::limits::{
    DIMENSION_MAX, NAME_BYTES_MAX, OUTPUTS_MAX, QUANTISED_PRODUCTS_MAX, TENSOR_ELEMENTS_MAX,
    VECTOR_LENGTH_MAX, VECTORS_MAX,
};
use crate::shape::ShapeError;
use crate::{AnswerKind, Tensor, TensorId};

/// The rule that a network breaks.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NetworkError {
    /// A name is empty or too long.
    #[error("a name ({what}) has {bytes} bytes; it must have 1 to {NAME_BYTES_MAX}")]
    Name { what: &'static str, bytes: usize },
    /// Too many of something, or none.
    #[error("{found} {what}; there must be 1 to {limit}")]
    Count {
        what: &'static str,
        found: usize,
        limit: usize,
    },
    /// The normalisation is not finite, or divides by zero or a negative number.
    #[error(
        "channel {channel} is normalised with mean {mean} and std {std}; both must be finite and std positive"
    )]
    Normalisation { channel: usize, mean: f32, std: f32 },
    /// A weight is infinite or not a number.
    #[error("weight {index} is {value}; weights must be finite")]
    Weight { index: usize, value: f32 },
    /// A tensor has no elements, or too many.
    #[error(
        "tensor {tensor} is {shape}; each side must be 1 to {DIMENSION_MAX} and the elements at most {TENSOR_ELEMENTS_MAX}"
    )]
    TensorSize { tensor: usize, shape: Tensor },
    /// The first tensors are not those of the inputs.
    #[error("tensor {tensor} must be the network's input of shape {expected}")]
    Input { tensor: usize, expected: Tensor },
    /// A picture of other channels, or tokens with further ones.
    #[error(
        "the input has {channels} channels; a picture has 1, 3 or 4, tokens 1 and one for a mask"
    )]
    InputChannels { channels: u32 },
    #[error("{found} vectors come with an input; the limit is {VECTORS_MAX}")]
    Vectors { found: usize },
    #[error("the vector `{name}` has {length} numbers; it must have 1 to {VECTOR_LENGTH_MAX}")]
    VectorLength { name: String, length: u32 },
    #[error("two of {what} have the name `{name}`; give them different ones")]
    NameTwice { what: &'static str, name: String },
    /// An input, or the vector of this name, that changes no answer.
    #[error(
        "nothing reads {}, which comes with each request; leave it out when exporting",
        .vector.as_ref().map_or_else(|| "the input".to_owned(), |name| format!("the vector `{name}`"))
    )]
    UnreadInput { vector: Option<String> },
    #[error("tensor {tensor} is neither the network's input nor written by an operator")]
    NeverWritten { tensor: usize },
    /// A tensor that cannot be one of bytes.
    #[error(
        "tensor {tensor} is to be bytes in steps of {scale}; it must exist, be neither an input nor what an exit answers with, and the scale must be more than zero"
    )]
    Quantisation { tensor: TensorId, scale: f32 },
    /// Something is wrong with an exit.
    #[error("the exit of stage {stage}: {problem}")]
    Exit { stage: usize, problem: ExitError },
    /// Something is wrong inside a stage.
    #[error("stage {stage}: {problem}")]
    Stage { stage: usize, problem: StageError },
    /// Something is wrong with an operator.
    #[error("stage {stage}, operator {operator}: {problem}")]
    Operator {
        stage: usize,
        operator: String,
        problem: OperatorError,
    },
}

/// The rule that a stage breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StageError {
    /// There is nothing to run, and no time to measure.
    #[error("it has no operators; leave it out, or make it one with its neighbour")]
    NoOperators,
    /// A list of tensors is not in strictly rising order.
    #[error("its {list} are not in strictly rising order")]
    Unsorted { list: &'static str },
    /// An input that no earlier stage has written.
    #[error("it takes tensor {0}, which no earlier stage carries over")]
    NotCarried(TensorId),
    /// An input that none of its operators reads.
    #[error("it takes tensor {0} and no operator of it reads that")]
    UnreadInput(TensorId),
    /// An output that none of its operators writes.
    #[error("it carries tensor {0} over and no operator of it writes that")]
    UnwrittenOutput(TensorId),
    /// An output that no later stage takes.
    #[error("it carries tensor {0} over and no later stage takes that")]
    UselessOutput(TensorId),
    /// The last stage has to answer.
    #[error("it is the last one and ends in no exit")]
    NoExit,
}

/// The rule that an exit breaks.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ExitError {
    /// A tensor that is not there when the stage ends, or is an input of the network.
    #[error("it reads tensor {0}, which is written neither in its stage nor carried over to it")]
    NotWritten(TensorId),
    #[error("it has {found} outputs; there must be 1 to {OUTPUTS_MAX}")]
    OutputCount { found: usize },
    #[error("two of its outputs have the name `{0}`; give them different ones")]
    OutputTwice(String),
    /// The view does not lie in its tensor, or has other elements than the shape or the type says.
    #[error(
        "its output `{name}` of shape {shape:?} has another number or type of values than the tensor that it is made of"
    )]
    Output { name: String, shape: Vec<u32> },
    #[error(
        "its output `{name}` of shape {shape:?} has {bytes} bytes; the limit is {AREA_BYTES_MAX}. Make it smaller, as by a lower resolution"
    )]
    TooLarge {
        name: String,
        shape: Vec<u32>,
        bytes: u64,
    },
    /// Another exit has other outputs.
    #[error(
        "its output `{name}` is not at each exit with the same number of dimensions and the same type; give all exits the same outputs"
    )]
    Disagrees { name: String },
    #[error("it has no scores; answers of the kind `{kind}` need one for each class")]
    NoScores { kind: AnswerKind },
    #[error(
        "its scores are {shape}, there are {classes} classes; answers of the kind `{kind}` have a vector of one score a class, or none"
    )]
    Scores {
        kind: AnswerKind,
        shape: Tensor,
        classes: usize,
    },
    #[error("its confidence is {shape}; it must be one value")]
    Confidence { shape: Tensor },
}

/// The rule that an operator breaks.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum OperatorError {
    /// A tensor that does not exist.
    #[error("tensor {tensor} does not exist; there are {tensors}")]
    NoSuchTensor { tensor: TensorId, tensors: usize },
    /// It reads what is not there yet.
    #[error("it reads tensor {0}, which is neither an input of the stage nor written before")]
    ReadBeforeWritten(TensorId),
    /// It writes what is written already.
    #[error("it writes tensor {0}, which is written already")]
    WrittenTwice(TensorId),
    #[error("nothing reads its result, tensor {0}")]
    DeadResult(TensorId),
    #[error("its {what} are elements {start} to {start} + {len} of {weights} weights")]
    WeightRange {
        what: &'static str,
        start: u32,
        len: u32,
        weights: usize,
    },
    /// Weights of another size than its shapes need.
    #[error("it has {found} {what} and needs {expected}")]
    WeightCount {
        what: &'static str,
        found: u32,
        expected: u64,
    },
    #[error("it has {found} lists of weights and needs {expected}")]
    WeightLists { found: usize, expected: usize },
    #[error("{0}")]
    Shape(#[from] ShapeError),
    /// Its result has another shape than its output tensor.
    #[error("its result is {computed}, its output tensor is {declared}")]
    OutputShape { computed: Tensor, declared: Tensor },
    /// A figure that makes its results infinite or no numbers.
    #[error(
        "its {what} is {value}; it must be finite, and an epsilon or a resize's scale positive and not subnormal"
    )]
    Figure { what: &'static str, value: f32 },
    /// A decoder of detections with a figure out of range.
    #[error("its {what} is {value}; it must be {bounds}")]
    Decoder {
        what: &'static str,
        value: f64,
        bounds: &'static str,
    },
    /// Tensors of bytes and of floats as the operator cannot take them.
    #[error("it cannot read or write this mix of tensors of bytes and of floats")]
    Elements,
    /// Another activation than a clip on bytes.
    #[error("its activation is a curve; bytes can only be clipped")]
    Curve,
    /// A scale of weights that is no size of a step.
    #[error(
        "a step of its weights is {scale}, of its input {input}; their product must be a normal number above zero"
    )]
    Scale { scale: f32, input: f32 },
    /// Sums that might leave 32 bits.
    #[error(
        "each of its sums has {products} terms; the limit for bytes is {}. Convert to floats before it",
        QUANTISED_PRODUCTS_MAX
    )]
    Products { products: u64 },
    /// Clip bounds that are not finite or not in order.
    #[error("it clips to {low}..{high}; bounds must be finite and in order")]
    Clip { low: f32, high: f32 },
}
