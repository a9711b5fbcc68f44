//! ONNX to package: parsing, lowering with shape folding, fusing, staging.
//!
//! The way of a network: bytes → [`parse`] → graph → [`lower`] (static shapes, shape arithmetic
//! folded away, views resolved) → draft → [`fuse`] (normalisation, residuals, activations) →
//! [`stage`] (cut at the exits) → [`Package`], which checks everything once more.
#![forbid(unsafe_code)]

mod draft;
mod fold;
mod fuse;
mod graph;
mod lower;
mod options;
mod parse;
mod problem;
mod report;
mod schema;
mod stage;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use punctual_core::STAGES_MAX;
use punctual_model::{
    Calibration, CalibrationError, Package, PackageError, TENSOR_ELEMENTS_MAX, Tensor, TensorId,
};
use thiserror::Error;

pub use options::{CompileOptions, OptionsError};
pub use parse::ParseError;
pub use problem::Problem;
pub use report::{CompileReport, Note, StageReport, ThresholdReport};

use graph::{Graph, ValueId};
use lower::{Lowering, Value};
use stage::CutError;

/// A compiled network and what there is to say of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The package.
    pub package: Package,
    /// The report.
    pub report: CompileReport,
}

/// Why a network cannot be compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The options file is malformed.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The calibration file is malformed.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// The ONNX file is malformed.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The input's shape is none that the options describe.
    #[error(
        "the input {name:?} is {found:?} in the ONNX file and (batch, 3, {height}, {width}) in the options"
    )]
    Input {
        /// Its name.
        name: String,
        /// Its dimensions in the file; `None` is known only when running.
        found: Vec<Option<i64>>,
        /// Rows, from the options.
        height: u32,
        /// Columns, from the options.
        width: u32,
    },
    /// A node that cannot be compiled.
    #[error("node {node:?} ({operator}): {problem}")]
    Node {
        /// Its name.
        node: String,
        /// Its operator.
        operator: String,
        /// Why.
        problem: Problem,
    },
    /// The network has no exits, or more than a model can have.
    #[error(
        "{found} exits; there must be 1 to {STAGES_MAX}. Name the outputs exit_0, exit_1, ... or list them as output.exits in the options; the outputs are {outputs:?}"
    )]
    ExitCount {
        /// How many there are.
        found: usize,
        /// All outputs of the network.
        outputs: Vec<String>,
    },
    /// An exit of the options that is no output of the network.
    #[error(
        "the exit {exit:?} of the options is no output of the network, or is listed twice; the outputs are {outputs:?}"
    )]
    NoSuchExit {
        /// The exit.
        exit: String,
        /// All outputs of the network.
        outputs: Vec<String>,
    },
    /// An exit that is no vector of class scores.
    #[error(
        "the exit {exit:?} is {found}; it must be one score a class, with shape (batch, {classes})"
    )]
    ExitShape {
        /// The exit.
        exit: String,
        /// What it is, for one image.
        found: Tensor,
        /// Number of classes.
        classes: usize,
    },
    /// An exit that is not computed from the input.
    #[error("the exit {exit:?} is not computed from the input")]
    ExitNotComputed {
        /// The exit.
        exit: String,
    },
    /// An exit that needs no operator of its own.
    #[error(
        "the exit {exit:?} adds no operator to the exits before it; leave it out or order the exits by depth"
    )]
    ExitAddsNothing {
        /// The exit.
        exit: String,
    },
    /// An exit whose class scores a deeper stage reads.
    #[error(
        "a deeper stage reads the exit {exit:?}; stages may share what lies before an exit, not its class scores"
    )]
    ExitReadLater {
        /// The exit.
        exit: String,
    },
    /// Taking a normalisation into a node's weights makes one of them infinite.
    #[error(
        "node {node:?}: with the normalisation after it one weight is {value}; weights must be finite"
    )]
    Overflow {
        /// The node that has the weights.
        node: String,
        /// The weight.
        value: f32,
    },
    /// The result breaks a rule of packages.
    #[error(transparent)]
    Package(#[from] PackageError),
}

/// Compiles the network that an options file describes, reading the ONNX file and the calibration
/// records that it names.
///
/// # Errors
/// When a file cannot be read, or as [`compile`].
pub fn compile_file(options: &Path) -> Result<Compiled, CompileError> {
    let folder = options.parent().unwrap_or(Path::new(""));
    let text = read_text(options)?;
    let options = CompileOptions::from_toml(&text)?;
    let path = folder.join(&options.onnx);
    let onnx = std::fs::read(&path).map_err(|source| CompileError::Read { path, source })?;
    let calibration = match &options.calibration {
        Some(path) => Calibration::from_json(&read_text(&folder.join(path))?)?,
        None => Calibration::default(),
    };
    compile(&onnx, calibration, &options)
}

fn read_text(path: &Path) -> Result<String, CompileError> {
    let failed = |source| CompileError::Read {
        path: path.to_owned(),
        source,
    };
    std::fs::read_to_string(path).map_err(failed)
}

