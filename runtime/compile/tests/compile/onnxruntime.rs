//! Small networks that say the same here as in onnxruntime, by the interpreter and by the CPU
//! device's kernels: windows that do not fit evenly, additions and activations wherever fusing
//! looks at them, and what both exporters of PyTorch write. `networks/make.py` made them.

use std::path::{Path, PathBuf};

use punctual_compile::{
    CompileError, Compiled, IMAGENET_MEAN, IMAGENET_STD, Note, Overrides, ParseError, compile_with,
};
use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{Network, reference};

/// As in `networks/make.py`.
const IMAGES: usize = 2;
const HEIGHT: u32 = 23;
const WIDTH: u32 = 18;
const CLASSES: usize = 5;
const EXITS: usize = 2;

/// Between engines, absolute.
const TOLERANCE: f32 = 1e-4;

fn path(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/networks");
    folder.join(file)
}

fn compiled(name: &str) -> Compiled {
    compile_with(&path(&format!("{name}.onnx")), &Overrides::imagenet()).unwrap()
}

fn softmax(logits: &mut [f32]) {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    logits
        .iter_mut()
        .for_each(|logit| *logit = (*logit - largest).exp());
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|logit| *logit /= sum);
}

/// An image of the file's values as frames are prepared: what the network first does to them is a part of its normalisation.
fn prepared(network: &Network, image: &[f32]) -> Vec<f32> {
    let (mean, std) = network.input.form.normalisation();
    let planes = image.chunks_exact(image.len() / 3).enumerate();
    let values = planes.flat_map(|(channel, plane)| {
        let (own_mean, own_std) = (IMAGENET_MEAN[channel], IMAGENET_STD[channel]);
        let value = move |value: &f32| (value * own_std + own_mean - mean[channel]) / std[channel];
        plane.iter().map(value)
    });
    values.collect()
}

/// Compares each exit for each image, by the interpreter and by the CPU device's kernels.
fn agrees(name: &str) -> Compiled {
    let compiled = compiled(name);
    let network = compiled.package.network();
    assert_eq!(
        (network.stages.len(), network.classes.len()),
        (EXITS, CLASSES)
    );
    let data: Vec<f32> = std::fs::read(path(&format!("{name}.f32")))
        .unwrap()
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect();
    let pixels = (3 * HEIGHT * WIDTH) as usize;
    let (images, expected) = data.split_at(IMAGES * pixels);
    assert_eq!(expected.len(), EXITS * IMAGES * CLASSES);
    let images = images.chunks_exact(pixels);
    let images: Vec<Vec<f32>> = images.map(|image| prepared(network, image)).collect();
    let images: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();

    let close = |engine: &str, index: usize, exit: usize, mut ours: Vec<f32>| {
        let dropped = Note::SoftmaxDropped {
            exit: format!("exit_{exit}"),
        };
        if compiled.report.notes.contains(&dropped) {
            softmax(&mut ours);
        }
        let theirs = &expected[(exit * IMAGES + index) * CLASSES..][..CLASSES];
        let differences = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
        let within = differences
            .clone()
            .all(|difference| difference <= TOLERANCE);
        assert!(
            within,
            "{name}, {engine}, image {index}, exit {exit}: {ours:?} {theirs:?}"
        );
    };
    for (index, image) in images.iter().enumerate() {
        for (exit, ours) in reference::run(network, image).into_iter().enumerate() {
            close("interpreter", index, exit, ours);
        }
    }
    for isa in Isa::available() {
        let mut evaluator = Evaluator::new(isa, network, IMAGES).unwrap();
        for (exit, scores) in evaluator.scores(&images).into_iter().enumerate() {
            for (index, ours) in scores.into_iter().enumerate() {
                close(&isa.to_string(), index, exit, ours);
            }
        }
    }
    compiled
}

fn operators(compiled: &Compiled) -> usize {
    compiled
        .report
        .stages
        .iter()
        .map(|stage| stage.operators)
        .sum()
}

