//! Networks that robots run, in miniature: each says what onnxruntime says, in the reference interpreter and on the CPU
//! device, or is listed with what it still needs. `models/zoo/record.py` makes the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use punctual_compile::{CompileError, Overrides, compile_with};
use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{Exit, Network, reference};
use punctual_types::Element;
use serde::Deserialize;

/// Of values, relative to the largest of an output or to one.
const TOLERANCE: f32 = 1e-4;

#[derive(Deserialize)]
struct Recorded {
    inputs: Vec<Shape>,
    outputs: Vec<Shape>,
}

#[derive(Deserialize)]
struct Shape {
    name: String,
    shape: Vec<usize>,
}

fn path(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/zoo/recorded");
    folder.join(file)
}

/// The values of each tensor, one after the other in a file.
fn values(file: &str, tensors: &[Shape]) -> Vec<Vec<f32>> {
    let bytes = fs::read(path(file)).unwrap();
    let values = bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes);
    let mut values = values.collect::<Vec<_>>().into_iter();
    let read = |tensor: &Shape| {
        let count = tensor.shape.iter().product();
        values.by_ref().take(count).collect()
    };
    let read = tensors.iter().map(read).collect();
    assert_eq!(values.next(), None, "{file} is longer than its tensors");
    read
}

fn exits(network: &Network) -> impl Iterator<Item = &Exit> {
    let stages = network.stages.iter();
    stages.filter_map(|stage| stage.exit.as_ref())
}

/// All tensors of all exits: an exit's outputs, then its confidence.
type Tensors = Vec<Vec<f32>>;

fn interpreted(network: &Network, inputs: &[&[f32]]) -> Tensors {
    let exited = reference::run_all(network, inputs).into_iter().flatten();
    let tensors = exited.flat_map(|exited| {
        let confidence = exited.confidence.map(|value| vec![value]);
        exited.outputs.into_iter().chain(confidence)
    });
    tensors.collect()
}

fn on_cpu(isa: Isa, network: &Network, inputs: &[&[f32]]) -> Tensors {
    let mut device = Evaluator::new(isa, network, 1).unwrap();
    device.load(&inputs[..1]);
    device.load_vectors(0, &inputs[1..]);
    let found = device.exits(1).into_iter().flatten();
    let mut tensors = Vec::new();
    for (exit, found) in exits(network).zip(found) {
        for (output, bytes) in exit.outputs.iter().zip(&found.outputs) {
            let number = |bytes: &[u8; 4]| match output.element {
                Element::F32 => f32::from_ne_bytes(*bytes),
                Element::I32 => i32::from_ne_bytes(*bytes) as f32,
                other => panic!("{} is recorded as f32", other.name()),
            };
            tensors.push(match output.element {
                Element::Bool => bytes.iter().map(|byte| f32::from(*byte)).collect(),
                _ => bytes.as_chunks().0.iter().map(number).collect(),
            });
        }
        tensors.extend(found.confidence.map(|value| vec![value]));
    }
    tensors
}

/// The names of the tensors that [`interpreted`] and [`on_cpu`] give.
fn names(network: &Network, exit_names: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    for (exit, exit_name) in exits(network).zip(exit_names) {
        let outputs = exit.outputs.iter().map(|output| output.name.as_str());
        for output in outputs.chain(exit.confidence.map(|_| "confidence")) {
            names.push(format!("{exit_name}/{output}"));
        }
    }
    names
}

/// Why a network says anything else than what is recorded; what it still needs in order to be compiled at all.
fn check(name: &str) -> Result<Vec<String>, Vec<String>> {
    let text = fs::read_to_string(path(&format!("{name}.json"))).unwrap();
    let recorded: Recorded = serde_json::from_str(&text).unwrap();
    let inputs = values(&format!("{name}.inputs.f32"), &recorded.inputs);
    let expected = values(&format!("{name}.outputs.f32"), &recorded.outputs);
    let outputs = recorded.outputs.into_iter().map(|output| output.name);
    let expected: Vec<(String, Vec<f32>)> = outputs.zip(expected).collect();
    differences(&path(&format!("{name}.onnx")), &inputs, &expected)
}

/// Where the interpreter and the CPU device, on each instruction set of this machine, give other outputs than expected; what
/// the network still needs in order to be compiled at all.
pub(crate) fn differences(
    file: &Path,
    inputs: &[Vec<f32>],
    outputs: &[(String, Vec<f32>)],
) -> Result<Vec<String>, Vec<String>> {
    let name = file.display();
    let overrides = Overrides::of_tensors();
    let compiled = match compile_with(file, &overrides) {
        Ok(compiled) => compiled,
        Err(CompileError::Nodes(unsupported)) => {
            let operators = unsupported.by_operator().into_iter();
            let mut operators: Vec<_> = operators.map(|(name, _)| name.to_owned()).collect();
            operators.sort_unstable();
            return Err(operators);
        }
        Err(other) => return Err(vec![other.to_string()]),
    };
    let network = compiled.package.network();
    let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let names = names(network, &compiled.exits);
    let mut engines = vec![("interpreter".to_owned(), interpreted(network, &inputs))];
    engines.extend(Isa::available().map(|isa| (isa.to_string(), on_cpu(isa, network, &inputs))));
    let mut wrong = Vec::new();
    for (engine, found) in &engines {
        assert_eq!((found.len(), names.len()), (outputs.len(), outputs.len()));
        for (output, expected) in outputs {
            // An exit's only output, and what no exit's name stands before, have other names in the package.
            let is_it = |found: &String| outputs.len() == 1 || found == output;
            let at = names.iter().position(is_it);
            let at = at.unwrap_or_else(|| panic!("{name}: no {output} in {names:?}"));
            if let Some(what) = difference(&found[at], expected) {
                wrong.push(format!("{name}, {engine}, {output}: {what}"));
            }
        }
    }
    Ok(wrong)
}

fn difference(found: &[f32], expected: &[f32]) -> Option<String> {
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Some(format!("{found} values, not {expected}"));
    }
    let largest = expected
        .iter()
        .fold(1.0, |most: f32, value| most.max(value.abs()));
    let mut pairs = found.iter().zip(expected).enumerate();
    // A difference that is no number is none that is small.
    let near = |a: f32, b: f32| (a - b).abs() <= TOLERANCE * largest;
    let (at, (found, expected)) =
        pairs.find(|(_, (found, expected))| !near(**found, **expected))?;
    Some(format!("value {at} is {found}, not {expected}"))
}

#[test]
fn each_miniature_says_what_onnxruntime_says_or_is_listed_with_what_it_needs() {
    let missing = fs::read_to_string(path("missing.json")).unwrap();
    let missing: BTreeMap<String, Vec<String>> = serde_json::from_str(&missing).unwrap();
    let mut wrong = Vec::new();
    let mut needed = BTreeMap::new();
    let files = fs::read_dir(path("")).unwrap();
    let mut names: Vec<String> = files
        .filter_map(|file| {
            Some(
                file.unwrap()
                    .file_name()
                    .to_str()?
                    .strip_suffix(".onnx")?
                    .to_owned(),
            )
        })
        .collect();
    names.sort_unstable();
    assert!(!names.is_empty());
    for name in names {
        match check(&name) {
            Ok(differences) => wrong.extend(differences),
            Err(operators) => {
                needed.insert(name, operators);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let found = serde_json::to_string(&needed).unwrap();
    assert!(needed == missing, "missing.json should be {found}");
}
