//! Lowered networks run on the emulated kernels, launch by launch, against the reference.

mod emulation;

use emulation::{Memory, assert_scores};
use punctual_device::conformance::networks;
use punctual_device_cuda::lower::{Program, Target};
use punctual_model::{Network, reference};

const BATCHES: [u8; 3] = [1, 2, 4];

fn target(multiprocessors: u32) -> Target {
    Target {
        multiprocessors,
        compute_capability: (8, 7),
        page_bytes: 256 << 10,
    }
}

/// Runs all stages for as many members as there are images, with different members' slots, and
/// compares every exit.
fn check(network: &Network, program: &Program, batch: u8, images: &[Vec<f32>]) {
    let mut memory = Memory::new(network, program, images);
    let expected: Vec<_> = images.iter().map(|i| reference::run(network, i)).collect();
    let mut layers = 0;
    for (number, stage) in network.stages.iter().enumerate() {
        layers += stage.operators.len();
        let found = memory.run(program, number, batch);
        for (member, scores) in found.iter().enumerate() {
            let what = format!("{}, stage {number}, member {member}", network.name);
            assert_scores(scores, &expected[member][number], layers, &what);
        }
    }
}

fn images(network: &Network, count: u64) -> Vec<Vec<f32>> {
    (0..count)
        .map(|seed| networks::image(network, seed))
        .collect()
}

#[test]
fn networks_of_every_operator_score_as_the_reference_in_batches_full_and_not_full() {
    for network in [networks::gathers(11), networks::residual(12)] {
        let program = Program::lower(&network, &BATCHES, &target(8), &[]).expect("lowers");
        for (batch, members) in [(1, 1), (4, 4), (4, 3)] {
            check(&network, &program, batch, &images(&network, members));
        }
    }
}

#[test]
fn tangled_networks_score_as_the_reference_on_partitions_of_any_size() {
    for seed in 0..12 {
        let network = networks::tangle(seed);
        let target = target([1, 16, 132][seed as usize % 3]);
        let program = Program::lower(&network, &BATCHES, &target, &[]).expect("lowers");
        check(&network, &program, 2, &images(&network, 2));
    }
}
