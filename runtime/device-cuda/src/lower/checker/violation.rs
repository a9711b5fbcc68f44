//! What the launches of a list would do that the network does not say.

use std::fmt;

use punctual_cuda_kernels::params::Kept;
use punctual_model::TensorId;
use thiserror::Error;

/// A launch that would not do what the network says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("launch {launch} (`{name}`) of stage {stage} for batches of {batch} {fault}")]
pub struct Violation {
    pub stage: u32,
    pub batch: u8,
    /// Its position in the list; that of no launch, if something is missing at the list's end.
    pub launch: usize,
    /// Its operator, or what the device adds.
    pub name: String,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("reads {at}, where {expected} must be; there is {found}")]
    Read {
        at: At,
        expected: Value,
        found: Found,
    },
    #[error("reads {at}, where a whole tensor must be; there is {found}")]
    NoTensor { at: At, found: Found },
    #[error("does not read {what}, from which it computes its result")]
    NotRead { what: Value },
    #[error("reads operand {operand}, and its operator has no such operand")]
    NoOperand { operand: u8 },
    #[error("is no operator's of its stage")]
    NoOperator,
    #[error("writes {at}: tensor {} has no such size in any form", .tensor.0)]
    Size { at: At, tensor: TensorId },
    #[error("takes tensor {} to lie as {found:?} (height, width, channels, pitch), and it lies as {expected:?}", .tensor.0)]
    Shape {
        tensor: TensorId,
        expected: [u32; 4],
        found: [u32; 4],
    },
    #[error("touches {at}: there are only {end} bytes")]
    Bounds { at: At, end: u64 },
    #[error("writes where it reads: it could not be run again from its start")]
    Overlap,
    #[error("makes what comes from {found} on of tensor {}, and what comes before is there up to {made}", .tensor.0)]
    Part {
        tensor: TensorId,
        made: u32,
        found: u32,
    },
    #[error("copies piece {piece} of tensor {} with another {what} than the network says", .tensor.0)]
    Piece {
        tensor: TensorId,
        piece: u32,
        what: &'static str,
    },
    #[error(
        "reads weights at byte {offset} of page {page}, which are those of another operator or other channels"
    )]
    Weights { page: u32, offset: u32 },
    #[error("takes member {found} of the batch, or another offset, for member {expected}")]
    Member { expected: u8, found: u8 },
    #[error("computes {found} images")]
    Images { found: u32 },
    #[error(
        "reads an input at byte {offset} of a request buffer with these strides, where none lies so"
    )]
    Input { offset: u64 },
    #[error("writes {at}: tensor {} is there, and stage {reader} still reads it", .tensor.0)]
    SlotInUse {
        at: At,
        tensor: TensorId,
        reader: usize,
    },
    #[error(
        "writes {at}, which its stage has read: the stage could not be run again from its start"
    )]
    SlotRead { at: At },
    #[error("carries {what}, which its stage does not")]
    NotOfStage { what: Value },
    #[error("carries tensors to other slots than the list for batches of {other}")]
    Slots { other: u8 },
    #[error(
        "writes an output at byte {offset} of the area's, where none is wanted or one was written"
    )]
    Target { offset: u64 },
    #[error("writes output `{output}` with another {what} than the network says")]
    Output { output: String, what: &'static str },
    #[error("answers with another {what} than the network says")]
    Answers { what: &'static str },
    #[error("comes after the answers")]
    AfterAnswers,
    #[error("is missing: {0}")]
    Missing(Missing),
}

/// What a list ends without.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Missing {
    #[error("tensor {} is not carried to the stages that read it", .0.0)]
    Carried(TensorId),
    #[error("output `{0}` is not written")]
    Output(String),
    #[error("nothing says that the stage is done")]
    Answers,
}

/// Bytes of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    pub memory: &'static str,
    pub start: u64,
    pub bytes: u64,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.start.saturating_add(self.bytes);
        write!(f, "bytes {}..{end} of the {}", self.start, self.memory)
    }
}

/// What memory holds, of a whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Tensor {
        tensor: TensorId,
        kept: Kept,
    },
    /// A tensor that several launches make, each a part, in order: channels, columns or pieces.
    Part {
        tensor: TensorId,
        kept: Kept,
        made: u32,
    },
    /// Sums in parts of an operator's output channels from `first` on.
    Sums {
        operator: u32,
        first: u32,
    },
    /// A recurrent layer's state after `steps` steps.
    State {
        operator: u32,
        steps: u32,
    },
    /// Of values that are not finite, as many counts an image.
    Counts {
        made: u32,
    },
    /// An operator's weights.
    Weights {
        operator: u32,
    },
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = |kept: &Kept| match kept {
            Kept::Halves => "halves",
            Kept::Floats => "floats",
            Kept::Bytes => "bytes",
        };
        match self {
            Self::Tensor { tensor, kept } => write!(f, "tensor {} in {}", tensor.0, form(kept)),
            Self::Part { tensor, kept, made } => {
                let form = form(kept);
                write!(f, "tensor {} in {form}, made up to {made}", tensor.0)
            }
            Self::Sums { operator, first } => {
                write!(
                    f,
                    "sums of the operator at position {operator}, from channel {first} on"
                )
            }
            Self::State { operator, steps } => {
                write!(
                    f,
                    "the state of the operator at position {operator} after {steps} steps"
                )
            }
            Self::Counts { made } => write!(f, "{made} counts of values that are not finite"),
            Self::Weights { operator } => {
                write!(f, "the weights of the operator at position {operator}")
            }
        }
    }
}

/// What is where something else is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing was written there, or what was written is overwritten in part.
    Nothing,
    /// It lies exactly there.
    Whole(Value),
    /// It lies there in part, or with more or less next to it.
    Partly(Value),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing that anybody wrote and nobody overwrote"),
            Self::Whole(value) => value.fmt(f),
            Self::Partly(value) => write!(f, "{value}, at other bounds"),
        }
    }
}
