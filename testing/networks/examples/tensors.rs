//! Compiles an ONNX file and runs it for the tensors of its exits: what `models/zoo/robots_coverage.py` compares with
//! onnxruntime. That file's documentation says what the arguments and results are.
#![forbid(unsafe_code)]

mod tensor_files;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{AnswerKind, Network, reference};
use serde_json::json;

use tensor_files::{Found, bytes, compiled, exits, load, on_cpu, read_images, written};

const USAGE: &str = "usage: tensors NETWORK.onnx [--answer classes|labels|detections|none] \
[--engine cpu|interpreter --out FOLDER --input NAME=FILE ...]";

#[derive(Default)]
struct Arguments {
    onnx: PathBuf,
    answer: Option<AnswerKind>,
    engine: Option<String>,
    out: PathBuf,
    /// The file of each input.
    inputs: BTreeMap<String, PathBuf>,
}

fn main() -> ExitCode {
    match arguments().ok_or_else(|| USAGE.into()).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let mut found = Arguments {
        onnx: words.next()?.into(),
        ..Arguments::default()
    };
    while let Some(option) = words.next() {
        let value = words.next()?;
        match option.as_str() {
            "--answer" => found.answer = Some(AnswerKind::named(&value)?),
            "--engine" => found.engine = Some(value),
            "--out" => found.out = value.into(),
            "--input" => {
                let (name, file) = value.split_once('=')?;
                found.inputs.insert(name.to_owned(), file.into());
            }
            _ => return None,
        }
    }
    Some(found)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let compiled = compiled(&arguments.onnx, arguments.answer)?;
    let tensors = match &arguments.engine {
        Some(engine) => {
            let network = compiled.package.network();
            let images = read_images(network, arguments.inputs)?;
            let found = match engine.as_str() {
                "cpu" => {
                    let mut evaluator = Evaluator::new(Isa::detect(), network, images.len())?;
                    load(&mut evaluator, &images);
                    on_cpu(&mut evaluator, images.len())
                }
                "interpreter" => interpreted(network, &images),
                _ => return Err(USAGE.into()),
            };
            written(&compiled, found, &arguments.out)?
        }
        None => Vec::new(),
    };
    println!("{}", json!({"report": compiled.report, "tensors": tensors}));
    Ok(())
}

/// As [`on_cpu`].
fn interpreted(network: &Network, images: &[Vec<Vec<f32>>]) -> Vec<Vec<Found>> {
    let mut found = vec![Vec::new(); exits(network).count()];
    for image in images {
        let inputs: Vec<&[f32]> = image.iter().map(Vec::as_slice).collect();
        let exited = reference::run_all(network, &inputs).into_iter().flatten();
        for ((exit, exited), found) in exits(network).zip(exited).zip(&mut found) {
            let outputs = exit.outputs.iter().zip(exited.outputs);
            let outputs = outputs.map(|(output, values)| bytes(output.element, &values));
            found.push((outputs.collect(), exited.confidence));
        }
    }
    found
}