/// Compiles an ONNX file. Same input, same package.
///
/// # Errors
/// When the file is malformed, uses what is not supported (the error names the node, its operator
/// and the reason), or does not fit the options.
pub fn compile(
    onnx: &[u8],
    calibration: Calibration,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let graph = parse::parse(onnx)?;
    let input = input_shape(&graph, options)?;
    let exits = exits(&graph, options)?;

    let mut lowering = Lowering::new(&graph, input);
    if let Some(&Some(batch)) = graph.input_dims.first() {
        lowering.notes.push(Note::FixedBatch { batch });
    }
    for node in &graph.nodes {
        lowering.node(node).map_err(|problem| CompileError::Node {
            node: node.name.clone(),
            operator: node.operator.clone(),
            problem,
        })?;
    }
    let (logits, classes) = logits(&mut lowering, &graph, &exits, options)?;
    let Lowering {
        mut draft,
        mut notes,
        ..
    } = lowering;
    let ignored = graph
        .outputs
        .iter()
        .filter(|output| !exits.contains(output));
    notes.extend(ignored.map(|id| Note::OutputIgnored {
        output: graph.values[id.0].clone(),
    }));
    match draft.remove_dead(&logits) {
        0 => {}
        operators => notes.push(Note::Dead { operators }),
    }
    let fused = fuse::fuse(&mut draft, &logits);
    for operator in &draft.operators {
        if let Some(value) = operator.kind.not_finite() {
            let node = operator.name.clone();
            return Err(CompileError::Overflow { node, value });
        }
    }
    let name = |exit: usize| graph.values[exits[exit].0].clone();
    let network = stage::cut(draft, &logits, options.name.clone(), options.input, classes)
        .map_err(|error| match error {
            CutError::Empty(exit) => CompileError::ExitAddsNothing { exit: name(exit) },
            CutError::ReadLater(exit) => CompileError::ExitReadLater { exit: name(exit) },
        })?;
    let package = Package::new(network, calibration)?;
    let report = CompileReport::of(&package, fused, notes);
    Ok(Compiled { package, report })
}

/// The input of one image, where the file and the options agree. Sides that the file leaves open
/// come from the options.
fn input_shape(graph: &Graph, options: &CompileOptions) -> Result<Tensor, CompileError> {
    let (height, width) = (options.input.height, options.input.width);
    let shape = Tensor {
        channels: 3,
        height,
        width,
    };
    let expected = [3, height, width].map(i64::from);
    let agrees = match graph.input_dims[..] {
        [_, channels, height, width] => std::iter::zip([channels, height, width], expected)
            .all(|(declared, expected)| declared.is_none_or(|declared| declared == expected)),
        _ => false,
    };
    if !agrees || shape.elements() == 0 || shape.elements() > TENSOR_ELEMENTS_MAX {
        let name = graph.values[graph.input.0].clone();
        let found = graph.input_dims.clone();
        return Err(CompileError::Input {
            name,
            found,
            height,
            width,
        });
    }
    Ok(shape)
}

/// The outputs that are exits, from the first to the last.
fn exits(graph: &Graph, options: &CompileOptions) -> Result<Vec<ValueId>, CompileError> {
    let name = |id: &ValueId| graph.values[id.0].as_str();
    let outputs = || graph.outputs.iter().map(|id| name(id).to_owned()).collect();
    let exits: Vec<ValueId> = if options.exits.is_empty() {
        let number = |id: &ValueId| name(id).strip_prefix("exit_")?.parse::<u32>().ok();
        let mut numbered: Vec<(u32, ValueId)> = graph
            .outputs
            .iter()
            .filter_map(|id| Some((number(id)?, *id)))
            .collect();
        numbered.sort_unstable();
        numbered.dedup();
        numbered.into_iter().map(|(_, id)| id).collect()
    } else {
        let mut found = Vec::new();
        for exit in &options.exits {
            let output = graph.outputs.iter().find(|id| name(id) == exit);
            match output.filter(|id| !found.contains(*id)) {
                Some(id) => found.push(*id),
                None => {
                    let (exit, outputs) = (exit.clone(), outputs());
                    return Err(CompileError::NoSuchExit { exit, outputs });
                }
            }
        }
        found
    };
    if exits.is_empty() || exits.len() > STAGES_MAX {
        return Err(CompileError::ExitCount {
            found: exits.len(),
            outputs: outputs(),
        });
    }
    Ok(exits)
}

/// The tensor of class scores of each exit, and the names of the classes.
fn logits(
    lowering: &mut Lowering,
    graph: &Graph,
    exits: &[ValueId],
    options: &CompileOptions,
) -> Result<(Vec<TensorId>, Vec<String>), CompileError> {
    let mut logits = Vec::with_capacity(exits.len());
    let mut classes = options.classes.clone();
    for id in exits {
        let exit = graph.values[id.0].clone();
        let (tensor, softmax) = match *lowering.value(*id) {
            Value::Softmax(tensor) => (tensor, true),
            Value::Features(tensor) | Value::Image(tensor) => (tensor, false),
            _ => return Err(CompileError::ExitNotComputed { exit }),
        };
        if tensor == TensorId(0) {
            return Err(CompileError::ExitNotComputed { exit });
        }
        let found = lowering.draft.tensors[tensor.index()];
        if classes.is_empty() {
            classes = (0..found.channels.min(CLASSES_NAMED))
                .map(|i| format!("class_{i}"))
                .collect();
        }
        if found.height != 1 || found.width != 1 || found.channels as usize != classes.len() {
            return Err(CompileError::ExitShape {
                exit,
                found,
                classes: classes.len(),
            });
        }
        if softmax {
            lowering.notes.push(Note::SoftmaxDropped { exit });
        }
        logits.push(tensor);
    }
    Ok((logits, classes))
}

/// Most classes that get a name made up for them: more than a package may have.
const CLASSES_NAMED: u32 = punctual_model::CLASSES_MAX as u32 + 1;
