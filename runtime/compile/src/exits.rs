//! What a network gives back: which of its outputs belong to which exit, and what of them is the answer.
//!
//! An output `exit_0/boxes` is the tensor `boxes` of exit 0; `exit_0` alone is its only one. A network without such names
//! has one exit with all of its outputs. `exit_0/confidence` is how sure the network itself is. Nothing is guessed: where
//! the kind of the answer is not beyond doubt, the user is asked for it.

use std::collections::BTreeMap;

use punctual_core::STAGES_MAX;
use punctual_model::{AnswerKind, Exit, ONLY_OUTPUT, Output, ScoreForm, Scores, Tensor, TensorId};
use punctual_types::{Activation, Element, Quantisation};

use crate::error::CompileError;
use crate::graph::{Graph, ValueId};
use crate::integer::Dim;
use crate::lower::operands::describe_dims;
use crate::lower::reductions::{Detected, DetectionProblem, DetectorViews, Reduced};
use crate::lower::{Lowering, Value, view_algebra};
use crate::options::{CompileOptions, DetectionOptions};
use crate::report::Note;
use crate::schema::data_type;

/// The output by which a network says how sure it is.
const CONFIDENCE: &str = "confidence";
/// The output that holds the scores of classes where there are several.
const SCORES: &str = "scores";

/// An exit as the file and the options name it.
#[derive(Debug)]
pub(crate) struct NamedExit {
    /// E.g. `exit_0`.
    pub name: String,
    outputs: Vec<NamedOutput>,
    confidence: Option<ValueId>,
}

#[derive(Debug)]
struct NamedOutput {
    name: String,
    value: ValueId,
}

/// What all exits give, in terms of the draft's tensors.
pub(crate) struct Answers {
    pub exits: Vec<Exit>,
    pub kind: AnswerKind,
    pub classes: Vec<String>,
}

impl Answers {
    /// All tensors that an exit reads.
    pub fn tensors(&self) -> Vec<TensorId> {
        self.exits.iter().flat_map(Exit::reads).collect()
    }
}

/// The exits from the first to the last, each with its outputs.
pub(crate) fn find(
    graph: &Graph,
    options: &CompileOptions,
) -> Result<Vec<NamedExit>, CompileError> {
    let outputs = || {
        let outputs = graph.outputs.iter();
        outputs.map(|id| graph.values[id.0].clone()).collect()
    };
    let exits = match &options.exits[..] {
        [] => by_names(graph)?,
        listed => {
            let mut found: Vec<NamedExit> = Vec::new();
            for exit in listed {
                let of_exit = outputs_of(graph, exit);
                let listed_before = found.iter().any(|other| other.name == *exit);
                if of_exit.is_empty() || listed_before {
                    let (exit, outputs) = (exit.clone(), outputs());
                    return Err(CompileError::NoSuchExit { exit, outputs });
                }
                found.push(NamedExit::of(exit, of_exit));
            }
            found
        }
    };
    if exits.is_empty() || exits.len() > STAGES_MAX {
        return Err(CompileError::ExitCount {
            found: exits.len(),
            outputs: outputs(),
        });
    }
    Ok(exits)
}

impl NamedExit {
    fn of<'a>(name: &str, outputs: impl IntoIterator<Item = (&'a str, ValueId)>) -> Self {
        let mut exit = Self {
            name: name.to_owned(),
            outputs: Vec::new(),
            confidence: None,
        };
        for (name, value) in outputs {
            match name {
                CONFIDENCE => exit.confidence = Some(value),
                name => exit.outputs.push(NamedOutput {
                    name: name.to_owned(),
                    value,
                }),
            }
        }
        exit
    }

    /// The values of the graph that it reads.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + '_ {
        let outputs = self.outputs.iter().map(|output| output.value);
        outputs.chain(self.confidence)
    }

    fn named(&self, name: &str) -> Result<&NamedOutput, CompileError> {
        let found = self.outputs.iter().find(|output| output.name == name);
        found.ok_or_else(|| self.no_output(name))
    }

    fn no_output(&self, name: &str) -> CompileError {
        let outputs = self.outputs.iter().map(|output| output.name.clone());
        CompileError::NoSuchOutput {
            exit: self.name.clone(),
            output: name.to_owned(),
            outputs: outputs.collect(),
        }
    }

    /// The output with the scores of classes: the one of that name, or the only one.
    fn scores(&self) -> Option<&NamedOutput> {
        let named = self.outputs.iter().find(|output| output.name == SCORES);
        named.or(match &self.outputs[..] {
            [only] => Some(only),
            _ => None,
        })
    }
}

