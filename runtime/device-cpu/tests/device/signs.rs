//! The demonstration network on the CPU device: what the compiler made of a trained network, on
//! real images, against the plain interpreter.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use punctual_device_cpu::Evaluator;
use punctual_kernels::Isa;
use punctual_model::{Network, Package, reference};

/// The bound on class scores that engines must keep among themselves.
const TOLERANCE: f32 = 1e-4;

const IMAGES: usize = 8;

struct Signs {
    network: Network,
    images: Vec<Vec<f32>>,
    /// What the interpreter makes of them: `[image][exit][class]`.
    expected: Vec<Vec<Vec<f32>>>,
}

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs");
    folder.join(name)
}

/// The package in the tree, and the images (not the scores) of its reference outputs.
fn signs() -> &'static Signs {
    static SIGNS: OnceLock<Signs> = OnceLock::new();
    SIGNS.get_or_init(|| {
        let package = Package::read(&file("signs.punctual")).expect("the package in the tree");
        let network = package.network().clone();
        let input = network.input;
        let bytes = std::fs::read(file("reference.f32")).expect("the reference outputs");
        let floats: Vec<f32> = bytes
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let len = 3 * (input.height * input.width) as usize;
        let images: Vec<_> = floats.chunks(len).take(IMAGES).map(Vec::from).collect();
        Signs {
            expected: images
                .iter()
                .map(|image| reference::run(&network, image))
                .collect(),
            network,
            images,
        }
    })
}

/// The largest difference of any score from the interpreter's, for these images as one batch.
fn largest_error(evaluator: &mut Evaluator, images: &[usize]) -> f32 {
    let signs = signs();
    let batch: Vec<&[f32]> = images.iter().map(|&i| &signs.images[i][..]).collect();
    let scores = evaluator.scores(&batch);
    let mut largest = 0.0_f32;
    for (exit, scores) in scores.iter().enumerate() {
        for (scores, &image) in scores.iter().zip(images) {
            let expected = &signs.expected[image][exit];
            assert_eq!(scores.len(), expected.len());
            let errors = scores.iter().zip(expected).map(|(a, b)| (a - b).abs());
            largest = errors.fold(largest, f32::max);
        }
    }
    largest
}

#[test]
fn every_exit_scores_as_the_interpreter_does_on_every_instruction_set() {
    for isa in Isa::available() {
        let mut evaluator = Evaluator::new(isa, &signs().network, IMAGES).expect("lowers");
        let batches: [&[usize]; 3] = [&[0, 1, 2, 3, 4, 5, 6, 7], &[5], &[6, 2, 4]];
        for batch in batches {
            let error = largest_error(&mut evaluator, batch);
            assert!(error <= TOLERANCE, "{isa}, images {batch:?}: {error}");
        }
    }
}

#[test]
fn an_image_scores_the_same_to_the_bit_alone_and_in_any_batch() {
    let signs = signs();
    let images: Vec<&[f32]> = signs.images.iter().map(Vec::as_slice).collect();
    let mut evaluator = Evaluator::new(Isa::detect(), &signs.network, IMAGES).expect("lowers");
    let together = evaluator.scores(&images);
    for (index, image) in images.iter().enumerate() {
        let alone = evaluator.scores(&[image]);
        for (exit, alone) in alone.iter().enumerate() {
            assert_eq!(
                alone[0], together[exit][index],
                "image {index}, exit {exit}"
            );
        }
    }
}
