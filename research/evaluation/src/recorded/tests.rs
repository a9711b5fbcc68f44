//! Runs in virtual time, recorded and played again.

use std::io::Cursor;
use std::path::Path;

use punctual_core::{Config, Instant, Nanos, PolicySpec, TaskId};
use punctual_plan::PolicyChoice;
use punctual_recording::{Entry, Recording as Read, Writer};
use punctual_simulator::outcome::Outcome;
use punctual_simulator::recorded::TimeSources;
use punctual_simulator::recording::{Recording, setting};
use punctual_simulator::run::{Settings, simulate};
use punctual_simulator::scenario::Scenario;
use punctual_simulator::summary::Summary;

use super::{Error, Log, Opened, Planned, Played};
use crate::workloads;

const SETTINGS: Settings = Settings {
    seed: 3,
    keep_requests: false,
};

fn policy(name: &str) -> PolicyChoice {
    let all = punctual_baselines::all();
    all.by_name(name).expect("known").clone()
}

/// A run as a file, and what became of it.
fn recorded(scenario: &Scenario, policy: &PolicyChoice, load: f64) -> (Vec<u8>, Outcome) {
    let config = scenario.config(policy);
    let written = serde_json::to_value(policy).expect("plain data");
    let setting = setting(scenario, &config, written);
    let segment = Nanos::from_millis(500);
    let writer = Writer::new(Cursor::new(Vec::new()), 0, &setting).expect("memory");
    let mut recording = Recording::begin(writer, segment).expect("memory");
    let outcome = simulate(scenario, policy, load, SETTINGS, &mut recording).expect("a plan");
    let file = recording.finish().expect("memory").into_inner();
    (file, outcome)
}

fn workload(name: &str, seconds: u64) -> Scenario {
    let mut scenario = workloads::by_name(name).expect("built in");
    scenario.length = Nanos::from_millis(1_000 * seconds);
    scenario
}

fn open(file: &[u8]) -> Opened<'_> {
    let recording = Read::of(file).expect("a recording");
    let setting = recording.setting().expect("it has one");
    let policy = punctual_baselines::all().written(&setting.policy);
    Opened {
        path: Path::new("run.mcap"),
        recording,
        setting,
        policy: policy.expect("known"),
    }
}

fn played(scenario: &Scenario, policy: &PolicyChoice) -> Outcome {
    simulate(scenario, policy, 1.0, SETTINGS, &mut ()).expect("a plan")
}

/// Verdicts, exits and latencies, without accuracies: what is right is drawn anew for a recording.
fn became(summary: &Summary) -> impl PartialEq + std::fmt::Debug + use<> {
    let verdicts = (summary.submitted, summary.on_time, summary.late);
    let others = (summary.rejected, summary.failed, summary.lost);
    (verdicts, others, summary.exits.clone(), summary.latency_us)
}

#[test]
fn a_recording_played_under_its_own_policy_comes_to_the_same() {
    for (name, by, load) in [
        ("robot", "punctual", 1.0),
        ("robot-thermal-step", "punctual", 1.0),
        ("seeb-poisson", "punctual", 2.0),
        ("seeb-poisson", "seeb", 1.0),
        ("seeb-poisson", "batch", 2.0),
    ] {
        let (scenario, policy) = (workload(name, 4), policy(by));
        let (file, outcome) = recorded(&scenario, &policy, load);
        // How long a stage would have run that was preempted is in no recording.
        assert_eq!(outcome.effort.preempted, 0, "{name}");
        let opened = open(&file);
        let log = Log::of(&opened).expect("whole");
        assert_eq!(log.omitted.notes(), Vec::<String>::new(), "{name}");
        let again = Played::again(&opened, &log).expect("it has frames");
        let what_if = played(&again.scenario, &policy);
        let read = again.summary(None);
        assert_eq!(became(&read), became(&outcome.summary()), "{name}, read");
        let found = what_if.summary();
        assert_eq!(became(&found), became(&read), "{name} under {by}");
        let times = what_if.times.expect("of a recording");
        let others = times.drawn + times.scaled + times.planned;
        assert_eq!(others, 0, "{name} under {by}: {times:?}");
        assert!(times.own > 50, "{name}: {times:?}");
    }
}

