//! Networks verified on the CPU device, and faults that are planted in what it runs.

use std::sync::Arc;

use punctual_conformance::networks;
use punctual_core::Nanos;
use punctual_device::profile::{Phase, Subject};
use punctual_device::verify::{self, Request, verify};
use punctual_device::{DeviceSpec, ModelSpec, PartitionSpec, Provider};
use punctual_device_cpu::{CpuDevice, CpuProvider, StartError};
use punctual_kernels::Solution;
use punctual_model::{
    Calibration, Conv2d, Disagreement, Footprint, Network, OperatorKind, Package, Promises,
    SolutionChoice, Verified,
};
use punctual_platform::{Doorbell, affinity};
use punctual_types::View;

use crate::profile::of_depth_and_vectors;

/// Starts devices whose network a fault has changed.
struct Faulty<F> {
    inner: CpuProvider,
    /// Changes what is started, given the solutions.
    plant: F,
}

impl<F: Fn(&mut Network, &[SolutionChoice])> Provider for Faulty<F> {
    type Device = CpuDevice;
    type Error = StartError;
    const UNIT: &'static str = CpuProvider::UNIT;
    const PROMISES: Promises = CpuProvider::PROMISES;
    const POISONS: bool = CpuProvider::POISONS;

    fn machine(&self) -> String {
        self.inner.machine()
    }

    fn clocks(&self) -> String {
        self.inner.clocks()
    }

    fn partitions(&self, sizes: &[u8]) -> Result<Vec<PartitionSpec>, StartError> {
        self.inner.partitions(sizes)
    }

    fn footprint(
        &self,
        network: &Network,
        batches: &[u8],
        units: u8,
    ) -> Result<Footprint, StartError> {
        self.inner.footprint(network, batches, units)
    }

    fn start(&self, spec: &DeviceSpec<'_>, report: Arc<Doorbell>) -> Result<CpuDevice, StartError> {
        let mut network = spec.models[0].network.clone();
        (self.plant)(&mut network, spec.models[0].solutions);
        let model = ModelSpec {
            network: &network,
            ..spec.models[0]
        };
        let models = &[model];
        self.inner.start(&DeviceSpec { models, ..*spec }, report)
    }
}

fn cpu() -> CpuProvider {
    CpuProvider {
        cores: affinity::available_cores().expect("the kernel tells"),
    }
}

fn faulty<F: Fn(&mut Network, &[SolutionChoice])>(plant: F) -> Faulty<F> {
    Faulty {
        inner: cpu(),
        plant,
    }
}

fn request() -> Request {
    Request {
        batches: vec![1, 3],
        units: vec![1],
        budget: Nanos::from_millis(10_000),
        seed: 1,
    }
}

fn package(network: Network) -> Package {
    Package::new(network, Calibration::default()).expect("a valid network")
}

/// The solution of each operator that knows it.
fn everywhere(network: &Network, solution: Solution) -> Vec<SolutionChoice> {
    let operators = network.stages.iter().map(|stage| stage.operators.len());
    let choice = |operator| SolutionChoice {
        operator,
        batch: 1,
        units: 1,
        solution: solution.name().to_owned(),
    };
    (0..operators.sum::<usize>() as u32).map(choice).collect()
}

fn verified<P: Provider<Error = StartError>>(
    provider: &P,
    network: Network,
    solutions: &[SolutionChoice],
    request: &Request,
) -> Verified {
    let package = &package(network);
    let subject = Subject { package, solutions };
    verify(provider, subject, request, &mut |_| ()).expect("runs")
}

fn failure<F: Fn(&mut Network, &[SolutionChoice])>(network: Network, plant: F) -> Disagreement {
    let verified = verified(&faulty(plant), network, &[], &request());
    verified.failure.expect("the fault is found")
}

#[test]
fn networks_of_all_operators_are_right_with_memory_overwritten() {
    let networks = [
        networks::every_operator(3),
        networks::segments(3),
        networks::copies(3),
        networks::recurrent(3, 5),
        networks::tangle(3),
        networks::arithmetic(3),
        networks::computed(3),
        networks::detectors(3),
        networks::quantised(3),
        of_depth_and_vectors(),
    ];
    for network in networks {
        let name = network.name.clone();
        let found = verified(&cpu(), network, &[], &request());
        assert_eq!(found.failure, None, "{name}");
        assert!(
            found.values > found.undecided && found.poisoned,
            "{found:?}"
        );
        assert_eq!(
            found.inputs,
            verify::INPUTS_MAX,
            "small networks have time for all"
        );
    }
}