/// The outputs of an exit that is listed: the one of its name, or all `NAME/...`.
fn outputs_of<'a>(graph: &'a Graph, exit: &str) -> Vec<(&'a str, ValueId)> {
    let named = |id: &ValueId| {
        let name = graph.values[id.0].as_str();
        let rest = name.strip_prefix(exit)?;
        match rest.strip_prefix('/') {
            Some(output) if !output.is_empty() => Some((output, *id)),
            _ => rest.is_empty().then_some((ONLY_OUTPUT, *id)),
        }
    };
    graph.outputs.iter().filter_map(named).collect()
}

/// Outputs named `exit_K` or `exit_K/NAME`, by rising K, all of them and without gaps; without any, all as one exit.
fn by_names(graph: &Graph) -> Result<Vec<NamedExit>, CompileError> {
    let name = |id: &ValueId| graph.values[id.0].clone();
    let all = || graph.outputs.iter().map(name).collect();
    let mut numbered: BTreeMap<u32, Vec<(&str, ValueId)>> = BTreeMap::new();
    for &id in &graph.outputs {
        if let Some((number, name)) = exit_name(&graph.values[id.0]) {
            let outputs = numbered.entry(number).or_default();
            if !outputs.iter().any(|(_, other)| *other == id) {
                outputs.push((name, id));
            }
        }
    }
    let Some((&first, _)) = numbered.first_key_value() else {
        let outputs = graph.outputs.iter();
        let named = outputs.map(|&id| match &graph.outputs[..] {
            [_] => (ONLY_OUTPUT, id),
            _ => (graph.values[id.0].as_str(), id),
        });
        let exit = NamedExit::of("exit_0", named);
        return Ok(if exit.outputs.is_empty() {
            Vec::new()
        } else {
            vec![exit]
        });
    };
    let is_beside = |id: &&ValueId| exit_name(&graph.values[id.0]).is_none();
    if let Some(output) = graph.outputs.iter().find(is_beside) {
        let (output, outputs) = (name(output), all());
        return Err(CompileError::OutputBesideExits { output, outputs });
    }
    let gap = (first..)
        .zip(numbered.keys())
        .find(|(expected, found)| expected != *found);
    if let Some((missing, _)) = gap {
        let (missing, outputs) = (format!("exit_{missing}"), all());
        return Err(CompileError::ExitMissing { missing, outputs });
    }
    let exits = numbered.into_iter();
    let exits = exits.map(|(number, outputs)| NamedExit::of(&format!("exit_{number}"), outputs));
    Ok(exits.collect())
}

/// The number of the exit, and the name of the tensor.
fn exit_name(output: &str) -> Option<(u32, &str)> {
    let rest = output.strip_prefix("exit_")?;
    let (number, name) = rest.split_once('/').unwrap_or((rest, ONLY_OUTPUT));
    Some((number.parse().ok()?, name)).filter(|_| !name.is_empty())
}

/// What the exits give, once the graph is lowered.
pub(crate) fn resolve(
    lowering: &mut Lowering<'_>,
    graph: &Graph,
    named: &[NamedExit],
    options: &CompileOptions,
) -> Result<Answers, CompileError> {
    let kind = kind(lowering, named, options)?;
    let mut classes = options.classes.clone();
    let mut exits = Vec::with_capacity(named.len());
    for exit in named {
        exits.push(resolved(lowering, graph, exit, kind, options)?);
    }
    let scores = exits.iter().find_map(|exit: &Exit| exit.scores);
    if let Some(Scores { tensor, .. }) = scores
        && classes.is_empty()
    {
        let count = lowering.draft.tensors[tensor.index()].channels;
        let count = count.min(CLASSES_NAMED);
        classes = (0..count).map(|at| format!("class_{at}")).collect();
    }
    for (exit, named) in exits.iter().zip(named) {
        let Some(Scores { tensor, .. }) = exit.scores else {
            continue;
        };
        let found = lowering.draft.tensors[tensor.index()];
        if found.channels as usize != classes.len() {
            return Err(CompileError::ExitShape {
                exit: named.name.clone(),
                found: found.channels,
                classes: classes.len(),
            });
        }
    }
    Ok(Answers {
        exits,
        kind,
        classes,
    })
}

/// Most classes that get a name made up for them: more than a package may have.
const CLASSES_NAMED: u32 = punctual_model::CLASSES_MAX as u32 + 1;

