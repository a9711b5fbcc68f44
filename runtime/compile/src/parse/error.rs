//! Why a file is not taken as an ONNX network.

use std::io;
use std::path::PathBuf;

use punctual_model::{VECTOR_LENGTH_MAX, VECTORS_MAX};
use punctual_platform::read::Refused;
use thiserror::Error;

use super::inputs::RANK_MAX;

/// Versions of the default operator set that this program was written for: from the one that
/// TorchScript's exporter has written for years to the newest whose changes were read.
pub(crate) const OPSETS: std::ops::RangeInclusive<i64> = 11..=28;

/// How deep branches and calls of functions may lie in each other.
pub(super) const NESTING_MAX: usize = 16;

/// Most bytes that calls of functions may add to what the file says: functions that each call another one twice double
/// with every level.
pub(super) const CALLED_MAX: usize = 64 << 20;

/// Why a file is not taken as an ONNX network.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ParseError {
    /// The bytes are no ONNX file.
    #[error("this is no ONNX file: {0}")]
    Protobuf(#[from] prost::DecodeError),
    #[error("the ONNX file contains no graph")]
    NoGraph,
    /// An operator set that this program does not know.
    #[error(
        "the ONNX file uses {}; supported are the operator sets {} to {}: export it with another opset_version",
        found.map_or_else(|| "no operator set".to_owned(), |set| format!("operator set {set}")),
        OPSETS.start(), OPSETS.end()
    )]
    Opset {
        /// The version, if it has one.
        found: Option<i64>,
    },
    #[error(
        "at node {node:?} branches and functions lie in each other more than {NESTING_MAX} deep, or a function calls itself"
    )]
    Nesting { node: String },
    #[error(
        "at node {node:?} the functions that are called come to more than {} MiB; inline functions when exporting",
        CALLED_MAX >> 20
    )]
    Called { node: String },
    #[error(
        "node {node:?} gives the function {function:?} more operands than it has, or asks for more results"
    )]
    Call { node: String, function: String },
    #[error(
        "the network's inputs beside its weights are {found:?}; it must have one picture or tensor, or several that are alike but for their channels and are stacked, with up to {VECTORS_MAX} vectors, (batch, length), of further fixed dimensions or a scalar, of at most {VECTOR_LENGTH_MAX} numbers each; or a row of tokens, perhaps with a mask of the tokens (of the same shape, with \"mask\" in its name)"
    )]
    Inputs { found: Vec<String> },
    /// The input is no tensor of a supported type with a declared shape.
    #[error(
        "the input {name:?} must be a tensor of floats, integers, booleans or uint8 with a declared shape of at most {RANK_MAX} dimensions"
    )]
    InputType { name: String },
    /// A tensor of values that no input has.
    #[error(
        "the input {name:?} is of {found}; supported are floats, integers, booleans and uint8: export it with an input of floats or uint8, and convert that in the network (Cast, QuantizeLinear)"
    )]
    InputElements { name: String, found: &'static str },
    #[error("the value {name:?} is defined twice")]
    DefinedTwice { name: String },
    /// A name that is not defined where it is used.
    #[error("{user} uses the value {name:?}, which is not defined before")]
    Undefined {
        /// A node, a function, or the outputs of a graph.
        user: String,
        name: String,
    },
    /// A constant whose data are in another file, and the folder of the ONNX file is not known.
    #[error("the data of {name:?} lie in another file; export with the weights inside")]
    ExternalData { name: String },
    /// A constant whose data would lie outside the ONNX file's folder.
    #[error(
        "the data of {name:?} lie in {location:?}; they must lie in a file beside the ONNX file, or in a folder there"
    )]
    ExternalLocation {
        name: String,
        /// Where they are said to lie.
        location: String,
    },
    /// The name lies in the folder, and the file that a link there leads to does not.
    #[error(
        "the data of {name:?} lie in {location:?}, which leads to {target} outside of the ONNX file's folder; copy the file there",
        target = .target.display()
    )]
    ExternalLink {
        name: String,
        location: String,
        target: PathBuf,
    },
    /// The data in other files are more than any network's.
    #[error("with {name:?} the data in other files are more than a network's weights may be")]
    ExternalSize { name: String },
    /// The file with a constant's data cannot be read, or has too few.
    #[error("the data of {name:?} cannot be read from {path}: {kind}", path = .path.display())]
    ExternalRead {
        name: String,
        /// The file, relative to the ONNX file.
        path: PathBuf,
        kind: io::ErrorKind,
    },
    /// The file with a constant's data is no regular file.
    #[error("the data of {name:?} are not read from {path}: {refused}", path = .path.display())]
    ExternalRefused {
        name: String,
        /// The file, relative to the ONNX file.
        path: PathBuf,
        refused: Refused,
    },
    /// A constant whose data do not fit its shape.
    #[error("the constant {name:?} has shape {dims:?} and {found} elements")]
    ConstantSize {
        name: String,
        dims: Vec<i64>,
        found: usize,
    },
}
