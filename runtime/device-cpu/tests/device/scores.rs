//! The CPU device's kernels and memory against the plain interpreter, on every instruction set of this machine.

use punctual_conformance::networks;
use punctual_device_cpu::Evaluator;
use punctual_kernels::{Isa, Solution};
use punctual_model::{Network, SolutionChoice, reference};

/// Engines differ in the order of their sums; this is the bound on class scores that they must keep.
const TOLERANCE: f32 = 1e-4;

fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (class, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= TOLERANCE,
            "{what}, class {class}: {found} instead of {expected}"
        );
    }
}

fn assert_network(network: &Network, images: usize) {
    let images: Vec<Vec<f32>> = (0..images)
        .map(|seed| networks::image(network, seed as u64))
        .collect();
    let expected: Vec<_> = images
        .iter()
        .map(|image| reference::run(network, image))
        .collect();
    let batch: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    for isa in Isa::available() {
        let mut evaluator = Evaluator::new(isa, network, batch.len()).expect("lowers");
        // Twice: the second run finds the memory as the first one left it.
        for _ in 0..2 {
            let scores = evaluator.scores(&batch);
            for (exit, scores) in scores.iter().enumerate() {
                for (image, scores) in scores.iter().enumerate() {
                    let what = format!("{} on {isa}, exit {exit}, image {image}", network.name);
                    assert_close(scores, &expected[image][exit], &what);
                }
            }
        }
    }
}

#[test]
fn every_operator_scores_as_the_interpreter_does() {
    for seed in 0..4 {
        assert_network(&networks::every_operator(seed), 3);
    }
}

#[test]
fn a_residual_network_scores_as_the_interpreter_does_in_a_batch() {
    assert_network(&networks::residual(1), 5);
}

#[test]
fn every_solution_scores_as_the_interpreter_does_on_one_core_and_on_two() {
    let network = networks::residual(2);
    let image = networks::image(&network, 3);
    let expected = reference::run(&network, &image);
    for isa in Isa::available() {
        for solution in Solution::ALL {
            for mates in [&[][..], &[0]] {
                let choice = |operator| SolutionChoice {
                    operator,
                    batch: 1,
                    units: 1,
                    solution: solution.name().to_owned(),
                };
                let choices: Vec<_> = (0..100).map(choice).collect();
                let mut evaluator =
                    Evaluator::with_mates(isa, &network, 2, mates, &choices).expect("starts");
                for (exit, scores) in evaluator.scores(&[&image, &image]).iter().enumerate() {
                    let what = format!("{} on {isa}, exit {exit}", solution.name());
                    for scores in scores {
                        assert_close(scores, &expected[exit], &what);
                    }
                }
            }
        }
    }
}

#[test]
fn tensors_inside_others_score_as_the_interpreter_does() {
    for seed in 0..4 {
        assert_network(&networks::gathers(seed), 3);
    }
}

#[test]
fn slices_of_the_input_score_as_the_interpreter_does() {
    for seed in 0..4 {
        assert_network(&networks::stacked(seed), 3);
    }
}

#[test]
fn copies_score_as_the_interpreter_does() {
    for seed in 0..4 {
        assert_network(&networks::copies(seed), 3);
    }
}

#[test]
fn resizes_and_dilated_convolutions_score_as_the_interpreter_does() {
    for seed in 0..4 {
        assert_network(&networks::segments(seed), 3);
    }
}

#[test]
fn random_tangles_of_gathers_score_as_the_interpreter_does() {
    for seed in 0..100 {
        assert_network(&networks::tangle(seed), 2);
    }
}

#[test]
fn a_network_of_bytes_scores_as_the_interpreter_does_to_the_last_step() {
    for seed in 0..4 {
        assert_network(&networks::quantised(seed), 3);
    }
}

#[test]
fn arithmetic_and_softmaxes_score_as_the_interpreter_does() {
    for seed in 0..4 {
        assert_network(&networks::arithmetic(seed), 3);
    }
}

#[test]
fn lists_of_detections_score_as_the_interpreter_does() {
    for seed in 0..4 {
        assert_network(&networks::detectors(seed), 3);
    }
}

#[test]
fn what_depends_on_computed_positions_scores_as_the_interpreter_does() {
    for seed in 0..4 {
        assert_network(&networks::computed(seed), 3);
    }
}