/// What the user says that an answer is, or what is beyond doubt.
fn kind(
    lowering: &mut Lowering<'_>,
    exits: &[NamedExit],
    options: &CompileOptions,
) -> Result<AnswerKind, CompileError> {
    if let Some(kind) = options.answer {
        return Ok(kind);
    }
    if options.detections.is_some() {
        let (kind, why) = (AnswerKind::Detections, "they are declared");
        lowering.notes.push(Note::Answer { kind, why });
        return Ok(kind);
    }
    let scores: Option<Vec<&Value>> = exits
        .iter()
        .map(|exit| Some(lowering.value(exit.scores()?.value)))
        .collect();
    let scores = scores.unwrap_or_default();
    let is_vector = |value: &&Value| match value {
        Value::View(view) => {
            matches!(view.sizes()[..], [_, Dim::Known(classes)] if classes as usize == options.classes.len())
        }
        Value::Softmax(_) => true,
        _ => false,
    };
    let why = if scores.is_empty() {
        None
    } else if scores
        .iter()
        .all(|value| matches!(value, Value::Softmax(_)))
    {
        Some("each exit ends in a softmax")
    } else if !options.classes.is_empty() && scores.iter().all(is_vector) {
        Some("each exit has one score for each name of a class")
    } else {
        None
    };
    let Some(why) = why else {
        let outputs = exits.iter().flat_map(|exit| {
            let outputs = exit.outputs.iter();
            outputs.map(|output| {
                let value = lowering.describe(lowering.value(output.value));
                format!("{}/{}: {value}", exit.name, output.name)
            })
        });
        let outputs = outputs.collect();
        return Err(CompileError::AnswerOpen { outputs });
    };
    let kind = AnswerKind::Classes;
    lowering.notes.push(Note::Answer { kind, why });
    Ok(kind)
}

fn resolved(
    lowering: &mut Lowering<'_>,
    graph: &Graph,
    named: &NamedExit,
    kind: AnswerKind,
    options: &CompileOptions,
) -> Result<Exit, CompileError> {
    let scores_of = named.scores().filter(|_| kind.has_class());
    let scores_of = scores_of.map(|output| output.value);
    for output in &named.outputs {
        if Some(output.value) != scores_of {
            let computed = lowering.compute_output(&named.name, output.value);
            computed.map_err(|_| CompileError::ExitNotComputed {
                exit: named.name.clone(),
            })?;
        }
    }
    let (outputs, averaged) = outputs(lowering, graph, named, options)?;
    let scores = if kind.has_class() {
        Some(scores(lowering, named, kind)?)
    } else {
        None
    };
    let confidence = match named.confidence {
        Some(_) if averaged.is_some() => {
            let exit = named.name.clone();
            return Err(CompileError::TwoConfidences { exit });
        }
        Some(value) => Some(single(lowering, named, value)?),
        None => averaged,
    };
    if confidence.is_none() && scores.is_none() {
        lowering.notes.push(Note::NoConfidence {
            exit: named.name.clone(),
        });
    }
    Ok(Exit {
        outputs,
        scores,
        confidence,
    })
}

/// What clients get of an exit, reduced as is declared, and the confidence of its detections.
fn outputs(
    lowering: &mut Lowering<'_>,
    graph: &Graph,
    exit: &NamedExit,
    options: &CompileOptions,
) -> Result<(Vec<Output>, Option<TensorId>), CompileError> {
    let detections = options.detections.as_ref();
    let read_by = |detections: &DetectionOptions, name: &str| {
        let parts = [&detections.boxes, &detections.scores].into_iter();
        let mut parts = parts.chain(&detections.objectness);
        parts.any(|part| part.output == name)
    };
    let reductions = &options.reductions;
    for (at, reduction) in reductions.iter().enumerate() {
        let name = &reduction.output;
        let read = detections.is_some_and(|detections| read_by(detections, name));
        let before = reductions[..at].iter().any(|other| other.output == *name);
        if read || before {
            return Err(exit.no_output(name));
        }
        exit.named(name)?;
    }
    let (mut outputs, mut averaged) = (Vec::with_capacity(exit.outputs.len()), None);
    if let Some(detections) = detections {
        let detected = detected(lowering, exit, detections)?;
        for (name, view, element) in [
            ("detections", &detected.list, Element::F32),
            ("count", &detected.count, Element::I32),
        ] {
            outputs.push(output(exit, name, view, element)?);
        }
        averaged = detected.confidence;
    }
    for NamedOutput { name, value } in &exit.outputs {
        if detections.is_some_and(|detections| read_by(detections, name)) {
            continue;
        }
        let view = seen(lowering, exit, name, *value)?;
        let Some(reduction) = reductions.iter().find(|one| one.output == *name) else {
            let Typed { view, element } = typed(lowering, graph, &exit.name, view, *value)?;
            outputs.push(output(exit, name, &view, element)?);
            continue;
        };
        let full_name = format!("{}/{name}", exit.name);
        let reduced = lowering.reduced(&full_name, &view, reduction);
        let reduced = reduced.map_err(|problem| CompileError::Reduction {
            exit: full_name,
            problem,
        })?;
        match reduced {
            Reduced::Positions(view, bytes) => {
                let element = bytes.map_or(Element::I32, |bytes| Element::U8 {
                    scale: bytes.scale,
                    zero: bytes.zero,
                });
                outputs.push(output(exit, name, &view, element)?);
            }
            Reduced::Values(values, positions) => {
                outputs.push(output(exit, name, &values, element(graph, *value))?);
                let positions_of = format!("{name}_index");
                outputs.push(output(exit, &positions_of, &positions, Element::I32)?);
            }
        }
    }
    Ok((outputs, averaged))
}

