//! Networks whose operators have weights in common: what is packed once, and what is not.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_conformance::networks;
use punctual_conformance::tied::{
    LEVELS, chain, pairs, pyramid, pyramid_of, pyramid_of_bytes, tied, untied,
};
use punctual_core::ModelId;
use punctual_device::{DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Start};
use punctual_device_cpu::{CpuDevice, Evaluator, image_layout, images, pack_image};
use punctual_kernels::{Isa, Solution};
use punctual_model::{
    Calibration, ImageLayout, Network, Package, SolutionChoice, SolutionMemory, reference,
};
use punctual_platform::Doorbell;

/// Engines differ in the order of their sums; this is the bound on class scores that they must keep.
const TOLERANCE: f32 = 1e-4;

/// For each operator the floats that are packed for it.
fn packed(isa: Isa, network: &Network) -> Vec<u32> {
    let layout = image_layout(isa, network).expect("lowers");
    let stages = layout.stages.into_iter();
    stages.flat_map(|stage| stage.operators).collect()
}

fn scores(
    isa: Isa,
    network: &Network,
    images: &[Vec<f32>],
    solutions: &[SolutionChoice],
) -> Vec<Vec<Vec<f32>>> {
    let batch: Vec<&[f32]> = images.iter().map(Vec::as_slice).collect();
    let evaluator = Evaluator::with_mates(isa, network, batch.len(), &[], solutions);
    evaluator.expect("starts").scores(&batch)
}

fn pictures(network: &Network) -> Vec<Vec<f32>> {
    (0..3).map(|seed| networks::image(network, seed)).collect()
}

/// The network's answers agree with those of the interpreter, and are equal to the last bit to those of the network whose
/// operators have weights of their own.
fn assert_answers(isa: Isa, network: &Network, solutions: &[SolutionChoice]) {
    let images = pictures(network);
    let found = scores(isa, network, &images, solutions);
    let own = scores(isa, &untied(network), &images, solutions);
    assert_eq!(found, own, "{} on {isa}", network.name);
    for (member, image) in images.iter().enumerate() {
        for (exit, expected) in reference::run(network, image).iter().enumerate() {
            let found = &found[exit][member];
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= TOLERANCE * b.abs().max(1.0);
            assert!(
                found.len() == expected.len() && found.iter().zip(expected).all(close),
                "{} on {isa}, exit {exit}, image {member}: {found:?} instead of {expected:?}",
                network.name
            );
        }
    }
}

#[test]
fn levels_of_a_pyramid_have_their_weights_once_and_score_as_the_interpreter_does() {
    for network in [pyramid(), pyramid_of_bytes()] {
        let own = untied(&network);
        let operators = network.stages[0].operators.iter();
        let shared: Vec<bool> = operators
            .enumerate()
            .map(|(at, operator)| {
                let before = &network.stages[0].operators[..at];
                let same = |other: &&punctual_model::Operator| other.weights == operator.weights;
                !operator.weights.is_empty() && before.iter().any(|other| same(&other))
            })
            .collect();
        let repeated = shared.iter().filter(|shared| **shared).count();
        assert_eq!(repeated, 2 * (LEVELS - 1));
        for isa in Isa::available() {
            let (once, each) = (packed(isa, &network), packed(isa, &own));
            for (at, shared) in shared.iter().enumerate() {
                let expected = if *shared { 0 } else { each[at] };
                assert_eq!(once[at], expected, "{} on {isa}, {at}", network.name);
                assert!(!shared || each[at] > 0);
            }
            let image = pack_image(isa, &network).expect("packs");
            assert_eq!(image.len(), once.iter().sum::<u32>() as usize);
            assert_answers(isa, &network, &[]);
        }
    }
}

#[test]
fn stages_that_do_the_same_have_their_weights_once() {
    let network = chain(8);
    for isa in Isa::available() {
        let layout = image_layout(isa, &network).expect("lowers");
        let stage = |at: usize| layout.stages[at].operators.iter().sum::<u32>();
        assert!(stage(0) > 0);
        assert!((1..8).all(|at| stage(at) == 0), "{:?}", layout.stages);
        assert_answers(isa, &network, &[]);
    }
}

/// What is packed for each operator of a network of one stage that has weights.
fn contents(isa: Isa, network: &Network) -> Vec<Vec<u32>> {
    let layout = image_layout(isa, network).expect("lowers");
    let [stage] = &layout.stages[..] else {
        panic!("{} stages", layout.stages.len());
    };
    let image = pack_image(isa, network).expect("packs");
    let mut rest = &image[stage.before as usize..];
    let mut all = Vec::new();
    for &floats in stage.operators.iter().filter(|floats| **floats > 0) {
        let (own, behind) = rest.split_at(floats as usize);
        all.push(own.iter().map(|value| value.to_bits()).collect());
        rest = behind;
    }
    assert!(rest.is_empty());
    all
}

#[test]
fn operators_that_pack_the_same_weights_in_another_order_have_them_each() {
    for isa in Isa::available() {
        let (mut shared, mut unlike) = (Vec::new(), 0);
        for network in pairs() {
            let own = contents(isa, &untied(&network));
            let distinct: BTreeSet<&Vec<u32>> = own.iter().collect();
            // If both are the same, they may be there once.
            if distinct.len() == own.len() {
                unlike += 1;
                if contents(isa, &network) != own {
                    shared.push(network.name);
                }
            }
        }
        assert!(shared.is_empty(), "{isa}: {shared:?}");
        assert!(unlike >= 8, "{isa}: {unlike}");
    }
}

