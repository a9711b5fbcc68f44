//! The manifest that `punctual demo` runs, on machines with different numbers of cores.

use std::fs;
use std::path::Path;

use punctual_diagnostics::Diagnostics;
use punctual_model::Package;
use punctual_plan::{PackageInput, Plan, ProfileInput, Role, Unschedulable, Warning};

/// Microseconds of a network's stages at batch 1 on one core with AVX-512, and of preparing a frame.
struct Measured {
    package: &'static str,
    stages_us: [u64; 3],
    prepare_us: u64,
}

const SIGNS: Measured = Measured {
    package: "signs",
    stages_us: [500, 700, 750],
    prepare_us: 60,
};

const STREETS: Measured = Measured {
    package: "streets",
    stages_us: [1_100, 2_300, 2_900],
    prepare_us: 700,
};

/// The longest operator at batch 8.
const PREEMPTION_US: u64 = 1_500;

/// The demo on a machine `slower` times as slow.
fn plan(cores: u16, slower: f64) -> Result<Plan, Diagnostics> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/src/demo/manifest.toml");
    let text = fs::read_to_string(path).expect("the demo's manifest");
    let mut inputs = crate::fixture::inputs(&text, "manifest.toml");
    inputs.host = crate::fixture::host(cores);
    // The fixture's network stands for both of the demo; with other weights they have no stage in common.
    let signs = crate::fixture::package();
    let mut network = signs.network().clone();
    let weights: Vec<f32> = network.weights.iter().map(|weight| weight + 1.0).collect();
    network.weights = weights.into();
    let streets = Package::new(network, signs.calibration().clone());
    let streets = streets.expect("weights change nothing");
    inputs.profiles = vec![
        profile(&inputs.profiles[0], &SIGNS, &signs, slower),
        profile(&inputs.profiles[0], &STREETS, &streets, slower),
    ];
    inputs.packages.push(PackageInput {
        path: "streets.punctual".to_owned(),
        version: None,
        package: Ok(streets),
        layout: None,
        footprints: inputs.packages[0].footprints.clone(),
    });
    Plan::build(&inputs)
}

fn profile(
    fixture: &ProfileInput,
    measured: &Measured,
    package: &Package,
    slower: f64,
) -> ProfileInput {
    let ns = |us: u64| (us as f64 * 1e3 * slower) as u64;
    let profile = fixture.profile.as_ref().expect("the fixture's profile");
    let mut profile = profile.clone();
    profile.key.package = package.hash().to_string();
    profile.key.timing = package.timing().to_string();
    for entry in &mut profile.stages {
        let single = ns(measured.stages_us[usize::from(entry.stage)]);
        entry.p50_ns = single * u64::from(entry.batch);
        (entry.p99_ns, entry.max_ns) = (entry.p50_ns * 11 / 10, entry.p50_ns * 5);
    }
    for entry in &mut profile.prepare {
        entry.p50_ns = ns(measured.prepare_us);
        (entry.p99_ns, entry.max_ns) = (entry.p50_ns * 11 / 10, entry.p50_ns * 5);
    }
    profile.preemption_ns_max = ns(PREEMPTION_US);
    ProfileInput {
        path: format!("{}.profile.json", measured.package).into(),
        lies_with: Some(format!("{}.punctual", measured.package)),
        profile: Ok(profile),
    }
}

#[test]
fn the_demo_is_schedulable_on_two_to_eight_cores_even_half_as_fast() {
    for cores in [2, 4, 8] {
        for slower in [1.0, 2.0] {
            let plan = plan(cores, slower);
            let plan = plan.unwrap_or_else(|errors| panic!("{cores} cores:\n{errors}"));
            let promised: usize = plan.schedulability.iter().map(|p| p.tasks.len()).sum();
            assert_eq!(promised, 3, "all real-time tasks");
        }
    }
}

#[test]
fn workers_have_cores_of_their_own_as_soon_as_there_are_two() {
    for cores in [2, 4, 8] {
        let plan = plan(cores, 1.0).expect("it is schedulable");
        assert_eq!(plan.partitions[0].cores, [1]);
        assert_eq!(plan.warnings, []);
        let urgency = |wanted: fn(&Role) -> bool| urgency(&plan, wanted);
        let intake = urgency(|role| matches!(role, Role::Intake { client: 1 }));
        assert!(intake < urgency(|role| matches!(role, Role::Worker { .. })));
    }
}

#[test]
fn on_a_single_core_arrivals_come_before_stages_and_stretch_their_budgets() {
    let (alone, two) = (plan(1, 0.5).expect("fits"), plan(2, 0.5).expect("fits"));
    assert!(alone.warnings.contains(&Warning::SharedCore { core: 0 }));
    let urgency = |wanted: fn(&Role) -> bool| urgency(&alone, wanted);
    let worker = urgency(|role| matches!(role, Role::Worker { .. }));
    assert!(worker < urgency(|role| matches!(role, Role::Intake { client: 0 })));
    let budget = |plan: &Plan| plan.scheduler.models[0].stages[0].times[0].on[0].budget;
    assert!(budget(&alone) > budget(&two));
}

#[test]
fn a_machine_too_slow_for_the_demo_is_told_which_promise_cannot_be_kept() {
    let errors = plan(2, 4.0).expect_err("four times as slow");
    let [problem] = errors.problems() else {
        panic!("{errors}");
    };
    let cause = problem.cause();
    assert!(matches!(cause, Some(Unschedulable::Overload { task, .. }) if task == "signs-fast"));
}

fn urgency(plan: &Plan, wanted: fn(&Role) -> bool) -> u8 {
    let thread = plan.threads.iter().find(|thread| wanted(&thread.role));
    thread
        .and_then(|thread| thread.priority)
        .expect("a real-time thread")
}
