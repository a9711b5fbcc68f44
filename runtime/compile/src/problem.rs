//! Why a node cannot be compiled.

use std::collections::BTreeSet;

use punctual_model::{DIMENSION_MAX, ShapeError, TENSOR_ELEMENTS_MAX, Tensor};
use thiserror::Error;

/// The reason that an error about a node gives.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Problem {
    /// The operator is not in the list.
    #[error("this operator is not supported; supported are {}", crate::lower::supported().join(", "))]
    UnknownOperator,
    /// What detectors end in that were exported with their post-processing.
    #[error(
        "how many results it has depends on the picture, so that their time and memory cannot be planned; export the network without it, with boxes and scores as its outputs, and declare the decoder with --detections (docs/detectors.md shows how)"
    )]
    Suppression,
    /// The operator is from outside the standard set.
    #[error(
        "operators of the domain {domain:?} are not supported{}; export with standard operators only",
        but_for(domain)
    )]
    Domain { domain: String },
    /// The operator has an attribute that this program does not know.
    #[error("its attribute {name} = {value} is not supported")]
    UnknownAttribute { name: String, value: String },
    /// An attribute has an unsupported value.
    #[error("its attribute {name} is {value}; supported is {supported}")]
    Attribute {
        name: &'static str,
        value: String,
        supported: &'static str,
    },
    #[error("its attribute {name} is missing")]
    MissingAttribute { name: &'static str },
    #[error("its input {position} ({what}) is missing")]
    MissingInput { position: usize, what: &'static str },
    #[error("it has no output")]
    MissingOutput,
    /// An `If` whose branches a stage would have to choose between.
    #[error(
        "its condition is known only when running, or depends on the batch size, and a stage has no branches; export with fixed sizes, write a reshape for squeeze, or simplify the file (onnxsim)"
    )]
    Condition,
    #[error("it has {expected} outputs, and the branch that is chosen gives {found}")]
    BranchOutputs { found: usize, expected: usize },
    /// A constant's dimension is too large.
    #[error("a dimension of its constants is {value}; it must fit 32 bits")]
    Dimension { value: usize },
    /// More operands or results than are supported.
    #[error("it has {found} {what}; supported are at most {limit}")]
    TooMany {
        what: &'static str,
        found: usize,
        limit: usize,
    },
    /// An operand is of another kind than the operator takes.
    #[error("its input {position} ({what}) is {found}; supported is {expected}")]
    Input {
        position: usize,
        what: &'static str,
        found: String,
        expected: &'static str,
    },
    /// What one of the operators cannot that an operator stands for.
    #[error("in its {operator}, {problem}")]
    Within {
        operator: String,
        problem: Box<Problem>,
    },
    #[error("{0}")]
    Shape(#[from] ShapeError),
    /// A reshape to sizes that the dimensions cannot be cut into.
    #[error("it reshapes {from} to {to}; supported is to split dimensions and to merge neighbours")]
    Reshape { from: String, to: String },
    /// Part of a tensor that cannot be told from its dimensions.
    #[error(
        "it takes part of {from}; supported are evenly spaced positions known when compiling, of any dimension but the batch"
    )]
    Slice { from: String },
    /// A product of two values whose dimensions do not match, or of different images of the batch.
    #[error(
        "it multiplies {first} and {second}; supported are products for each image, of tensors and constants whose dimensions but for the last two are equal or one"
    )]
    Product { first: String, second: String },
    /// Two operands whose dimensions do not fit, or lie in another order.
    #[error(
        "it computes with {first} and {second}; their dimensions must be equal or 1, and those that are equal lie in the same order"
    )]
    Operands { first: String, second: String },
    /// A value that comes with each frame, and dimensions that have no place for the batch.
    #[error(
        "its input {position} is {found}, which comes with each frame and has no batch; this operator takes it only with a first dimension of 1: unsqueeze it before"
    )]
    Unbatched { position: usize, found: String },
    /// An image and a grid, or values and positions, whose dimensions do not match.
    #[error(
        "it takes values of {first} at positions {second}; both must have the same images and as many dimensions, and a grid (N, rows, columns, 2)"
    )]
    Positions { first: String, second: String },
    /// What its operands are known for when compiling cannot be computed.
    #[error("it computes with constants or shapes, and {reason}")]
    Folding { reason: &'static str },
    /// An operator that is supported only where it can be folded.
    #[error(
        "it is supported only where all its operands are known when compiling; its input {position} is {found}"
    )]
    NotConstant { position: usize, found: String },
    /// A weight, or what constants fold into, is infinite or not a number.
    #[error("its constants lead to the weight {value}; weights must be finite")]
    NotFinite { value: f32 },
    /// The result is empty or huge.
    #[error(
        "its result is {shape} for each image; each side must be 1 to {DIMENSION_MAX} and the elements at most {TENSOR_ELEMENTS_MAX}"
    )]
    ResultSize { shape: Tensor },
    /// With this node the network has more of something than a device takes.
    #[error("with it the network has more than {limit} {what}")]
    Limit { what: &'static str, limit: usize },
}

/// The operators of a domain that are supported.
fn but_for(domain: &str) -> String {
    let names = crate::lower::all_of(domain).map(|operator| operator.name);
    let names: BTreeSet<&str> = names.collect();
    match Vec::from_iter(names)[..] {
        [] => String::new(),
        ref names => format!(", but for {}", names.join(", ")),
    }
}

impl Problem {
    /// As its `Display`, but without the list of all that is supported.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::UnknownOperator => "this operator is not supported".to_owned(),
            Self::Domain { domain } => {
                format!("operators of the domain {domain:?} are not supported")
            }
            other => other.to_string(),
        }
    }

    pub(crate) fn attribute(
        name: &'static str,
        value: &impl ToString,
        supported: &'static str,
    ) -> Self {
        Self::Attribute {
            name,
            value: value.to_string(),
            supported,
        }
    }
}