fn detected(
    lowering: &mut Lowering<'_>,
    exit: &NamedExit,
    options: &DetectionOptions,
) -> Result<Detected, CompileError> {
    let view = |lowering: &Lowering<'_>, name: &str| {
        let output = exit.named(name)?;
        seen(lowering, exit, name, output.value)
    };
    let objectness = options.objectness.as_ref();
    let objectness = objectness.map(|part| view(lowering, &part.output));
    let views = DetectorViews {
        boxes: view(lowering, &options.boxes.output)?,
        scores: view(lowering, &options.scores.output)?,
        objectness: objectness.transpose()?,
    };
    let detected = lowering.detections(&exit.name, &views, options);
    let exit = exit.name.clone();
    detected.map_err(|problem| match problem {
        DetectionProblem::Output {
            key,
            found,
            expected,
        } => CompileError::DetectionOutput {
            exit,
            key,
            found,
            expected,
        },
        DetectionProblem::Figure {
            what,
            value,
            bounds,
        } => CompileError::DetectionFigure {
            exit,
            what,
            value,
            bounds,
        },
        DetectionProblem::Operator(problem) => CompileError::Reduction { exit, problem },
    })
}

/// How an output is seen that is computed from the input.
fn seen(
    lowering: &Lowering<'_>,
    exit: &NamedExit,
    name: &str,
    value: ValueId,
) -> Result<view_algebra::View, CompileError> {
    match lowering.value(value) {
        Value::Softmax(view) | Value::View(view)
            if view.tensor.index() >= lowering.draft.inputs =>
        {
            Ok(view.clone())
        }
        _ => {
            let exit = format!("{}/{name}", exit.name);
            Err(CompileError::ExitNotComputed { exit })
        }
    }
}

/// A view, and what its elements are to the client.
struct Typed {
    view: view_algebra::View,
    element: Element,
}

/// An output with the type that the file declares, which may be bytes.
fn typed(
    lowering: &mut Lowering<'_>,
    graph: &Graph,
    exit: &str,
    view: view_algebra::View,
    value: ValueId,
) -> Result<Typed, CompileError> {
    let at = graph.outputs.iter().position(|id| *id == value);
    let declared = at.and_then(|at| graph.output_types[at]);
    let signed = declared == Some(data_type::INT8);
    if !signed && declared != Some(data_type::UINT8) {
        let element = element(graph, value);
        return Ok(Typed { view, element });
    }
    let bytes = lowering.bytes(exit, &view, signed);
    let (view, Quantisation { scale, zero }) =
        bytes.map_err(|problem| CompileError::Reduction {
            exit: exit.to_owned(),
            problem,
        })?;
    let element = if signed {
        let zero = zero.wrapping_sub(128).cast_signed();
        Element::I8 { scale, zero }
    } else {
        Element::U8 { scale, zero }
    };
    Ok(Typed { view, element })
}

/// The type that the file declares.
fn element(graph: &Graph, value: ValueId) -> Element {
    let at = graph.outputs.iter().position(|id| *id == value);
    match at.and_then(|at| graph.output_types[at]) {
        Some(data_type::INT64 | data_type::INT32) => Element::I32,
        Some(data_type::BOOL) => Element::Bool,
        _ => Element::F32,
    }
}

