//! What networks are lowered to, without running anything.

mod unlowered;

use punctual_conformance::networks;
use punctual_conformance::tied::{LEVELS, chain, pairs, pyramid, pyramid_of_bytes, tied, untied};
use punctual_cuda_kernels::Arguments;
use punctual_device_cuda::lower::{LowerError, Place, Program, Target};
use punctual_model::Network;

const BATCHES: [u8; 4] = [1, 2, 4, 8];

fn target(multiprocessors: u32) -> Target {
    Target {
        multiprocessors,
        compute_capability: (8, 7),
        page_bytes: 256 << 10,
    }
}

fn lower(network: &Network, target: &Target) -> Program {
    Program::lower(network, &BATCHES, target, &[]).expect("lowers")
}

#[test]
fn tangled_networks_pass_the_checker_on_partitions_of_any_size() {
    for seed in 0..40 {
        let network = networks::tangle(seed);
        lower(&network, &target(1 + seed as u32 % 16));
    }
}

#[test]
fn what_no_kernel_computes_is_refused_by_name() {
    let network = unlowered::network();
    let refused = Program::lower(&network, &[1], &target(8), &[]).map(|_| ());
    assert!(
        matches!(
            refused,
            Err(LowerError::NoKernel {
                kind: "attention by heads of more than 256 channels",
                ..
            })
        ),
        "{refused:?}"
    );
    let target_of = |page_bytes| Target {
        page_bytes,
        ..target(8)
    };
    let refused = Program::lower(&networks::recurrent(1, 1), &[1], &target_of(512), &[]);
    // An LSTM of 6 units has 24 rows of 8 halves, and as many biases behind them, aligned.
    assert!(matches!(
        refused,
        Err(LowerError::Page {
            bytes: 608,
            page_bytes: 512,
            ..
        })
    ));
    let network = networks::residual(1);
    let batches = |batches: &[u8]| {
        Program::lower(&network, batches, &target(8), &[])
            .map(|_| ())
            .map_err(|error| matches!(error, LowerError::Batch { .. }))
    };
    assert_eq!(batches(&[1, 33]), Err(true));
    assert_eq!(batches(&[0]), Err(true));
    assert_eq!(batches(&[32]), Ok(()));
}

#[test]
fn a_stage_reads_only_what_is_in_the_batch_when_members_are_fewer() {
    let program = lower(&networks::gathers(3), &target(8));
    let list = program.list(1, 8).expect("prepared");
    for step in &list.steps {
        let mut seen = Vec::new();
        let resolved = step.resolve(3, |place| {
            if let Place::Request { member, .. } | Place::Input { member, .. } = place {
                seen.push(member);
            }
            0x1000
        });
        assert_eq!(resolved.images(), 3);
        assert_eq!(step.kernel.grid(&resolved), Some(step.grid(3)));
        assert!(seen.iter().all(|&member| member < 3), "{seen:?}");
    }
    let last = list.steps.last().expect("a launch");
    assert!(matches!(last.arguments(), Arguments::Answers(_)));
}

/// Bytes of packed weights and what stands behind them, up to where others may begin.
fn room(weights: u64, behind: u64) -> u64 {
    weights.next_multiple_of(256) + behind.next_multiple_of(256)
}

#[test]
fn pages_have_the_weights_that_levels_of_a_pyramid_share_once() {
    let halves = |channels: u64, terms: u64| room(2 * channels * terms, 4 * channels);
    let bytes = |channels: u64, terms: u64| room(channels * terms, 8 * channels);
    // Six channels are padded to eight.
    let of_level = [
        halves(16, 16 * 9) + halves(8, 16),
        bytes(16, 16 * 9) + bytes(8, 16),
    ];
    for (network, of_level) in [pyramid(), pyramid_of_bytes()].iter().zip(of_level) {
        let used = |network: &Network| {
            let program = lower(network, &target(8));
            assert_eq!(program.pages.count(), 1);
            program.pages.used_bytes()
        };
        let repeated = (LEVELS as u64 - 1) * of_level;
        assert_eq!(
            used(network) + repeated,
            used(&untied(network)),
            "{}",
            network.name
        );
    }
}

#[test]
fn stages_that_share_weights_need_the_same_pages_and_no_more() {
    let target = Target {
        page_bytes: 4096,
        ..target(8)
    };
    let (one, several) = (lower(&chain(1), &target), lower(&chain(8), &target));
    let used = |program: &Program| -> Vec<_> {
        let pages = 0..program.pages.count();
        pages.map(|page| program.pages.used_of(page)).collect()
    };
    assert!(several.pages.count() > 2, "the convolution is cut");
    assert_eq!(used(&several), used(&one));
    for stage in &several.stages[1..] {
        assert!(stage.pages.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(stage.pages, several.stages[1].pages);
    }
}

#[test]
fn networks_with_weights_in_common_pass_the_checker() {
    for network in pairs() {
        lower(&network, &target(8));
    }
    for seed in 0..10 {
        for network in [
            networks::every_operator(seed),
            networks::residual(seed),
            networks::gathers(seed),
            networks::quantised(seed),
            networks::tangle(seed),
        ] {
            let network = tied(&network);
            let (small, large) = (64 << 10, 256 << 10);
            for page_bytes in [small, large] {
                let target = Target {
                    page_bytes,
                    ..target(1 + seed as u32)
                };
                let used = lower(&network, &target).pages.used_bytes();
                let own = lower(&untied(&network), &target).pages.used_bytes();
                assert!(used <= own, "{}: {used}, {own}", network.name);
            }
        }
    }
}
