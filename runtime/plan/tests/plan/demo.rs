//! The manifest that `punctual demo` runs, on machines with different numbers of cores.

use std::fs;
use std::path::Path;

use punctual_diagnostics::Diagnostics;
use punctual_plan::{Plan, ProfileInput, Role, Unschedulable, Warning};

/// Microseconds of the demonstration network's stages at batch 1 on one core with AVX-512, and of
/// preparing a crop of 192x192.
const STAGES_US: [u64; 3] = [500, 700, 750];
const PREPARE_US: u64 = 60;
/// Its longest operator at batch 8.
const PREEMPTION_US: u64 = 1_500;

/// The demo on a machine `slower` times as slow.
fn plan(cores: u16, slower: f64) -> Result<Plan, Diagnostics> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/src/demo/manifest.toml");
    let text = fs::read_to_string(path).expect("the demo's manifest");
    let mut inputs = crate::fixture::inputs(&text, "manifest.toml");
    inputs.host = crate::fixture::host(cores);
    let ns = |us: u64| (us as f64 * 1e3 * slower) as u64;
    for ProfileInput { profile, .. } in &mut inputs.profiles {
        let profile = profile.as_mut().expect("the fixture's profile");
        for entry in &mut profile.stages {
            let single = ns(STAGES_US[usize::from(entry.stage)]);
            entry.p50_ns = single * u64::from(entry.batch);
            (entry.p99_ns, entry.max_ns) = (entry.p50_ns * 11 / 10, entry.p50_ns * 5);
        }
        for entry in &mut profile.prepare {
            entry.p50_ns = ns(PREPARE_US);
            (entry.p99_ns, entry.max_ns) = (entry.p50_ns * 11 / 10, entry.p50_ns * 5);
        }
        profile.preemption_ns_max = ns(PREEMPTION_US);
    }
    Plan::build(&inputs)
}

#[test]
fn the_demo_is_schedulable_on_one_to_eight_cores_even_half_as_fast() {
    for cores in [1, 2, 4, 8] {
        for slower in [1.0, 2.0] {
            let plan = plan(cores, slower);
            let plan = plan.unwrap_or_else(|errors| panic!("{cores} cores:\n{errors}"));
            let promised: usize = plan.schedulability.iter().map(|p| p.tasks.len()).sum();
            assert_eq!(promised, 2, "both real-time tasks");
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
    let (alone, two) = (plan(1, 1.0).expect("fits"), plan(2, 1.0).expect("fits"));
    assert!(matches!(
        alone.warnings[..],
        [Warning::SharedCore { core: 0 }]
    ));
    let urgency = |wanted: fn(&Role) -> bool| urgency(&alone, wanted);
    let worker = urgency(|role| matches!(role, Role::Worker { .. }));
    assert!(worker < urgency(|role| matches!(role, Role::Intake { client: 0 })));
    let budget = |plan: &Plan| plan.scheduler.models[0].stages[0].times[0].on[0].budget;
    assert!(budget(&alone) > budget(&two));
}

#[test]
fn a_machine_too_slow_for_the_demo_is_told_which_promise_cannot_be_kept() {
    let errors = plan(2, 8.0).expect_err("eight times as slow");
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
