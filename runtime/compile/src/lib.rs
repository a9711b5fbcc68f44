//! ONNX to package: parsing, lowering with shape folding, fusing, staging.
//!
//! The way of a network: bytes → `parse` → graph → `lower` (static shapes, shape arithmetic
//! folded away, views resolved) → draft → `fuse` (normalisation, residuals, activations) →
//! `stage` (cut at the exits) → [`Package`], which checks everything once more.
#![forbid(unsafe_code)]

mod draft;
mod error;
mod exits;
mod fold;
mod fuse;
mod gather;
mod graph;
mod input;
mod integer;
mod lower;
mod options;
mod parse;
mod problem;
mod quantise;
mod report;
pub mod schema;
mod stage;
#[cfg(test)]
mod tests;
mod unsupported;
mod write;

use std::path::Path;

use punctual_diagnostics::FILE_BYTES_MAX;
use punctual_model::{Calibration, Network, Package, Quantised, VectorSpec};
use punctual_platform::read;

pub use error::CompileError;
pub use lower::{compiled_operators, operators};
pub use options::{
    BYTES_MEAN, BYTES_STD, Background, BoxUnit, CompileOptions, DeclarationError, DetectionOptions,
    IMAGENET_MEAN, IMAGENET_STD, InputOptions, OutputPart, Overrides, Reduction, ReductionKind,
    ScoreValues,
};
pub use parse::ParseError;
pub use problem::Problem;
pub use report::{
    CompileReport, ConfidenceSource, ExitReport, InputReport, KindReport, Note, OutputReport,
    StageReport, ThresholdReport,
};
pub use unsupported::{NodeProblem, Unsupported};
pub use write::{StageFile, WriteError, batch_to_onnx, engine_to_onnx, stage_to_onnx, tensor_name};

use draft::Draft;
use error::{CALIBRATION_BYTES_MAX, ONNX_BYTES_MAX};
use exits::NamedExit;
use graph::{Graph, ValueId};
use input::Input;
use lower::Lowering;
use parse::External;
use stage::Empty;

/// A compiled network, and the report about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    pub package: Package,
    pub report: CompileReport,
    /// What the exits are called, from first to last: `exit_0`.
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
    let (mut options, folder) = if is_onnx {
        (CompileOptions::of(path), Path::new(""))
    } else {
        let options = CompileOptions::from_toml(&read_text(path, FILE_BYTES_MAX)?, path)?;
        (options, path.parent().unwrap_or(Path::new("")))
    };
    let classes = overrides.classes.as_ref();
    let classes = classes
        .map(|path| read_text(path, FILE_BYTES_MAX))
        .transpose()?;
    overrides.apply(&mut options, classes);
    let onnx = folder.join(&options.onnx);
    let graph = parse::parse(&read_onnx(&onnx)?, External::beside(&onnx))?;
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
    let mut input = input::of(graph, &options.input)?;
    let named = exits::find(graph, options)?;
    let mut lowering = lower(graph, &input)?;
    lowering.notes.insert(0, Note::Input { what: input.taken });
    let answers = exits::resolve(&mut lowering, graph, &named, options)?;
    let Lowering {
        mut draft,
        mut notes,
        ..
    } = lowering;
    let used: Vec<ValueId> = named.iter().flat_map(NamedExit::values).collect();
    let ignored = graph.outputs.iter().filter(|output| !used.contains(output));
    notes.extend(ignored.map(|id| Note::OutputIgnored {
        output: graph.values[id.0].clone(),
    }));
    let kept = answers.tensors();
    match draft.remove_dead(&kept) {
        0 => {}
        operators => notes.push(Note::Dead { operators }),
    }
    let vectors = graph.vectors.iter().map(|vector| VectorSpec {
        name: graph.values[vector.id.0].clone(),
        length: vector.length,
    });
    quantise::quantise(&mut draft, &kept);
    let fused = fuse::fuse(&mut draft, &kept, &mut input.spec.form);
    check_weights(&draft)?;
    let shell = Network {
        name: options.name.clone(),
        input: input.spec,
        vectors: vectors.collect(),
        answer: answers.kind,
        classes: answers.classes,
        tensors: Vec::new(),
        stages: Vec::new(),
        weights: Vec::new().into(),
        quantised: Quantised::default(),
    };
    let network = stage::cut(draft, answers.exits, shell);
    let network = network.map_err(|Empty(exit)| CompileError::ExitAddsNothing {
        exit: named[exit].name.clone(),
    })?;
    let package = Package::new(network, calibration)?.with_origin(input.origin);
    let report = CompileReport::of_compilation(&package, fused, notes);
    let exits = named.into_iter().map(|exit| exit.name).collect();
    Ok(Compiled {
        package,
        report,
        exits,
    })
}

fn lower<'a>(graph: &'a Graph, input: &Input) -> Result<Lowering<'a>, CompileError> {
    let mut lowering = Lowering::new(graph, input);
    if let Some(&Some(batch)) = graph.input_dims.first() {
        lowering.notes.push(Note::FixedBatch { batch });
    }
    if let Some(from) = graph.converted {
        lowering.notes.push(Note::Converted { from });
    }
    lowering.nodes(&graph.nodes);
    lowering.give_batch_to(&graph.outputs);
    if lowering.problems.is_empty() {
        Ok(lowering)
    } else {
        Err(CompileError::Nodes(Unsupported {
            nodes: lowering.problems,
            unchecked: lowering.unchecked,
        }))
    }
}

/// Folding a normalisation can make finite weights infinite.
fn check_weights(draft: &Draft) -> Result<(), CompileError> {
    for operator in &draft.operators {
        if let Some(value) = draft::not_finite(&operator.weights) {
            let node = operator.name.clone();
            return Err(CompileError::Overflow { node, value });
        }
    }
    Ok(())
}
