//! Compiles an ONNX file and runs it: what `models/zoo/coverage.py` compares with onnxruntime.
//!
//! ```text
//! scores NETWORK.onnx IMAGES.f32 interpreter|cpu
//! ```
//!
//! `IMAGES.f32` holds normalised images `[image][channel][row][column]`, little-endian; of a network
//! of tokens `[sequence][numbers, then the mask if it takes one][token]`, as floats. Prints the
//! report as one line of JSON, then a line of class scores, `[exit][image][class]`.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use punctual_compile::{Overrides, compile_with};
use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{Network, reference};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [onnx, images, engine] = arguments.as_slice() else {
        return Err("usage: scores NETWORK.onnx IMAGES.f32 interpreter|cpu".into());
    };
    let compiled = compile_with(Path::new(onnx), &Overrides::imagenet())?;
    let network = compiled.package.network();
    let images: Vec<f32> = std::fs::read(images)?
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect();
    let size = network.input.tensor().elements() as usize;
    let images: Vec<&[f32]> = images.chunks_exact(size).collect();
    let scores = match engine.as_str() {
        "interpreter" => interpret(network, &images),
        "cpu" => Evaluator::new(Isa::detect(), network, images.len())?.scores(&images),
        other => return Err(format!("`{other}` is neither `interpreter` nor `cpu`").into()),
    };
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(&compiled.report)?)?;
    writeln!(output, "{}", serde_json::to_string(&scores)?)?;
    Ok(())
}

/// `[exit][image][class]`.
fn interpret(network: &Network, images: &[&[f32]]) -> Vec<Vec<Vec<f32>>> {
    let mut scores = vec![Vec::new(); network.stages.len()];
    for image in images {
        for (exit, logits) in reference::run(network, image).into_iter().enumerate() {
            scores[exit].push(logits);
        }
    }
    scores
}
