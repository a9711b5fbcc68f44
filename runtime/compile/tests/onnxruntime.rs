//! Small networks that say the same here as in onnxruntime, by the interpreter and by the CPU
//! device's kernels: windows that do not fit evenly, additions and activations wherever fusing
//! looks at them, and what both exporters of PyTorch write. `networks/make.py` made them.
#![forbid(unsafe_code)]

use std::path::Path;

use punctual_compile::{CompileOptions, Compiled, Note, compile};
use punctual_device::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{Calibration, InputForm, InputSpec, reference};

/// As in `networks/make.py`.
const IMAGES: usize = 2;
const HEIGHT: u32 = 23;
const WIDTH: u32 = 18;
const CLASSES: usize = 5;
const EXITS: usize = 2;

/// Between engines, absolute.
const TOLERANCE: f32 = 1e-4;

fn read(file: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/networks");
    std::fs::read(folder.join(file)).unwrap()
}

fn compiled(name: &str) -> Compiled {
    let options = CompileOptions {
        name: name.to_owned(),
        onnx: format!("{name}.onnx").into(),
        calibration: None,
        input: InputSpec {
            height: HEIGHT,
            width: WIDTH,
            mean: [0.0; 3],
            std: [1.0; 3],
            form: InputForm::Image,
        },
        exits: vec![],
        classes: vec![],
    };
    compile(
        &read(&format!("{name}.onnx")),
        Calibration::default(),
        &options,
    )
    .unwrap()
}

fn softmax(logits: &mut [f32]) {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    logits
        .iter_mut()
        .for_each(|logit| *logit = (*logit - largest).exp());
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|logit| *logit /= sum);
}

/// Compares each exit for each image, by the interpreter and by the CPU device's kernels.
fn agrees(name: &str) -> Compiled {
    let compiled = compiled(name);
    let network = compiled.package.network();
    assert_eq!(
        (network.stages.len(), network.classes.len()),
        (EXITS, CLASSES)
    );
    let data: Vec<f32> = read(&format!("{name}.f32"))
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect();
    let pixels = (3 * HEIGHT * WIDTH) as usize;
    let (images, expected) = data.split_at(IMAGES * pixels);
    assert_eq!(expected.len(), EXITS * IMAGES * CLASSES);
    let images: Vec<&[f32]> = images.chunks_exact(pixels).collect();

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

/// Operators of all stages together.
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