#[test]
fn each_solution_is_compared_at_each_batch_and_partition_size() {
    let request = Request {
        batches: vec![1, 2, 8],
        units: (1..=cpu().cores.len().min(2) as u8).collect(),
        ..request()
    };
    for solution in Solution::ALL {
        let network = networks::residual(2);
        let solutions = everywhere(&network, solution);
        let found = verified(&cpu(), network, &solutions, &request);
        assert_eq!(found.failure, None, "{}", solution.name());
        assert_eq!(found.solutions as usize, solutions.len());
    }
}

/// As [`of_depth_and_vectors`], its result in two outputs of equal shape.
fn of_two_outputs() -> Network {
    let mut network = of_depth_and_vectors();
    let exit = network.stages[0].exit.as_mut().expect("it ends in one");
    let part = |name: &str, first| {
        let mut part = exit.outputs[0].clone();
        part.name = name.to_owned();
        part.shape = vec![2, 12, 20];
        part.view = View::plain([2, 12, 20]);
        part.view.start[0] = first;
        part
    };
    exit.outputs = vec![part("upper", 0), part("lower", 2)];
    network
}

#[test]
fn outputs_that_are_exchanged_are_found_and_named() {
    let found = failure(of_two_outputs(), |network, _| {
        let exit = network.stages[0].exit.as_mut().expect("it ends in one");
        let [upper, lower] = &mut exit.outputs[..] else {
            panic!("two outputs");
        };
        std::mem::swap(&mut upper.view, &mut lower.view);
    });
    assert_eq!((found.stage, found.batch, found.units), (0, 1, 1));
    assert_eq!((&found.output[..], &found.solution), ("upper", &None));
    let said = found.to_string();
    assert!(
        said.starts_with("stage 0 at batch 1 on 1 unit, member 0, input 0: element "),
        "{said}"
    );
}

#[test]
fn a_channel_or_a_row_that_is_shifted_is_found() {
    let shifted = |axis: usize| {
        failure(of_two_outputs(), move |network, _| {
            let exit = network.stages[0].exit.as_mut().expect("it ends in one");
            exit.outputs[1].view.start[axis] = 1;
        })
    };
    assert_eq!(shifted(0).output, "lower");
    let rows = failure(networks::segments(2), |network, _| {
        let first = &mut network.stages[0].operators[0].kind;
        let OperatorKind::Conv2d(Conv2d { window, .. }) = first else {
            panic!("{first:?}");
        };
        let padding = &mut window.padding;
        (padding.top, padding.bottom) = (padding.top - 1, padding.bottom + 1);
    });
    assert_eq!(rows.stage, 0);
}

#[test]
fn a_stage_behind_the_first_is_compared_too() {
    let found = failure(networks::residual(4), |network, _| {
        let last = network.stages.last_mut().expect("it has stages");
        let scores = last.operators.last_mut().expect("it has operators");
        assert!(matches!(scores.kind, OperatorKind::Linear(_)), "{scores:?}");
        scores.weights[1].start -= 1;
    });
    assert!(found.stage > 0, "{found}");
}

#[test]
fn a_solution_that_is_wrong_is_blamed() {
    let network = networks::residual(2);
    let solutions = everywhere(&network, Solution::ALL[0]);
    let plant = |network: &mut Network, solutions: &[SolutionChoice]| {
        if solutions.iter().any(|choice| choice.operator == 2) {
            let mut weights = network.weights.to_vec();
            weights.iter_mut().for_each(|weight| *weight *= 1.01);
            network.weights = weights.into();
        }
    };
    let found = verified(&faulty(plant), network, &solutions, &request());
    let failure = found.failure.expect("the fault is found");
    assert_eq!(failure.solution.as_ref(), Some(&solutions[2]), "{failure}");
    assert!(
        failure
            .to_string()
            .ends_with("; operator 2 is computed by `direct`"),
        "{failure}"
    );
}

#[test]
fn without_time_two_inputs_are_compared_and_it_is_said() {
    let request = Request {
        budget: Nanos::ZERO,
        ..request()
    };
    let package = package(networks::residual(1));
    let subject = Subject {
        package: &package,
        solutions: &[],
    };
    let mut phases = Vec::new();
    let found = verify(&cpu(), subject, &request, &mut |progress| {
        phases.push(progress.what)
    });
    assert_eq!(found.expect("runs").inputs, verify::ENOUGH);
    let compared = Phase::Compared {
        units: 1,
        unit: "core",
    };
    assert_eq!(phases, [Phase::Reference, Phase::Reference, compared]);
}