#[test]
fn operators_that_pack_the_same_weights_in_another_order_score_as_the_interpreter_does() {
    for network in pairs() {
        for isa in Isa::available() {
            assert_answers(isa, &network, &[]);
        }
    }
}

#[test]
fn whatever_weights_a_network_has_in_common_it_scores_as_the_interpreter_does() {
    for seed in 0..2 {
        for network in [
            networks::every_operator(seed),
            networks::residual(seed),
            networks::gathers(seed),
            networks::copies(seed),
            networks::segments(seed),
            networks::arithmetic(seed),
            networks::computed(seed),
            networks::detectors(seed),
            networks::quantised(seed),
            networks::tangle(seed),
        ] {
            let network = tied(&network);
            let own = untied(&network);
            for isa in Isa::available() {
                let floats = |of| packed(isa, of).iter().sum::<u32>();
                assert!(
                    floats(&network) <= floats(&own),
                    "{} on {isa}",
                    network.name
                );
                assert_answers(isa, &network, &[]);
            }
        }
    }
}

/// Every convolution by this solution, if it has it.
fn all_by(solution: Solution, network: &Network) -> Vec<SolutionChoice> {
    let operators = network.stages.iter().map(|stage| stage.operators.len());
    let choice = |operator: usize| SolutionChoice {
        operator: operator as u32,
        batch: 1,
        units: 1,
        solution: solution.name().to_owned(),
    };
    (0..operators.sum()).map(choice).collect()
}

#[test]
fn every_solution_of_convolutions_with_the_same_weights_scores_as_the_interpreter_does() {
    for network in [pyramid(), chain(4), tied(&networks::residual(3))] {
        for isa in Isa::available() {
            for solution in Solution::ALL {
                assert_answers(isa, &network, &all_by(solution, &network));
            }
        }
    }
}

/// What the specialised solutions of a device take for a network.
fn solution_memory(network: &Network, solutions: &[SolutionChoice]) -> SolutionMemory {
    let model = ModelSpec {
        solutions,
        ..ModelSpec::resident(network, &[1])
    };
    let spec = DeviceSpec {
        models: &[model],
        partitions: &[PartitionSpec::on_cores("main", vec![0], None)],
        request_buffers: 1,
        cache: None,
        start: Start::Whole,
    };
    let device = CpuDevice::start(&spec, Arc::new(Doorbell::new())).expect("starts");
    device.solution_memory(ModelId(0))
}

#[test]
fn what_solutions_derive_from_shared_weights_is_there_once() {
    let (network, alone) = (pyramid(), pyramid_of(1));
    for solution in [Solution::Winograd2, Solution::Winograd4] {
        let choices = all_by(solution, &network);
        let [shared, own, of_one] = [&network, &untied(&network), &alone]
            .map(|network| solution_memory(network, &choices).weight_bytes);
        assert_eq!(shared, of_one, "{solution:?}");
        assert!(own > shared && shared > 0, "{solution:?}: {own}, {shared}");
    }
}

fn package(network: Network) -> Package {
    Package::new(network, Calibration::default()).expect("a valid network")
}

#[test]
fn a_package_has_the_layout_and_the_image_of_a_network_with_weights_in_common() {
    let lanes: Vec<u8> = Isa::available().map(|isa| isa.lanes() as u8).collect();
    for network in [pyramid(), pyramid_of_bytes(), chain(8)] {
        let own = images::add(package(untied(&network)), &lanes).expect("it fits");
        let packed = images::add(package(network), &lanes).expect("it fits");
        for &lanes in &lanes {
            let layout = packed.layout(lanes).expect("asked for");
            let image = packed.image(lanes).expect("asked for");
            assert_eq!(image.floats() as u64, layout.packed_floats());
            let of_own = own.layout(lanes).expect("asked for");
            assert!(layout.packed_floats() < of_own.packed_floats());
        }
        let bytes = packed.encode();
        let again = Package::decode(&bytes).expect("what was written");
        assert!(again.encode() == bytes && again.hash() == packed.hash());
        // An image that has the repeated weights again is another network's.
        let first = lanes[0];
        let image = own.image(first).expect("asked for");
        let mut floats = vec![0.0; image.floats()];
        floats.fill(0.5);
        assert!(packed.clone().with_image(first, floats).is_err());
    }
}

#[test]
fn an_image_layout_says_the_floats_of_a_shared_weight_where_it_is_first_read() {
    let network = pyramid();
    let isa = Isa::Scalar;
    let layout: ImageLayout = image_layout(isa, &network).expect("lowers");
    let operators = &network.stages[0].operators;
    let floats = layout.stages[0].operators.iter().zip(operators);
    let mut known = Vec::new();
    for (floats, operator) in floats {
        let is_first = !operator.weights.is_empty() && !known.contains(&&operator.weights);
        assert_eq!(*floats > 0, is_first, "{}", operator.name);
        known.push(&operator.weights);
    }
}
