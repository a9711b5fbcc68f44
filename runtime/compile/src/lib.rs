//! ONNX to package: parsing, lowering with shape folding, fusing, staging.
//!
//! The way of a network: bytes → `parse` → graph → `lower` (static shapes, shape arithmetic
//! folded away, views resolved) → draft → `fuse` (normalisation, residuals, activations) →
//! `stage` (cut at the exits) → [`Package`], which checks everything once more.
#![forbid(unsafe_code)]

mod draft;
mod error;
mod fold;
mod fuse;
mod gather;
mod graph;
mod lower;
mod options;
mod parse;
mod problem;
mod quantise;
mod report;
mod schema;
mod stage;
#[cfg(test)]
mod tests;
mod write;

use std::path::Path;

use punctual_core::STAGES_MAX;
use punctual_diagnostics::FILE_BYTES_MAX;
use punctual_model::{
    Calibration, InputForm, InputSpec, Package, TENSOR_ELEMENTS_MAX, Tensor, TensorId,
};
use punctual_platform::read;

pub use error::CompileError;
pub use options::{CompileOptions, IMAGENET_MEAN, IMAGENET_STD, Overrides};
pub use parse::ParseError;
pub use problem::Problem;
pub use report::{CompileReport, KindReport, Note, StageReport, ThresholdReport};
pub use write::{WriteError, stage_to_onnx, tensor_name};

use draft::Draft;
use error::{CALIBRATION_BYTES_MAX, ONNX_BYTES_MAX};
use graph::{Graph, ValueId};
use lower::{Lowering, Value};
use parse::External;
use stage::CutError;

/// A compiled network and what there is to say of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    pub package: Package,
    pub report: CompileReport,
    /// The names of the ONNX file's outputs that are the exits, from first to last.
    pub exits: Vec<String>,
}

/// Compiles the network that an options file describes, reading the ONNX file and the calibration
/// records that it names.
pub fn compile_file(options: &Path) -> Result<Compiled, CompileError> {
    compile_with(options, &Overrides::default())
}

/// Compiles an ONNX file (a name that ends in `.onnx`) or the network that an options file describes.
pub fn compile_with(path: &Path, overrides: &Overrides) -> Result<Compiled, CompileError> {
    let is_onnx = path
        .extension()
        .is_some_and(|extension| extension == "onnx");
    let (graph, options, folder) = if is_onnx {
        let graph = parse::parse(&read_onnx(path)?, External::beside(path))?;
        let options = overrides.complete(path, &graph);
        if options.input.height == 0 || options.input.width == 0 {
            let found = graph.input_dims;
            return Err(CompileError::SizeOpen { found });
        }
        (graph, options, Path::new(""))
    } else {
        let mut options = CompileOptions::from_toml(&read_text(path, FILE_BYTES_MAX)?, path)?;
        overrides.apply(&mut options);
        let folder = path.parent().unwrap_or(Path::new(""));
        let onnx = folder.join(&options.onnx);
        let graph = parse::parse(&read_onnx(&onnx)?, External::beside(&onnx))?;
        (graph, options, folder)
    };
    let in_options = options.calibration.as_ref().map(|path| folder.join(path));
    let calibration = match overrides.calibration.clone().or(in_options) {
        Some(path) => Calibration::from_json(&read_text(&path, CALIBRATION_BYTES_MAX)?)?,
        None => Calibration::default(),
    };
    compile_graph(&graph, calibration, &options)
}

fn read_onnx(path: &Path) -> Result<Vec<u8>, CompileError> {
    let failed = |source| CompileError::Read {
        path: path.to_owned(),
        source,
    };
    read::bytes(path, ONNX_BYTES_MAX).map_err(failed)
}

fn read_text(path: &Path, limit: u64) -> Result<String, CompileError> {
    let failed = |source| CompileError::Read {
        path: path.to_owned(),
        source,
    };
    read::text(path, limit).map_err(failed)
}

/// Compiles an ONNX file. Same input, same package.
pub fn compile(
    onnx: &[u8],
    calibration: Calibration,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    compile_graph(
        &parse::parse(onnx, External::refused())?,
        calibration,
        options,
    )
}

