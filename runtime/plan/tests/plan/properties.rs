//! Random manifests: a plan, or a diagnosis; and what must hold of every plan that is made.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::RngSeed;
use punctual_core::{PartitionId, Scheduler, offline};
use punctual_plan::{Plan, PlanInputs, Role};

/// A value for a key: mostly one that makes sense, sometimes one that does not.
fn value(sensible: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    const ODD: &[&str] = &[
        "-1",
        "0",
        "1e300",
        "nan",
        "99999",
        "\"x\"",
        "true",
        "[]",
        "{}",
        "[1, 2, 3]",
        "0.5",
    ];
    prop_oneof![
        40 => prop::sample::select(sensible),
        1 => prop::sample::select(ODD),
    ]
}

/// `key = value`, or nothing.
fn line(
    key: &'static str,
    sensible: &'static [&'static str],
    given: f64,
) -> impl Strategy<Value = String> {
    prop::option::weighted(given, value(sensible))
        .prop_map(move |v| v.map_or_else(String::new, |v| format!("{key} = {v}\n")))
}

fn daemon() -> impl Strategy<Value = String> {
    (
        line("board", &["\"host\""], 0.99),
        line("cores", &["[0]", "[0, 1]", "[3]"], 0.2),
        line("budget_factor", &["1.0", "1.25", "2"], 0.3),
        line("channel_bound_us", &["500", "2_000", "0"], 0.3),
        line("memory_mb", &["64", "1_000"], 0.2),
        line("priority", &["1", "40", "90"], 0.2),
        line("weight_cache", &["\"1 MiB\"", "\"1 KiB\""], 0.2),
    )
        .prop_map(|(a, b, c, d, e, f, g)| format!("[daemon]\n{a}{b}{c}{d}{e}{f}{g}"))
}

fn partition(position: usize) -> impl Strategy<Value = String> {
    let cores = prop_oneof![
        6 => prop::sample::select(vec!["units = 1\n", "units = 2\n"]),
        4 => prop::sample::select(vec!["cores = [1]\n", "cores = [2, 3]\n", "cores = [0]\n"]),
        1 => prop::sample::select(vec!["", "cores = [9]\n", "cores = [1, 1]\n", "units = 70\n"]),
    ];
    cores.prop_map(move |cores| format!("[[partition]]\nname = \"p{position}\"\n{cores}"))
}

fn task(position: usize) -> impl Strategy<Value = String> {
    let first = (
        line("model", &["\"signs\""], 0.99),
        line("partition", &["\"p0\"", "\"p0\"", "\"p1\""], 0.99),
        line("criticality", &["\"real-time\"", "\"best-effort\""], 0.99),
        line("rate_hz", &["5", "10", "30", "60", "100"], 0.9),
        line("deadline_ms", &["12", "33", "50", "100", "7.5"], 0.9),
        line("mandatory_exit", &["0", "0", "1", "2"], 0.5),
        line("threshold", &["0.9", "1", "0.0"], 0.5),
        line("threshold_min", &["0.0", "0.5"], 0.2),
    );
    let second = (
        line("batch_max", &["1", "2", "3", "8"], 0.5),
        line("queue_depth", &["4", "8", "64"], 0.5),
        line("clients", &["1", "2", "5"], 0.3),
        line("slots", &["2", "8"], 0.2),
        line("reserved", &["false"], 0.1),
        line("weight", &["1", "10"], 0.2),
        prop::sample::select(vec![
            "{ format = \"rgb8\", width = 640, height = 480, crop = [192, 192] }",
            "{ format = \"nv12\", width = 640, height = 480 }",
            "{ format = \"nv12\", width = 640, height = 480, stride = 1024, crop = [20, 20] }",
        ]),
    );
    (first, second).prop_map(
        move |((a, b, c, d, e, f, g, g2), (h, i, j, k, l, m, frame))| {
            let lines = [a, b, c, d, e, f, g, g2, h, i, j, k, l, m].concat();
            format!("[[task]]\nname = \"t{position}\"\n{lines}frame = {frame}\n")
        },
    )
}

fn manifest() -> impl Strategy<Value = String> {
    let model = "[[model]]\nname = \"signs\"\npackage = \"signs.punctual\"\n";
    let counts = (1_usize..4, 1_usize..6);
    counts.prop_flat_map(move |(partitions, tasks)| {
        let partitions: Vec<_> = (0..partitions).map(partition).collect();
        let tasks: Vec<_> = (0..tasks).map(task).collect();
        (daemon(), partitions, tasks).prop_map(move |(daemon, partitions, tasks)| {
            let mut text = daemon + model;
            for part in partitions.iter().chain(&tasks) {
                let _ = write!(text, "{part}");
            }
            text
        })
    })
}

