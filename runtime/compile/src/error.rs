//! Why a network cannot be compiled.

use std::path::PathBuf;

use punctual_core::STAGES_MAX;
use punctual_diagnostics::Diagnostics;
use punctual_model::{CalibrationError, PackageError};
use thiserror::Error;

use crate::{ParseError, Problem, Unsupported};

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
        "the input {name:?} is {} in the ONNX file; {}", sizes(found), other_than(*height, *width)
    )]
    Input {
        name: String,
        /// Its dimensions in the file; `None` is known only when running.
        found: Vec<Option<i64>>,
        height: u32,
        width: u32,
    },
    /// The input has channels that no picture has, or leaves them open.
    #[error(
        "the input {name:?} is {}: a picture has 1, 3 or 4 channels; say --input prepared if the client prepares it",
        sizes(found)
    )]
    InputChannels {
        name: String,
        found: Vec<Option<i64>>,
    },
    /// A picture of bytes whose first dimension, the batch, is one of its sides.
    #[error(
        "the input {name:?} is {}, a picture without a batch: export it with a batch in front, (1, ..), or put an Unsqueeze of dimension 0 behind it; say --input prepared if {batch} is a batch",
        sizes(found)
    )]
    NoBatch {
        name: String,
        found: Vec<Option<i64>>,
        batch: i64,
    },
    /// A picture for which the options do not say how its values are normalised.
    #[error(
        "the input {name:?} is a picture of {channels} channel(s); say how its values are normalised: --normalise imagenet (as torchvision's networks want it), --normalise none (0 to 1), --normalise bytes (0 to 255), or --mean and --std; say --input prepared if it is no picture"
    )]
    NormalisationOpen { name: String, channels: u32 },
    /// A normalisation of what is no picture.
    #[error(
        "the input {name:?} is prepared by the client, who normalises it too; leave out --normalise, --mean and --std, or say --input picture if it is one"
    )]
    NormalisationPrepared { name: String },
    /// A normalisation of what the network normalises itself.
    #[error(
        "the input {name:?} is a picture in bytes (uint8), which the network normalises itself; leave out --normalise, --mean and --std"
    )]
    NormalisationBytes { name: String },
    /// A normalisation for another number of channels.
    #[error(
        "the input {name:?} has {channels} channel(s) to normalise; --mean has {mean} numbers and --std {std}"
    )]
    NormalisationCount {
        name: String,
        channels: u32,
        mean: usize,
        std: usize,
    },
    /// The size of the input is not given.
    #[error(
        "the ONNX file leaves the input's rows and columns open, as {}: give them as --size ROWSxCOLUMNS (of tokens 1xTOKENS), or as input.height and input.width in an options file",
        sizes(found)
    )]
    SizeOpen {
        /// Its dimensions in the file; `None` is known only when running.
        found: Vec<Option<i64>>,
    },
    /// Nodes that cannot be compiled.
    #[error(transparent)]
    Nodes(Unsupported),
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
    /// A number between those of exits that none has.
    #[error(
        "no output is named {missing:?}, and later exits are; number them one after the other, or list those that count with --exits. The outputs are {outputs:?}"
    )]
    ExitMissing {
        missing: String,
        outputs: Vec<String>,
    },
    /// An output that belongs to no exit, where others do.
    #[error(
        "the output {output:?} belongs to no exit; name it exit_N/NAME, leave it out when exporting, or list the exits that count with --exits. The outputs are {outputs:?}"
    )]
    OutputBesideExits {
        output: String,
        outputs: Vec<String>,
    },
    /// What the answer is cannot be told from the network.
    #[error(
        "say what an answer is: --answer classes (one of several), labels (any of several), detections (objects), none (something else). The outputs are\n  {}", .outputs.join("\n  ")
    )]
    AnswerOpen {
        /// Each with its shape.
        outputs: Vec<String>,
    },
    #[error(
        "{exit} has the outputs {outputs:?}; name the one with a score for each class {exit}/scores, or compile with --answer detections or none"
    )]
    NoScores { exit: String, outputs: Vec<String> },
    /// Other scores than classes.
    #[error("{exit} has {found} scores; there are {classes} classes")]
    ExitShape {
        exit: String,
        found: u32,
        classes: usize,
    },
    #[error(
        "the scores of {exit} are {found}; they must be one score a class, with shape (batch, classes). Compile with --answer detections or none if they are something else"
    )]
    NoVector { exit: String, found: String },
    #[error(
        "{exit}/confidence is {found}; it must be one number a request, in 0 to 1, with shape (batch) or (batch, 1)"
    )]
    Confidence { exit: String, found: String },
    /// An output in which the batch is not the first dimension.
    #[error(
        "the output {exit} is {found}: its first dimension must be the batch, and no other may depend on it"
    )]
    ExitView { exit: String, found: String },
    /// An output that is not computed from the input.
    #[error("the output {exit} is not computed from the input; leave it out when exporting")]
    ExitNotComputed { exit: String },
    /// A declaration that names what an exit does not have.
    #[error(
        "{exit} has no output {output:?} that could be reduced, or it is named twice; its outputs are {outputs:?}"
    )]
    NoSuchOutput {
        exit: String,
        output: String,
        outputs: Vec<String>,
    },
    #[error("the output {exit} cannot be reduced: {problem}")]
    Reduction { exit: String, problem: Problem },
    /// An output that is not what a decoder of detections reads.
    #[error("detections of {exit}: what is given as {key} is {found}; it must be {expected}")]
    DetectionOutput {
        exit: String,
        key: &'static str,
        found: String,
        expected: String,
    },
    #[error("detections of {exit}: the {what} is {value}; it must be {bounds}")]
    DetectionFigure {
        exit: String,
        what: &'static str,
        value: f64,
        bounds: &'static str,
    },
    #[error("{exit} has a confidence of its own; declare its detections without one")]
    TwoConfidences { exit: String },
    /// An exit that needs no operator of its own.
    #[error(
        "the exit {exit:?} adds no operator to the exits before it; leave it out or order the exits by depth"
    )]
    ExitAddsNothing { exit: String },
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

/// Dimensions as they are written in ONNX files, an open one as a question mark.
fn sizes(dims: &[Option<i64>]) -> String {
    let size = |size: &Option<i64>| size.map_or_else(|| "?".to_owned(), |size| size.to_string());
    format!("({})", dims.iter().map(size).collect::<Vec<_>>().join(", "))
}

/// What an input is that does not agree with its file.
fn other_than(height: u32, width: u32) -> String {
    if height == 0 || width == 0 {
        let forms = "tokens, (batch, tokens); or one to three dimensions behind the batch: values; channels and steps; channels, rows and columns";
        return format!("supported are {forms}, each at least 1");
    }
    format!("the options say {height} rows and {width} columns")
}
