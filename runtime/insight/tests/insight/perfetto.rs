//! Traces, decoded by Google's library with the definitions that Perfetto publishes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_core::{Action, Event, Instant};
use punctual_insight::{TraceError, Traced, trace};
use punctual_recording::{Entry, Recording, Step};
use punctual_types::Random;

use crate::recorded::{Recorded, long_run, run};

fn traced(recorded: &Recorded) -> (Vec<u8>, Traced) {
    let file = recorded.file();
    let recording = Recording::of(&file).expect("a recording");
    let mut out = Vec::new();
    let entries = recording.entries();
    let traced = trace(
        entries,
        &recorded.setting,
        1_700_000_000_000_000_000,
        &mut out,
    );
    (out, traced.expect("memory"))
}

fn steps(recorded: &Recorded) -> impl Iterator<Item = &Step> {
    recorded.entries.iter().filter_map(|entry| match entry {
        Entry::Step(step) => Some(step),
        _ => None,
    })
}

/// Where CI puts packages of Python.
fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python")
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments).env("PYTHONPATH", packages());
    command
}

/// Whether the decoder is here.
fn can_decode() -> bool {
    let import = "import perfetto.protos.perfetto.trace.perfetto_trace_pb2";
    let found = python(&["-c", import]).output();
    found.is_ok_and(|output| output.status.success())
}

#[test]
fn every_frame_run_and_step_is_in_the_trace() {
    let recorded = long_run();
    let (_, traced) = traced(&recorded);
    let actions = || steps(&recorded).flat_map(|step| &step.actions);
    let replies = actions()
        .filter(|action| matches!(action, Action::Reply(_)))
        .count();
    let runs = actions()
        .filter(|action| matches!(action, Action::Infer(_)))
        .count();
    assert_eq!(traced.steps as usize, steps(&recorded).count());
    assert_eq!(traced.frames as usize, replies);
    assert_eq!(traced.runs as usize, runs);
    assert_eq!((traced.open, traced.lost, traced.left_out), (0, 0, 0));
    assert!(replies > 50 && runs > 50, "{traced:?}");
}

#[test]
fn traces_are_what_perfetto_publishes_a_trace_to_be() {
    if !can_decode() {
        println!(
            "skipped: `python3 -m pip install --no-deps --target target/python perfetto protobuf` brings the decoder"
        );
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for seed in 0..8 {
        let Some(recorded) = run(seed, 25) else {
            continue;
        };
        let (trace, traced) = traced(&recorded);
        let file = folder.join(format!("{seed}.pftrace"));
        fs::write(&file, trace).expect("written");
        let arrived = steps(&recorded)
            .filter(|step| matches!(step.event, Event::Arrived(_)))
            .count();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/insight/decode.py");
        let expected = [traced.steps, traced.frames, traced.runs, arrived as u64];
        let expected = expected.map(|count| count.to_string());
        let output = python(&[script])
            .arg(&file)
            .args(expected)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {said}");
    }
}

#[test]
fn a_black_box_that_begins_in_the_middle_and_lost_steps_are_drawn_as_far_as_they_go() {
    let mut recorded = long_run();
    recorded.entries.drain(..100);
    recorded.entries.splice(50..80, [Entry::Lost { steps: 30 }]);
    let (_, traced) = traced(&recorded);
    assert_eq!(traced.lost, 30);
    assert!(traced.frames > 20 && traced.runs > 20, "{traced:?}");
}

#[test]
fn times_without_sense_are_drawn_somewhere() {
    let mut recorded = long_run();
    let mut random = Random::new(9);
    for entry in &mut recorded.entries {
        match entry {
            Entry::Step(step) => {
                step.now = Instant::from_nanos(random.next_u64());
                step.took = punctual_core::Nanos::new(random.next_u64());
                if let Event::Finished(finished) = &mut step.event {
                    finished.started = Instant::from_nanos(random.next_u64());
                }
            }
            Entry::Sent(sent) => sent.ended = Instant::from_nanos(random.next_u64()),
            _ => {}
        }
    }
    traced(&recorded);
}

#[test]
fn a_full_disk_is_an_error() {
    let recorded = long_run();
    let mut room = [0_u8; 1_000];
    let file = recorded.file();
    let entries = Recording::of(&file).expect("a recording").entries();
    let failed = trace(entries, &recorded.setting, 0, &mut room[..]);
    assert!(matches!(failed, Err(TraceError::Write(_))), "{failed:?}");
}