/// The tensor behind a view, and how the client sees it.
fn output(
    exit: &NamedExit,
    name: &str,
    view: &view_algebra::View,
    element: Element,
) -> Result<Output, CompileError> {
    let sizes = view.sizes();
    let shape = sizes.iter().skip(1).map(|size| match *size {
        Dim::Known(size) => u32::try_from(size).ok(),
        Dim::Batches(_) => None,
    });
    let shape: Option<Vec<u32>> = shape.collect();
    let (Some(shape), Some(plain)) = (shape, view.of_one_image()) else {
        let found = describe_dims(&sizes);
        let exit = format!("{}/{name}", exit.name);
        return Err(CompileError::ExitView { exit, found });
    };
    Ok(Output {
        name: name.to_owned(),
        tensor: view.tensor,
        shape,
        view: plain,
        element,
    })
}

/// The vector of class scores, and what a score is.
fn scores(
    lowering: &mut Lowering<'_>,
    exit: &NamedExit,
    kind: AnswerKind,
) -> Result<Scores, CompileError> {
    let Some(output) = exit.scores() else {
        let outputs = exit.outputs.iter().map(|output| output.name.clone());
        return Err(CompileError::NoScores {
            exit: exit.name.clone(),
            outputs: outputs.collect(),
        });
    };
    let (view, softmax) = match lowering.value(output.value).clone() {
        Value::Softmax(view) => (view, true),
        Value::View(view) => (view, false),
        _ => {
            let exit = exit.name.clone();
            return Err(CompileError::ExitNotComputed { exit });
        }
    };
    let tensor = vector(lowering, exit, &view)?;
    if softmax {
        let exit = exit.name.clone();
        lowering.notes.push(Note::SoftmaxDropped { exit });
    }
    let sigmoid = lowering.draft.activation_of(tensor) == Some(Activation::Sigmoid);
    let form = match kind {
        AnswerKind::Labels if sigmoid => ScoreForm::Probability,
        AnswerKind::Labels => ScoreForm::Sigmoid,
        _ => ScoreForm::Softmax,
    };
    Ok(Scores { tensor, form })
}

/// The tensor that is a vector as the view has it.
fn vector(
    lowering: &mut Lowering<'_>,
    exit: &NamedExit,
    view: &view_algebra::View,
) -> Result<TensorId, CompileError> {
    let wrong = |lowering: &Lowering<'_>| CompileError::NoVector {
        exit: exit.name.clone(),
        found: lowering.describe(&Value::View(view.clone())),
    };
    let elements = elements_of_image(view);
    let of_one_pixel = view.dims.iter().skip(2).all(Vec::is_empty);
    if !view.is_batch(0) || view.dims.len() < 2 || !of_one_pixel || elements == 0 {
        return Err(wrong(lowering));
    }
    let shape = lowering.draft.tensors[view.tensor.index()];
    if shape == Tensor::features(shape.channels)
        && view.covers(shape)
        && elements == u64::from(shape.channels)
    {
        return Ok(view.tensor);
    }
    lowering
        .gathered_vector(&exit.name, view)
        .ok_or_else(|| wrong(lowering))
}

/// How many values of a view an image of the batch has.
fn elements_of_image(view: &view_algebra::View) -> u64 {
    let digits = view.dims.iter().skip(1).flatten();
    digits.map(|digit| digit.extent).product()
}

/// The tensor of one value a request.
fn single(
    lowering: &mut Lowering<'_>,
    exit: &NamedExit,
    value: ValueId,
) -> Result<TensorId, CompileError> {
    let found = lowering.value(value).clone();
    let wrong = |lowering: &Lowering<'_>| CompileError::Confidence {
        exit: exit.name.clone(),
        found: lowering.describe(&found),
    };
    let Value::View(view) = &found else {
        return Err(wrong(lowering));
    };
    let elements = elements_of_image(view);
    let shape = lowering.draft.tensors[view.tensor.index()];
    if !view.is_batch(0) || elements != 1 || shape != Tensor::features(1) {
        return Err(wrong(lowering));
    }
    Ok(view.tensor)
}

#[cfg(test)]
mod tests {
    use punctual_types::View;

    use super::*;

    #[test]
    fn an_output_belongs_to_the_exit_that_its_name_says() {
        assert_eq!(exit_name("exit_0"), Some((0, ONLY_OUTPUT)));
        assert_eq!(exit_name("exit_12/boxes"), Some((12, "boxes")));
        assert_eq!(exit_name("exit_1/pose/left"), Some((1, "pose/left")));
        for other in ["exit", "exit_", "exit_/a", "exit_x/a", "exit_1/", "boxes"] {
            assert_eq!(exit_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_plain_view_is_what_an_image_has() {
        let shape = Tensor {
            channels: 2,
            height: 3,
            width: 4,
        };
        let view = crate::lower::view_algebra::View::image(TensorId(1), shape);
        let plain = View::plain([2, 3, 4]);
        assert_eq!(view.of_one_image(), Some(plain));
    }
}
