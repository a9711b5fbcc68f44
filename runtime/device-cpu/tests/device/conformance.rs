//! The conformance suite on the CPU device.

use std::path::Path;
use std::sync::Arc;

use punctual_conformance::{Subject, networks, suite};
use punctual_core::{Event, ModelId};
use punctual_device::{
    CacheSpec, Device, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Start, StartStep,
};
use punctual_device_cpu::{CpuDevice, ONE_CORE};
use punctual_model::{Network, Package, SolutionChoice, SolutionMemory, Stage};
use punctual_platform::{Doorbell, clock};

/// Longer than any start here takes, even on a busy machine.
const LIMIT_NS: u64 = 30_000_000_000;

struct Cpu {
    /// A specialised solution for every convolution that has any, and one core for every other stage.
    specialised: bool,
    /// Whether it loads after it is there. It is handed out when it is done: what it loads meanwhile is another test's.
    in_turn: bool,
}

const DIRECT: Cpu = Cpu {
    specialised: false,
    in_turn: false,
};
const SPECIALISED: Cpu = Cpu {
    specialised: true,
    in_turn: false,
};
const IN_TURN: Cpu = Cpu {
    specialised: true,
    in_turn: true,
};

/// Tiles of 4x4 and of 2x2 in turn, for every operator; on two cores every other stage alone.
fn specialised(network: &Network) -> Vec<SolutionChoice> {
    let operators = network.stages.iter().flat_map(|stage| &stage.operators);
    let choice = |(operator, solution): (u32, &&str)| SolutionChoice {
        operator,
        batch: 1,
        units: 1,
        solution: (*solution).to_owned(),
    };
    let solutions = ["winograd-4x4", "winograd-2x2"];
    let solutions = solutions.iter().cycle().take(operators.count());
    let first = |stages: &[Stage]| {
        stages
            .iter()
            .map(|stage| stage.operators.len() as u32)
            .sum()
    };
    let alone = (0..network.stages.len())
        .step_by(2)
        .map(|stage| SolutionChoice {
            units: 2,
            ..choice((first(&network.stages[..stage]), &ONE_CORE))
        });
    (0..).zip(solutions).map(choice).chain(alone).collect()
}

impl Subject for Cpu {
    type Device = CpuDevice;

    fn start(&self, spec: &DeviceSpec<'_>, bell: Arc<Doorbell>) -> CpuDevice {
        let choices = spec.models.iter().map(|model| {
            if self.specialised {
                specialised(model.network)
            } else {
                Vec::new()
            }
        });
        let choices: Vec<_> = choices.collect();
        let models = spec.models.iter().zip(&choices);
        let models: Vec<_> = models
            .map(|(model, solutions)| ModelSpec {
                solutions,
                ..*model
            })
            .collect();
        let first = (0..models.len() as u16).map(|model| StartStep {
            model: ModelId(model),
            stages: 1,
        });
        let first: Vec<_> = first.collect();
        let spec = DeviceSpec {
            models: &models,
            start: if self.in_turn {
                Start::in_turn(&first)
            } else {
                spec.start
            },
            ..*spec
        };
        let mut device = CpuDevice::start(&spec, bell.clone()).expect("starts");
        if self.in_turn {
            wait_for_all(&mut device, &bell, &models);
        }
        device
    }
}

