//! Runs of everything that a scheduler does, recorded, read and replayed without a difference.

use std::io::Cursor;

use punctual_core::{
    Action, ClientId, Config, Event, Instant, ModelId, Nanos, PolicySpec, Weights,
};
use punctual_evaluation::workloads;
use punctual_plan::PolicyChoice;
use punctual_recording::replay::replay;
use punctual_recording::{Entry, Recording as Read, Step, Writer};
use punctual_simulator::faults::Fault;
use punctual_simulator::recording::{Recording, setting};
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::testbed;

fn policy(name: &str) -> PolicyChoice {
    let all = punctual_baselines::all();
    all.by_name(name).expect("known").clone()
}

fn workload(name: &str, ms: u64) -> Scenario {
    let mut scenario = workloads::by_name(name).expect("built in");
    scenario.length = Nanos::from_millis(ms);
    scenario
}

/// What a run did that is not in every run.
#[derive(Debug, Default)]
struct Did {
    on_places: u64,
    loads: u64,
    unloads: u64,
    preempted: u64,
    failed: u64,
    gone: u64,
    shed: u64,
    demoted: u64,
}

impl Did {
    fn count(&mut self, step: &Step, config: &Config) {
        match &step.event {
            Event::Preempted { .. } => self.preempted += 1,
            Event::Failed { .. } => self.failed += 1,
            Event::ClientGone { .. } => self.gone += 1,
            Event::Shed { .. } => self.shed += 1,
            _ => {}
        }
        for action in &step.actions {
            match action {
                Action::Infer(infer) => {
                    let mut homes = config.tasks.iter().map(|task| task.partition);
                    self.on_places += u64::from(!homes.any(|home| home == infer.partition));
                }
                Action::Load { .. } => self.loads += 1,
                Action::Unload { .. } => self.unloads += 1,
                Action::Demote(_) => self.demoted += 1,
                _ => {}
            }
        }
    }
}

/// Records a run, and lets its scheduler decide again: from the beginning, and from the segment in the middle.
fn replayed(scenario: &Scenario, policy: &PolicyChoice, load: f64) -> Did {
    let name = format!("{} under {}", scenario.name, policy.name());
    let config = scenario.config(policy);
    let written = serde_json::to_value(policy).expect("plain data");
    let setting = setting(scenario, &config, written);
    let segment = Nanos::new(scenario.length.as_nanos() / 8);
    let writer = Writer::new(Cursor::new(Vec::new()), 0, &setting).expect("memory");
    let mut recording = Recording::begin(writer, segment).expect("memory");
    let settings = Settings {
        seed: 5,
        keep_requests: false,
    };
    let outcome = simulate(scenario, policy, load, settings, &mut recording);
    let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    let file = recording.finish().expect("memory").into_inner();
    let read = Read::of(&file).expect("a recording");
    let setting = read.setting().expect("it has one");
    let policy = punctual_baselines::all()
        .written(&setting.policy)
        .expect("known");
    let whole = replay(read.entries(), &setting.config, &policy);
    let whole = whole.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((whole.steps, whole.skipped), (outcome.effort.steps, 0));
    let middle = whole.segments / 2;
    let begins = |entry: &Result<Entry, _>| matches!(entry, Ok(Entry::Segment { number, .. }) if *number == middle);
    let rest = read.entries().skip_while(|entry| !begins(entry));
    let rest = replay(rest, &setting.config, &policy);
    let rest = rest.unwrap_or_else(|error| panic!("{name}, from its middle: {error}"));
    assert!(rest.steps + rest.skipped > 0 && rest.segments < whole.segments);
    let mut did = Did::default();
    for entry in read.entries().map(Result::unwrap) {
        if let Entry::Step(step) = entry {
            did.count(&step, &config);
        }
    }
    did
}

#[test]
fn every_policy_decides_the_same_again() {
    for policy in punctual_baselines::all().iter() {
        replayed(&workload("seeb-poisson", 1_000), policy, 2.0);
        replayed(&workload("disb-real", 400), policy, 1.0);
    }
}

#[test]
fn stages_on_places_are_replayed() {
    let mut scenario = workload("robot", 4_000);
    let did = replayed(&scenario, &policy("punctual"), 2.0);
    assert!(did.on_places > 100 && did.preempted > 0, "{did:?}");
    scenario.lending = None;
    let alone = replayed(&scenario, &policy("punctual"), 2.0);
    assert_eq!(alone.on_places, 0);
}

#[test]
fn layouts_are_replayed_whatever_they_are() {
    let scenario = workload("seeb-poisson", 1_000);
    let tasks = scenario.tasks.len();
    for parts in 1..=4u16 {
        let width = scenario.board.units / parts;
        let range = |part: u16| punctual_core::Units {
            first: part * width,
            count: width,
        };
        let of_part = |part: u16| {
            (0..tasks).filter(move |task| task % usize::from(parts) == usize::from(part))
        };
        let layout = (0..parts).map(|part| (range(part), of_part(part).collect()));
        let scenario = scenario
            .clone()
            .partitioned(layout.collect())
            .reserved_if_possible();
        replayed(&scenario, &policy("punctual"), 1.0);
    }
}

/// Two networks on one partition.
fn two_networks() -> Scenario {
    let mut scenario = testbed::scenario();
    scenario.models.push(scenario.models[0].clone());
    scenario.tasks[1].config.model = ModelId(1);
    scenario
}

#[test]
fn pages_of_weights_are_replayed() {
    let mut scenario = two_networks();
    scenario.board.pages = 1;
    for model in &mut scenario.models {
        model.weights = Some(Weights {
            pages: 1,
            load: Nanos::from_micros(300),
        });
    }
    for task in &mut scenario.tasks {
        task.config.reserved = false;
    }
    let did = replayed(&scenario, &policy("punctual"), 1.0);
    assert!(did.loads > 50 && did.unloads > 50, "{did:?}");
}

#[test]
fn a_network_that_breaks_its_profile_is_demoted_again() {
    let mut scenario = two_networks();
    scenario.faults = vec![Fault::ProfileLies {
        model: ModelId(1),
        factor: 4.0,
    }];
    let did = replayed(&scenario, &policy("punctual"), 1.0);
    assert!(did.demoted > 0, "{did:?}");
}

#[test]
fn faults_are_replayed() {
    let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    let mut scenario = workload("robot", 4_000);
    scenario.faults = vec![
        Fault::ClientGone {
            client: ClientId(1),
            at: at(3_000),
        },
        Fault::ClientStalled {
            client: ClientId(0),
            from: at(500),
            until: at(700),
        },
        Fault::PayloadUnreadable {
            client: ClientId(0),
            from: at(900),
            until: at(1_000),
        },
        Fault::CompletionLost { nth: 40 },
        Fault::DeviceFails {
            from: at(1_500),
            until: at(1_600),
        },
        Fault::BestEffortShed {
            from: at(2_000),
            until: at(2_200),
        },
    ];
    let did = replayed(&scenario, &policy("punctual"), 1.0);
    let faults = [did.failed, did.gone, did.shed];
    assert!(faults.iter().all(|count| *count > 0), "{did:?}");
}