/// What must hold of every plan, whatever it was made from.
fn holds(plan: &Plan, inputs: &PlanInputs) {
    let available: BTreeSet<u16> = inputs.host.cores.available.iter().copied().collect();
    assert!(plan.partitions.iter().all(|p| !p.cores.is_empty()));
    let used: BTreeSet<u16> = plan.tasks.iter().map(|task| task.partition.0).collect();
    let mut taken = BTreeSet::new();
    for partition in used {
        for core in &plan.partitions[usize::from(partition)].cores {
            assert!(taken.insert(*core), "core {core} in two partitions");
        }
    }
    assert!(taken.is_subset(&available));

    // Every client has its port and its intake, every core of a partition its worker, on that core.
    let on = |role: Role| -> Vec<u16> {
        let threads = plan.threads.iter().filter(|thread| thread.role == role);
        threads.map(|thread| thread.core).collect()
    };
    for client in 0..plan.client_slots.len() as u16 {
        assert_eq!(on(Role::Port { client }).len(), 1);
        assert_eq!(on(Role::Intake { client }).len(), 1);
    }
    for (position, partition) in plan.partitions.iter().enumerate() {
        for (unit, core) in partition.cores.iter().enumerate() {
            let (partition, unit) = (PartitionId(position as u16), unit as u8);
            assert_eq!(on(Role::Worker { partition, unit }), [*core]);
        }
    }
    for thread in &plan.threads {
        assert!(available.contains(&thread.core));
        assert!(
            thread
                .priority
                .is_none_or(|level| (1..=99).contains(&level))
        );
    }
    for (position, task) in plan.tasks.iter().enumerate() {
        for slot in &task.client_slots {
            assert_eq!(plan.client_slots[usize::from(*slot)].task.index(), position);
        }
        let channel = task.channel;
        assert!(channel.slot_bytes >= task.frame.bytes());
        assert!(channel.submissions >= channel.slots && channel.results >= channel.slots);
        assert!(task.frame.crop.width <= task.frame.size.width);
        assert!(task.frame.crop.height <= task.frame.size.height);
    }
    assert!(plan.memory.total_bytes() <= plan.memory.limit_bytes);

    // The scheduler takes it, and keeps its promises by its own test.
    for partition in 0..plan.partitions.len() as u8 {
        let id = PartitionId(u16::from(partition));
        assert_eq!(offline::test_partition(&plan.scheduler, id).outcome, Ok(()));
    }
    Scheduler::new(&plan.scheduler, &plan.policy).expect("a valid plan");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 250,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_random_manifest_gives_a_plan_that_holds_or_a_diagnosis(
        text in manifest(),
        cores in 1_u16..6,
        realtime: bool,
    ) {
        let mut inputs = crate::fixture::inputs(&text, "random.toml");
        inputs.host = crate::fixture::host(cores);
        inputs.host.realtime = realtime;
        match Plan::build(&inputs) {
            Ok(plan) => {
                holds(&plan, &inputs);
                assert!(!plan.to_json().is_empty() && !plan.to_string().is_empty());
                let again = Plan::build(&inputs).expect("the same inputs");
                prop_assert_eq!(plan, again, "the same inputs give another plan");
            }
            Err(errors) => {
                prop_assert!(!errors.problems().is_empty());
                for problem in errors.problems() {
                    prop_assert!(!problem.cause.help().is_empty(), "{}", problem);
                }
            }
        }
    }

    #[test]
    fn a_damaged_manifest_never_panics(
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = include_bytes!("../manifests/good/two-partitions.toml").to_vec();
        for (at, byte) in damages {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let text = String::from_utf8_lossy(&bytes);
        let inputs = crate::fixture::inputs(&text, "damaged.toml");
        match Plan::build(&inputs) {
            Ok(plan) => holds(&plan, &inputs),
            Err(errors) => prop_assert!(!errors.to_string().is_empty()),
        }
    }
}

#[test]
fn random_manifests_are_often_enough_good_ones() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut plans = 0;
    for _ in 0..200 {
        let text = manifest()
            .new_tree(&mut runner)
            .expect("a manifest")
            .current();
        plans += u32::from(Plan::build(&crate::fixture::inputs(&text, "random.toml")).is_ok());
    }
    assert!(
        plans >= 10,
        "only {plans} of 200: the properties would test little"
    );
}