fn compile_graph(
    graph: &Graph,
    calibration: Calibration,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let input = input_shape(graph, options)?;
    let exits = exits(graph, options)?;

    let mut lowering = lower(graph, input)?;
    let (logits, classes) = logits(&mut lowering, graph, &exits, options)?;
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
    quantise::quantise(&mut draft, &logits);
    let fused = fuse::fuse(&mut draft, &logits);
    check_weights(&draft)?;
    let name = |exit: usize| graph.values[exits[exit].0].clone();
    let network = stage::cut(
        draft,
        &logits,
        options.name.clone(),
        spec(graph, options),
        classes,
    )
    .map_err(|error| match error {
        CutError::Empty(exit) => CompileError::ExitAddsNothing { exit: name(exit) },
        CutError::ReadLater(exit) => CompileError::ExitReadLater { exit: name(exit) },
    })?;
    let package = Package::new(network, calibration)?;
    let report = CompileReport::of(&package, fused, notes);
    let exits = exits.iter().map(|id| graph.values[id.0].clone()).collect();
    Ok(Compiled {
        package,
        report,
        exits,
    })
}

/// What the network takes: nothing of tokens is normalised.
fn spec(graph: &Graph, options: &CompileOptions) -> InputSpec {
    match graph.form {
        InputForm::Image => options.input,
        form @ InputForm::Tokens { .. } => InputSpec {
            mean: [0.0; 3],
            std: [1.0; 3],
            form,
            ..options.input
        },
    }
}

fn lower(graph: &Graph, input: Tensor) -> Result<Lowering<'_>, CompileError> {
    let mut lowering = Lowering::new(graph, input);
    if let Some(&Some(batch)) = graph.input_dims.first() {
        lowering.notes.push(Note::FixedBatch { batch });
    }
    if let Some(from) = graph.converted {
        lowering.notes.push(Note::Converted { from });
    }
    for node in &graph.nodes {
        lowering.node(node).map_err(|problem| CompileError::Node {
            node: node.name.clone(),
            operator: node.operator.clone(),
            problem,
        })?;
    }
    Ok(lowering)
}

/// Folding a normalisation can make finite weights infinite.
fn check_weights(draft: &Draft) -> Result<(), CompileError> {
    for operator in &draft.operators {
        if let Some(value) = operator.kind.not_finite() {
            let node = operator.name.clone();
            return Err(CompileError::Overflow { node, value });
        }
    }
    Ok(())
}

/// The input of one image, where the file and the options agree. Sides that the file leaves open
/// come from the options.
fn input_shape(graph: &Graph, options: &CompileOptions) -> Result<Tensor, CompileError> {
    let (height, width) = (options.input.height, options.input.width);
    let shape = InputSpec {
        form: graph.form,
        ..options.input
    }
    .tensor();
    let expected = [3, height, width].map(i64::from);
    let agrees = match (graph.form, &graph.input_dims[..]) {
        (InputForm::Image, &[_, channels, height, width]) => {
            std::iter::zip([channels, height, width], expected)
                .all(|(declared, expected)| declared.is_none_or(|declared| declared == expected))
        }
        (InputForm::Tokens { .. }, &[_, tokens]) => {
            height == 1 && tokens.is_none_or(|declared| declared == i64::from(width))
        }
        _ => false,
    };
    if !agrees || shape.elements() == 0 || shape.elements() > TENSOR_ELEMENTS_MAX {
        let name = graph.values[graph.input.0].clone();
        let found = graph.input_dims.clone();
        if graph.form != InputForm::Image {
            return Err(CompileError::TokenInput {
                name,
                found,
                height,
                width,
            });
        }
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
        match (&numbered[..], &graph.outputs[..]) {
            ([], &[only]) => vec![only],
            _ => numbered.into_iter().map(|(_, id)| id).collect(),
        }
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
        let (view, softmax) = match lowering.value(*id) {
            Value::Softmax(view) => (view, true),
            Value::View(view) => (view, false),
            _ => return Err(CompileError::ExitNotComputed { exit }),
        };
        let tensor = view.tensor;
        if tensor == TensorId(0) {
            return Err(CompileError::ExitNotComputed { exit });
        }
        let found = lowering.draft.tensors[tensor.index()];
        if !view.is_image(found) && !view.is_features(found) {
            return Err(CompileError::ExitView { exit });
        }
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