#[test]
fn windows_that_do_not_fit_evenly() {
    agrees("windows");
}

#[test]
fn additions_normalisations_and_activations_in_every_place() {
    agrees("elements");
}

#[test]
fn what_both_exporters_of_pytorch_write_is_the_same_few_operators() {
    let (torchscript, dynamo) = (agrees("torchscript"), agrees("dynamo"));
    assert_eq!(operators(&torchscript), operators(&dynamo));
    // Stem, three convolutions of the block (one with the residual), mean, scores; convolution,
    // pool, mean, scores.
    assert_eq!(operators(&dynamo), 10, "{}", dynamo.report);
}

#[test]
fn gates_shuffles_joins_and_dense_layers_as_both_exporters_write_them() {
    let (torchscript, dynamo) = (agrees("blocks_torchscript"), agrees("blocks_dynamo"));
    assert_eq!(operators(&torchscript), operators(&dynamo));
    let of_kind = |wanted: &str| {
        let mut kinds = dynamo.report.kinds.iter();
        kinds
            .find(|found| found.kind == wanted)
            .map(|found| found.operators)
    };
    // Two gates; what x * clamp(x + 3, 0, 6) / 6 multiplies is an activation.
    assert_eq!(of_kind("multiply"), Some(2), "{}", dynamo.report);
    // One for the half that each of three shuffles sees, the last shuffle with the branches next to
    // it, and nine dense layers after the first, which reads one tensor.
    assert_eq!(of_kind("gather channels"), Some(14), "{}", dynamo.report);
}

#[test]
fn pixels_shuffled_rows_joined_windows_and_anchors() {
    let compiled = agrees("views");
    println!("{}", compiled.report);
}

#[test]
fn arithmetic_of_tensors_that_are_repeated_and_softmaxes_along_every_axis() {
    let compiled = agrees("arithmetic");
    let count = |wanted: &str| {
        let mut kinds = compiled.report.kinds.iter();
        kinds
            .find(|found| found.kind == wanted)
            .map(|found| found.operators)
    };
    assert_eq!(count("softmax"), Some(6), "{}", compiled.report);
    let of_two: usize = ["arithmetic", "add", "multiply"]
        .into_iter()
        .filter_map(count)
        .sum();
    assert!(of_two >= 14, "{}", compiled.report);
}

#[test]
fn resizes_of_all_kinds_and_dilated_convolutions() {
    let compiled = agrees("resizes");
    let kinds = compiled.report.kinds.iter();
    let count = |wanted: &str| {
        let of_kind = kinds.clone().filter(|kind| kind.kind.contains(wanted));
        of_kind.map(|kind| kind.operators).sum::<usize>()
    };
    // One of the five nearest and six linear ones is of the same size.
    assert_eq!((count("nearest resize"), count("linear resize")), (4, 5));
    assert_eq!(count("dilated"), 7);
}

#[test]
fn pads_reductions_transposed_convolutions_and_slopes_made_of_other_operators() {
    agrees("composed");
}

#[test]
fn weights_may_lie_in_a_file_beside_the_network() {
    agrees("external");
}

#[test]
fn a_file_with_weights_that_is_missing_or_too_short_is_named() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let alone = folder.join("alone.onnx");
    std::fs::copy(path("external.onnx"), &alone).unwrap();
    let failed = || match compile_with(&alone, &Overrides::imagenet()) {
        Err(CompileError::Parse(error @ ParseError::ExternalRead { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let data = folder.join("external.onnx.data");
    drop(std::fs::remove_file(&data));
    let message = failed();
    assert!(
        message.contains("cannot be read from external.onnx.data"),
        "{message}"
    );
    let whole = std::fs::read(path("external.onnx.data")).unwrap();
    std::fs::write(&data, &whole[..whole.len() / 2]).unwrap();
    let message = failed();
    assert!(message.contains("unexpected end of file"), "{message}");
}
