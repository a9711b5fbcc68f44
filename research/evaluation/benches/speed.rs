//! How many requests a second are simulated: `cargo bench -p punctual-evaluation --bench speed`.
//!
//! Seconds are the thread's processor time, which on an otherwise idle machine is wall time.
//! Each line is the best of three runs: disturbances only add. `--test` (what
//! `cargo test --benches` says) runs a thousandth of it.

use std::hint::black_box;

use punctual_core::{
    Answers, Confidence, Criticality, Delivery, ModelId, Nanos, PartitionId, PolicySpec, StageId,
    StageTime, TaskConfig, Units,
};
use punctual_evaluation::workloads;
use punctual_model::Calibration;
use punctual_platform::clock;
use punctual_simulator::arrivals::Pattern;
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage, Task};
use punctual_simulator::timing::Durations;

const REQUESTS: u64 = 2_000_000;

fn main() {
    let short = std::env::args().any(|argument| argument == "--test");
    let requests = if short { REQUESTS / 1_000 } else { REQUESTS };
    println!("| plan | policy | requests/s | steps/s | ns a request |");
    println!("| --- | --- | --- | --- | --- |");
    for (plan, scenario) in [
        ("1 task of 1 stage", scenario(1, 1, requests)),
        ("4 tasks of 1 stage", scenario(1, 4, requests)),
        ("4 tasks of 3 stages", scenario(3, 4, requests)),
        ("`robot`", robot(requests)),
    ] {
        for policy in ["seq", "punctual"] {
            let policy = punctual_baselines::all()
                .by_name(policy)
                .expect("a policy")
                .clone();
            let best = (0..3)
                .map(|_| measure(&scenario, &policy))
                .min_by_key(|(took_ns, ..)| *took_ns);
            let (took_ns, served, steps) = best.expect("three runs");
            let a_second = |count: u64| count as f64 * 1e9 / took_ns as f64;
            println!(
                "| {plan} | {} | {:.0} | {:.0} | {:.0} |",
                policy.name(),
                a_second(served),
                a_second(steps),
                took_ns as f64 / served as f64
            );
        }
    }
}

/// Time, requests and steps of a run.
fn measure(scenario: &Scenario, policy: &dyn PolicySpec) -> (u64, u64, u64) {
    let settings = Settings {
        seed: 1,
        keep_requests: false,
    };
    let start = clock::thread_cpu_ns();
    let outcome = simulate(scenario, policy, 1.0, settings, &mut ()).expect("a valid plan");
    let took_ns = clock::thread_cpu_ns() - start;
    let outcome = black_box(outcome);
    (took_ns, outcome.total.submitted, outcome.effort.steps)
}

/// Three cameras at 30 frames a second, for this number of requests.
fn robot(requests: u64) -> Scenario {
    let mut robot = workloads::by_name("robot").expect("a built-in workload");
    robot.length = Nanos::new(1_000_000_000 / 90).saturating_mul(requests);
    robot
}

/// Between two requests, of whichever task.
const EVERY: Nanos = Nanos::from_micros(100);

/// Stages that take 60 us together.
fn scenario(stages: u64, tasks: u64, requests: u64) -> Scenario {
    let budget = Nanos::new(60_000 / stages);
    let stage = Stage {
        times: vec![Measured {
            batch: 1,
            units: 1,
            time: StageTime {
                budget,
                max_seen: budget,
            },
        }],
        ..Stage::default()
    };
    let task = |index: u64| Task {
        name: format!("task {index}"),
        config: TaskConfig {
            model: ModelId(0),
            partition: PartitionId(0),
            criticality: Criticality::RealTime,
            deadline: Some(Nanos::from_millis(1)),
            period: EVERY.saturating_mul(tasks),
            burst: 1,
            jitter: Nanos::from_micros(1),
            prepare: Nanos::ZERO,
            mandatory_exit: StageId(stages as u8 - 1),
            threshold: Confidence::ONE,
            threshold_min: Confidence(0),
            batch_max: 1,
            queue_max: 64,
            reserved: true,
            answers: Answers::Final,
            weight: 1,
            offload_to: None,
            delivery: Delivery::EveryFrame,
        },
        pattern: Pattern::Periodic {
            rate_hz: 1e9 / EVERY.saturating_mul(tasks).as_nanos() as f64,
            phase: EVERY.saturating_mul(index),
            jitter: Nanos::ZERO,
        },
        clients: 1,
    };
    Scenario {
        lending: None,
        name: "speed".to_owned(),
        about: "made up".to_owned(),
        models: vec![Model {
            name: "model".to_owned(),
            source: "made up".to_owned(),
            stages: vec![stage; stages as usize],
            calibration: Calibration::default(),
            weights: None,
        }],
        tasks: (0..tasks).map(task).collect(),
        board: Board {
            units: 1,
            workers: 1,
            preemption_bound: Nanos::ZERO,
            dispatch_cost: Nanos::from_micros(1),
            egress_bound: Nanos::from_micros(1),
            request_buffers: 64,
            pages: 0,
            contention_permille: 1000,
        },
        planned: vec![(Units { first: 0, count: 1 }, (0..tasks as usize).collect())],
        length: EVERY.saturating_mul(requests),
        durations: Durations::default(),
        faults: Vec::new(),
        recorded: None,
    }
}