#[test]
fn preempted_stages_are_the_only_ones_whose_times_a_recording_does_not_have() {
    let (scenario, policy) = (workload("robot", 10), policy("punctual"));
    let (file, outcome) = recorded(&scenario, &policy, 2.5);
    assert!(outcome.effort.preempted > 0);
    let opened = open(&file);
    let log = Log::of(&opened).expect("whole");
    let again = Played::again(&opened, &log).expect("it has frames");
    let found = played(&again.scenario, &policy).summary();
    let real = outcome.summary();
    assert_eq!(found.submitted, real.submitted);
    let apart = found.missed.abs_diff(real.missed) as f64 / real.submitted as f64;
    assert!(apart < 0.02, "{found:?} {real:?}");
}

#[test]
fn another_policy_has_the_same_frames_and_says_where_its_times_come_from() {
    let scenario = workload("robot", 4);
    let (file, _) = recorded(&scenario, &policy("punctual"), 1.0);
    let opened = open(&file);
    let log = Log::of(&opened).expect("whole");
    let again = Played::again(&opened, &log).expect("it has frames");
    for name in ["clockwork", "streams", "gslice", "deeprt"] {
        let outcome = played(&again.scenario, &policy(name));
        let summary = outcome.summary();
        let read = again.summary(None);
        assert_eq!((summary.submitted, summary.lost), (read.submitted, 0));
        assert_eq!(summary.accuracy_full_depth, read.accuracy_full_depth);
        let TimeSources { planned, .. } = outcome.times.expect("of a recording");
        assert_eq!(planned, 0, "{name}: what ran on a partition is scaled");
    }
}

#[test]
fn faster_play_and_less_of_it_are_as_of_other_workloads() {
    let scenario = workload("robot", 4);
    let policy = policy("punctual");
    let (file, _) = recorded(&scenario, &policy, 1.0);
    let opened = open(&file);
    let log = Log::of(&opened).expect("whole");
    let mut again = Played::again(&opened, &log)
        .expect("it has frames")
        .scenario;
    let all = played(&again, &policy);
    let faster = simulate(&again, &policy, 8.0, SETTINGS, &mut ()).expect("a plan");
    assert_eq!(faster.total.submitted, all.total.submitted);
    assert!(faster.ended.as_nanos() < all.ended.as_nanos() / 4);
    assert!(faster.total.on_time < all.total.on_time);
    again.length = Nanos::from_millis(1_000);
    let short = played(&again, &policy);
    assert!(short.total.submitted * 3 < all.total.submitted);
}

/// The recording's plan, changed.
fn changed(opened: &Opened<'_>, change: impl FnOnce(&mut Planned)) -> Planned {
    let mut plan = opened.plan();
    change(&mut plan);
    plan
}

#[test]
fn tasks_and_models_of_another_plan_are_found_by_their_names() {
    let scenario = workload("robot", 4);
    let (file, _) = recorded(&scenario, &policy("punctual"), 1.0);
    let opened = open(&file);
    let log = Log::of(&opened).expect("whole");
    let again = Played::again(&opened, &log).expect("it has frames");
    let whole = again.summary(None);
    let last = opened.setting.config.tasks.len() - 1;

    let same = Played::under(&opened, &log, &opened.plan()).expect("it has frames");
    assert_eq!(same.summary(None), whole);
    assert!(same.without_task.is_empty() && same.without_model.is_empty());

    let renamed = changed(&opened, |plan| plan.names.tasks[last] = "other".to_owned());
    let renamed = Played::under(&opened, &log, &renamed).expect("others have frames");
    let name = opened.setting.names.task(TaskId(last as u16));
    let frames = again.summary(Some(TaskId(last as u16))).submitted;
    assert_eq!(renamed.without_task.get(&name), Some(&frames));
    assert_eq!(renamed.summary(None).submitted, whole.submitted - frames);

    let unknown = changed(&opened, |plan| plan.names.models[0] = "other".to_owned());
    let unknown = Played::under(&opened, &log, &unknown).expect("tasks are known");
    assert_eq!(
        unknown.without_model,
        [opened.setting.names.models[0].clone()]
    );
    let outcome = played(&unknown.scenario, &policy("punctual"));
    assert!(outcome.times.expect("of a recording").planned > 0);

    let none = changed(&opened, |plan| {
        plan.names.tasks.iter_mut().for_each(|name| name.push('x'))
    });
    let none = Played::under(&opened, &log, &none);
    assert!(matches!(none, Err(Error::NoFrames { .. })));
}

