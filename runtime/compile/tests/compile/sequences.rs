//! Networks of tokens as both exporters write them say what PyTorch or onnxruntime says: in the reference
//! interpreter and on the CPU device. `data/sequences.py` makes the files.

use std::path::Path;

use punctual_compile::{CompileError, InputOptions, Overrides, compile_with};
use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{InputForm, reference};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    /// `[image][channel, row, column]`; of text the numbers of tokens, then its mask.
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
    let compiled = compile_with(&onnx, &Overrides::imagenet()).unwrap();
    let network = compiled.package.network();
    let images: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    let mut device = Evaluator::new(Isa::detect(), network, images.len()).unwrap();
    let device = device.scores(&images).remove(0);
    assert_eq!(device.len(), scores.len());
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

#[test]
fn text_with_a_mask_of_the_torchscript_exporter() {
    check("distilbert", "torchscript");
}

#[test]
fn text_with_a_mask_of_the_dynamo_exporter() {
    check("distilbert", "dynamo");
}

#[test]
fn text_without_a_mask_of_the_torchscript_exporter() {
    check("distilbert_maskless", "torchscript");
}

#[test]
fn text_without_a_mask_of_the_dynamo_exporter() {
    check("distilbert_maskless", "dynamo");
}

#[test]
fn padding_has_no_say_and_other_tokens_have() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let onnx = folder.join("distilbert_torchscript.onnx");
    let compiled = compile_with(&onnx, &Overrides::imagenet()).unwrap();
    let network = compiled.package.network();
    assert_eq!(network.input.form, InputForm::Tokens { mask: true });
    assert_eq!((network.input.height, network.input.width), (1, 6));
    let scores = |ids: [f32; 6]| {
        let mask = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0];
        let sequence = [ids, mask].concat();
        let mut device = Evaluator::new(Isa::detect(), network, 1).unwrap();
        let device = device.scores(&[&sequence]).remove(0).remove(0);
        (reference::run(network, &sequence).remove(0), device)
    };
    let expected = scores([3.0, 7.0, 1.0, 4.0, 2.0, 2.0]);
    assert_eq!(scores([3.0, 7.0, 1.0, 4.0, 9.0, 11.0]), expected);
    let other = scores([3.0, 7.0, 1.0, 5.0, 2.0, 2.0]);
    assert_ne!(other.0, expected.0);
    assert_ne!(other.1, expected.1);
}

#[test]
fn a_sequence_of_another_length_than_the_file_has_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let overrides = Overrides {
        input: InputOptions {
            size: Some((1, 7)),
            ..InputOptions::default()
        },
        ..Overrides::imagenet()
    };
    let error = compile_with(&folder.join("distilbert_dynamo.onnx"), &overrides).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, CompileError::Input { width: 7, .. }));
    assert!(message.contains("input_ids"), "{message}");
}
