//! Networks of tokens as both exporters write them say what PyTorch says: in the reference
//! interpreter and on the CPU device. `data/sequences.py` makes the files.
#![forbid(unsafe_code)]

use std::path::Path;

use punctual_compile::{Overrides, compile_with};
use punctual_device::Evaluator;
use punctual_kernels::Isa;
use punctual_model::reference;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    /// `[image][channel, row, column]`.
    images: Vec<Vec<f32>>,
    /// `[image][class]`.
    scores: Vec<Vec<f32>>,
}

#[track_caller]
fn check(network: &str, form: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let expected = std::fs::read_to_string(folder.join(format!("{network}.json"))).unwrap();
    let Expected { images, scores } = serde_json::from_str(&expected).unwrap();
    let onnx = folder.join(format!("{network}_{form}.onnx"));
    let compiled = compile_with(&onnx, &Overrides::default()).unwrap();
    let network = compiled.package.network();
    let images: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    let mut device = Evaluator::new(Isa::detect(), network, images.len()).unwrap();
    let device = device.scores(&images).remove(0);
    for ((image, device), expected) in images.iter().zip(device).zip(scores) {
        let interpreter = reference::run(network, image).remove(0);
        for ((interpreter, device), expected) in interpreter.iter().zip(device).zip(expected) {
            assert!(
                (interpreter - expected).abs() < 1e-5,
                "{interpreter}, not {expected}"
            );
            assert!((device - expected).abs() < 1e-5, "{device}, not {expected}");
        }
    }
}

#[test]
fn a_vision_transformer_of_the_torchscript_exporter() {
    check("vit", "torchscript");
}

#[test]
fn a_vision_transformer_of_the_dynamo_exporter() {
    check("vit", "dynamo");
}

#[test]
fn a_network_that_normalises_the_channels_of_each_pixel() {
    check("convnext", "torchscript");
}
