//! A network's inputs and answers as files, for the examples that compare engines.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use punctual_compile::{CompileError, Compiled, Note, Overrides, compile_with};
use punctual_device_cpu::Evaluator;
use punctual_model::{AnswerKind, Exit, Network, ONLY_OUTPUT, Output};
use punctual_types::Element;
use serde_json::{Value, json};

/// The bytes of each output of one image, in the order of the exit; then its confidence.
pub type Found = (Vec<Vec<u8>>, Option<f32>);

/// Compiles the network of an ONNX file.
pub fn compiled(onnx: &Path, answer: Option<AnswerKind>) -> Result<Compiled, String> {
    let overrides = Overrides {
        answer,
        // The files hold prepared inputs, so no preprocessing is compiled.
        ..Overrides::of_tensors()
    };
    compile_with(onnx, &overrides).map_err(every_problem)
}

/// The problems of all nodes, one per line.
fn every_problem(error: CompileError) -> String {
    let CompileError::Nodes(unsupported) = error else {
        return error.to_string();
    };
    let nodes = unsupported.nodes.iter().map(ToString::to_string);
    let unchecked = (unsupported.unchecked > 0).then(|| {
        format!(
            "{} nodes behind these were not judged",
            unsupported.unchecked
        )
    });
    nodes.chain(unchecked).collect::<Vec<_>>().join("\n")
}

/// `[image][input]`, the network's first input before the vectors.
pub fn read_images(
    network: &Network,
    mut files: BTreeMap<String, PathBuf>,
) -> Result<Vec<Vec<Vec<f32>>>, Box<dyn Error>> {
    let mut vectors = Vec::new();
    for vector in &network.vectors {
        let file = files.remove(&vector.name);
        let file = file.ok_or_else(|| format!("no --input {}=FILE", vector.name))?;
        vectors.push((file, vector.length as usize));
    }
    let mut rest = files.into_values();
    let (Some(first), None) = (rest.next(), rest.next()) else {
        return Err("there must be one --input for each of the network's".into());
    };
    let size = network.input.tensor().elements() as usize;
    vectors.insert(0, (first, size));
    let mut images: Vec<Vec<Vec<f32>>> = Vec::new();
    for (at, (file, size)) in vectors.into_iter().enumerate() {
        let bytes = fs::read(&file)?;
        let floats: Vec<f32> = bytes
            .as_chunks()
            .0
            .iter()
            .copied()
            .map(f32::from_le_bytes)
            .collect();
        if at == 0 {
            images.resize(floats.len() / size, Vec::new());
        }
        if floats.is_empty() || floats.len() != images.len() * size {
            return Err(format!("{} does not have {size} values an image", file.display()).into());
        }
        for (image, values) in images.iter_mut().zip(floats.chunks_exact(size)) {
            image.push(values.to_vec());
        }
    }
    Ok(images)
}

/// Loads inputs as the evaluator's network reads them.
pub fn load(evaluator: &mut Evaluator, images: &[Vec<Vec<f32>>]) {
    let first: Vec<&[f32]> = images.iter().map(|inputs| inputs[0].as_slice()).collect();
    evaluator.load(&first);
    for (at, inputs) in images.iter().enumerate() {
        let vectors: Vec<&[f32]> = inputs[1..].iter().map(Vec::as_slice).collect();
        evaluator.load_vectors(at, &vectors);
    }
}

/// What each exit answers for the first loaded images, `[exit][image]`.
pub fn on_cpu(evaluator: &mut Evaluator, batch: usize) -> Vec<Vec<Found>> {
    let exits = evaluator.exits(batch).into_iter();
    let exits = exits.filter(|exit| !exit.is_empty());
    let found = exits.map(|exit| {
        exit.into_iter()
            .map(|found| (found.outputs, found.confidence))
    });
    found.map(Iterator::collect).collect()
}

pub fn exits(network: &Network) -> impl Iterator<Item = &Exit> {
    network
        .stages
        .iter()
        .filter_map(|stage| stage.exit.as_ref())
}

pub fn bytes(element: Element, values: &[f32]) -> Vec<u8> {
    let size = element.bytes() as usize;
    let mut bytes = vec![0; values.len() * size];
    for (value, to) in values.iter().zip(bytes.chunks_exact_mut(size)) {
        element.write(*value, to);
    }
    bytes
}

/// Writes a file for each tensor, and describes the files.
pub fn written(
    compiled: &Compiled,
    found: Vec<Vec<Found>>,
    folder: &Path,
) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut tensors = Vec::new();
    for ((name, exit), images) in compiled
        .exits
        .iter()
        .zip(exits(compiled.package.network()))
        .zip(found)
    {
        let write = |output: &str, element: Element, shape: &[u32], bytes: Vec<u8>| {
            let file_type = match element {
                Element::F32 => "f32",
                Element::I32 => "i32",
                Element::Bool => "bool",
                Element::U8 { .. } => "u8",
                Element::I8 { .. } => "i8",
            };
            let name = match output {
                ONLY_OUTPUT => name.clone(),
                _ => format!("{name}/{output}"),
            };
            let file = format!("{}.{file_type}", name.replace('/', "."));
            fs::write(folder.join(&file), bytes)?;
            let shape = [&[images.len() as u32], shape].concat();
            Ok::<_, Box<dyn Error>>(
                json!({"name": name, "file": file, "type": file_type, "shape": shape}),
            )
        };
        for (at, output) in exit.outputs.iter().enumerate() {
            let of_images = images.iter().map(|(outputs, _)| outputs[at].as_slice());
            let bytes = if ends_in_softmax(compiled, name, exit, output) {
                of_images.flat_map(softmax).collect()
            } else {
                of_images.collect::<Vec<_>>().concat()
            };
            tensors.push(write(&output.name, output.element, &output.shape, bytes)?);
        }
        if exit.confidence.is_some() {
            let confidences: Vec<f32> = images.iter().filter_map(|(_, found)| *found).collect();
            let bytes = bytes(Element::F32, &confidences);
            tensors.push(write("confidence", Element::F32, &[1], bytes)?);
        }
    }
    Ok(tensors)
}

/// Whether the file ends an output with a softmax that the compiler left out.
fn ends_in_softmax(compiled: &Compiled, exit_name: &str, exit: &Exit, output: &Output) -> bool {
    let exit_name = exit_name.to_owned();
    let dropped = Note::SoftmaxDropped { exit: exit_name };
    exit.scores
        .is_some_and(|scores| scores.tensor == output.tensor)
        && compiled.report.notes.contains(&dropped)
}

fn softmax(bytes: &[u8]) -> Vec<u8> {
    let mut values: Vec<f32> = bytes
        .as_chunks()
        .0
        .iter()
        .copied()
        .map(f32::from_ne_bytes)
        .collect();
    let largest = values.iter().copied().fold(f32::MIN, f32::max);
    values
        .iter_mut()
        .for_each(|value| *value = (*value - largest).exp());
    let sum: f32 = values.iter().sum();
    values
        .iter()
        .flat_map(|value| (value / sum).to_ne_bytes())
        .collect()
}
