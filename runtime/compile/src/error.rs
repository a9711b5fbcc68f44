//! Why a network cannot be compiled.

use std::path::PathBuf;

use punctual_core::STAGES_MAX;
use punctual_diagnostics::Diagnostics;
use punctual_model::{CalibrationError, PackageError, Tensor};
use thiserror::Error;

use crate::{ParseError, Problem};

/// Protocol buffers have no larger files.
pub(crate) const ONNX_BYTES_MAX: u64 = (2 << 30) - 1;

pub(crate) const CALIBRATION_BYTES_MAX: u64 = 256 << 20;

/// Why a network cannot be compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    #[error("cannot read {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the compile options are malformed\n{0}")]
    Options(#[from] Diagnostics),
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The input's shape is none that the options describe.
    #[error(
        "the input {name:?} is {found:?} in the ONNX file and (batch, 3, {height}, {width}) in the options"
    )]
    Input {
        name: String,
        /// Its dimensions in the file; `None` is known only when running.
        found: Vec<Option<i64>>,
        height: u32,
        width: u32,
    },
    /// The input is tokens that do not fit the options.
    #[error(
        "the input {name:?} is {found:?} in the ONNX file; with these options it must be (batch, {width}), {width} tokens in {height} row(s), of which there can be one only"
    )]
    TokenInput {
        name: String,
        /// Its dimensions in the file; `None` is known only when running.
        found: Vec<Option<i64>>,
        height: u32,
        width: u32,
    },
    /// The size of the input is not given.
    #[error(
        "the ONNX file leaves the input's rows and columns open, as {found:?}: give them as --size ROWSxCOLUMNS (of tokens 1xTOKENS), or as input.height and input.width in an options file"
    )]
    SizeOpen {
        /// Its dimensions in the file; `None` is known only when running.
        found: Vec<Option<i64>>,
    },
    /// A node that cannot be compiled.
    #[error("node {node:?} ({operator}): {problem}")]
    Node {
        node: String,
        operator: String,
        problem: Problem,
    },
    /// The network has no exits, or more than a model can have.
    #[error(
        "{found} exits; there must be 1 to {STAGES_MAX}. Name the outputs exit_0, exit_1, ... or list them as output.exits in the options; the outputs are {outputs:?}"
    )]
    ExitCount { found: usize, outputs: Vec<String> },
    /// An exit of the options that is no output of the network.
    #[error(
        "the exit {exit:?} of the options is no output of the network, or is listed twice; the outputs are {outputs:?}"
    )]
    NoSuchExit { exit: String, outputs: Vec<String> },
    /// An exit that is no vector of class scores.
    #[error(
        "the exit {exit:?} is {found}; it must be one score a class, with shape (batch, {classes})"
    )]
    ExitShape {
        exit: String,
        /// What it is, for one image.
        found: Tensor,
        classes: usize,
    },
    /// An exit that is part of what an operator computes, or that in another order.
    #[error(
        "the exit {exit:?} is a part or a reordering of an operator's result; export the whole result as the exit"
    )]
    ExitView { exit: String },
    /// An exit that is not computed from the input.
    #[error("the exit {exit:?} is not computed from the input")]
    ExitNotComputed { exit: String },
    /// An exit that needs no operator of its own.
    #[error(
        "the exit {exit:?} adds no operator to the exits before it; leave it out or order the exits by depth"
    )]
    ExitAddsNothing { exit: String },
    /// An exit whose class scores a deeper stage reads.
    #[error(
        "a deeper stage reads the exit {exit:?}; stages may share what lies before an exit, not its class scores"
    )]
    ExitReadLater { exit: String },
    /// Taking a normalisation into a node's weights makes one of them infinite.
    #[error(
        "node {node:?}: with the normalisation after it one weight is {value}; weights must be finite"
    )]
    Overflow {
        /// The node that has the weights.
        node: String,
        value: f32,
    },
    /// The result breaks a rule of packages.
    #[error(transparent)]
    Package(#[from] PackageError),
}