#[test]
fn a_longer_deadline_saves_frames_that_were_late_or_rejected() {
    let (mut scenario, policy) = (workload("robot", 4), policy("punctual"));
    let shortened = |deadline: Nanos| Nanos::new(deadline.as_nanos() / 4);
    for task in &mut scenario.tasks {
        task.config.deadline = task.config.deadline.map(shortened);
        task.config.reserved = false;
    }
    let (file, outcome) = recorded(&scenario, &policy, 2.0);
    let before = outcome.total.missed();
    assert!(before > 0, "nothing to save");
    let opened = open(&file);
    let log = Log::of(&opened).expect("whole");
    let fixed = changed(&opened, |plan| {
        for task in &mut plan.config.tasks {
            let longer = |deadline: Nanos| deadline.saturating_mul(4);
            task.deadline = task.deadline.map(longer);
        }
    });
    let fixed = Played::under(&opened, &log, &fixed).expect("it has frames");
    let after = played(&fixed.scenario, &policy).total.missed();
    assert!(after < before / 2, "{after} of {before}");
}

/// The recording with other entries.
fn rewritten(file: &[u8], change: impl Fn(Vec<Entry>) -> Vec<Entry>) -> Vec<u8> {
    let opened = open(file);
    let entries = opened.recording.entries().map(Result::unwrap).collect();
    let mut writer = Writer::new(Cursor::new(Vec::new()), 0, &opened.setting).expect("memory");
    writer
        .append(Instant::ZERO, change(entries))
        .expect("memory");
    writer.finish().expect("memory").into_inner()
}

#[test]
fn frames_without_a_verdict_and_lost_steps_are_said() {
    let (scenario, policy) = (workload("robot", 4), policy("punctual"));
    let (file, outcome) = recorded(&scenario, &policy, 1.0);
    let all = outcome.total.submitted;
    let log = |change: fn(Vec<Entry>) -> Vec<Entry>| {
        let file = rewritten(&file, change);
        let log = Log::of(&open(&file)).expect("readable");
        (log.frames.len() as u64, log.omitted)
    };
    let (frames, omitted) = log(|entries| entries[200..].to_vec());
    assert!(omitted.unseen > 0 && omitted.open == 0 && frames < all);
    let (frames, omitted) = log(|entries| entries[..201].to_vec());
    assert!(omitted.open > 0 && omitted.unseen == 0 && frames < all);
    let (frames, omitted) = log(|mut entries| {
        entries.splice(100..200, [Entry::Lost { steps: 100 }]);
        entries
    });
    assert_eq!(omitted.lost_steps, 100);
    assert!(frames < all && omitted.notes().len() >= 2, "{omitted:?}");
}

#[test]
fn plans_that_no_scheduler_takes_and_boards_without_end_are_refused() {
    let (scenario, policy) = (workload("robot", 1), policy("punctual"));
    let (file, _) = recorded(&scenario, &policy, 1.0);
    let opened = open(&file);
    let log = Log::of(&opened).expect("whole");
    let refused = |change: fn(&mut Config)| {
        let plan = changed(&opened, |plan| change(&mut plan.config));
        Played::under(&opened, &log, &plan).err().expect("refused")
    };
    let none = refused(|config| config.partitions.clear());
    assert!(matches!(none, Error::Plan { .. }), "{none}");
    let wide = refused(|config| config.partitions[0].units.count = u16::MAX);
    assert!(
        matches!(
            wide,
            Error::Units {
                units: u16::MAX,
                ..
            } | Error::Plan { .. }
        ),
        "{wide}"
    );
    assert_eq!(policy.name(), "punctual");
}
