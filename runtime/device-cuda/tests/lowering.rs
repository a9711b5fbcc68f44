//! What networks are lowered to, without running anything.

use punctual_device::conformance::networks;
use punctual_device_cuda::lower::{LowerError, Place, Program, Target};
use punctual_kernels::cuda::Arguments;
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
fn no_launch_writes_where_it_reads_and_nothing_a_stage_reads_of_a_request_is_overwritten() {
    for seed in 0..40 {
        let network = networks::tangle(seed);
        let program = lower(&network, &target(1 + seed as u32 % 16));
        for list in program.stages.iter().flat_map(|stage| &stage.lists) {
            assert_eq!(list.first_overlap(), None);
            assert!(!list.overwrites_requests());
        }
    }
}

#[test]
fn tokens_and_bytes_are_refused_with_the_operator_or_the_tensor() {
    let refused = |network| Program::lower(&network, &[1], &target(8), &[]).map(|_| ());
    assert!(matches!(
        refused(networks::every_operator(1)),
        Err(LowerError::NoKernel {
            kind: "attention",
            ..
        })
    ));
    assert!(matches!(
        refused(networks::quantised(1)),
        Err(LowerError::Bytes { .. })
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
            if let Place::Request { member, .. } | Place::Input { member } = place {
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