/// Waits until all stages of the models that stay are said to run as measured.
fn wait_for_all(device: &mut CpuDevice, bell: &Doorbell, models: &[ModelSpec<'_>]) {
    let limit_ns = clock::now_ns() + LIMIT_NS;
    let stages = |model: &ModelSpec<'_>| model.network.stages.len() as u8;
    let mut missing: Vec<u8> = models
        .iter()
        .map(|model| if model.paged { 0 } else { stages(model) })
        .collect();
    while missing.iter().any(|stages| *stages > 0) {
        let seen = bell.count();
        match device.poll() {
            Some(Event::Readiness(said)) if said.as_measured => {
                let of = &mut missing[said.model.index()];
                *of -= if *of == said.stages { said.stages } else { 0 };
            }
            Some(Event::Readiness(_)) => {}
            Some(event) => panic!("{event:?}"),
            None => {
                assert!(clock::now_ns() < limit_ns, "missing: {missing:?}");
                bell.wait(seen, Some(limit_ns));
            }
        }
    }
}

mod cpu {
    punctual_conformance::conforms!(super::DIRECT =>
        answers_equal_the_reference,
    survivors_of_different_batches_run_together,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    preempted_actions_can_be_run_again,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    partitions_do_not_disturb_each_other,
    requests_may_change_partition_between_stages,
    weights_come_and_go,
    loads_that_do_not_fit_are_refused,
    weights_in_use_stay,
    );
}

mod cpu_in_turn {
    punctual_conformance::conforms!(super::IN_TURN =>
        answers_equal_the_reference,
    survivors_of_different_batches_run_together,
    request_buffers_are_used_again_by_other_models,
    windows_are_honoured,
    preempted_actions_can_be_run_again,
    actions_that_do_not_fit_are_refused,
    a_third_action_is_refused,
    partitions_do_not_disturb_each_other,
    requests_may_change_partition_between_stages,
    weights_come_and_go,
    loads_that_do_not_fit_are_refused,
    weights_in_use_stay,
    );
}

mod cpu_with_solutions {
    punctual_conformance::conforms!(super::SPECIALISED =>
        answers_equal_the_reference,
    survivors_of_different_batches_run_together,
    request_buffers_are_used_again_by_other_models,
    preempted_actions_can_be_run_again,
    partitions_do_not_disturb_each_other,
    weights_come_and_go,
    );
}

#[test]
fn survivors_of_different_batches_run_together_on_the_demonstration_network() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/signs");
    let package = Package::read(&folder.join("signs.punctual")).expect("the package in the tree");
    suite::survivors_run_together_on(&DIRECT, package.network());
    suite::survivors_run_together_on(&SPECIALISED, package.network());
}

#[test]
fn a_device_that_is_dropped_while_it_loads_ends_at_once() {
    let network = networks::residual(1);
    let models = [ModelSpec::resident(&network, &[1]); 200];
    let spec = DeviceSpec {
        models: &models,
        partitions: &[PartitionSpec::on_cores("main", vec![0], None)],
        request_buffers: 1,
        cache: None,
        start: Start::in_turn(&[]),
    };
    let device = CpuDevice::start(&spec, Arc::new(Doorbell::new())).expect("starts");
    drop(device);
}

#[test]
fn a_resident_model_has_its_solutions_and_a_paged_one_has_none() {
    let network = networks::residual(1);
    let resident = ModelSpec::resident(&network, &[1, 2]);
    let paged = ModelSpec {
        paged: true,
        ..resident
    };
    let partitions = [PartitionSpec::on_cores("main", vec![0, 1], None)];
    let spec = DeviceSpec {
        models: &[resident, paged],
        partitions: &partitions,
        request_buffers: 1,
        cache: Some(CacheSpec {
            pages: 4,
            core: None,
            priority: None,
        }),
        start: Start::Whole,
    };
    let direct = DIRECT.start(&spec, Arc::new(Doorbell::new()));
    let chosen = SPECIALISED.start(&spec, Arc::new(Doorbell::new()));
    let nothing = SolutionMemory::default();
    for model in [ModelId(0), ModelId(1), ModelId(2)] {
        assert_eq!(direct.solution_memory(model), nothing);
    }
    let memory = chosen.solution_memory(ModelId(0));
    assert!(memory.weight_bytes > 0 && memory.scratch_bytes > 0);
    assert_eq!(chosen.solution_memory(ModelId(1)), nothing);
    // Scratch memory is said for any batch, and taken for the largest that there is.
    let taken = chosen.workspace_bytes()[0] - direct.workspace_bytes()[0];
    assert!(taken > 0 && taken as u64 <= 2 * memory.scratch_bytes);
}
