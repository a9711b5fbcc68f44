//! An incident, from the frame that was late to the plan under which it would not have been.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_insight::explain::{Ask, Story, explain};
use punctual_ipc::PixelFormat;
use punctual_platform::clock;
use punctual_recording::Recording;
use serde_json::Value;

use crate::support::{Daemon, Folder, LIMIT, MANIFEST, connect, result, submit};

const DEADLINE_MS: u64 = 40;

/// For longer than that, the machine runs none of the daemon's threads: a stage that runs then takes so long. After 100 ms it would
/// count as lost.
const STOPPED_NS: u64 = 60_000_000;

/// The steps in which the moment of the stop is varied: a frame takes a few milliseconds.
const MOMENT_NS: u64 = 100_000;
const MOMENTS: u64 = 40;

fn manifest(recorder: &str, deadline_ms: u64) -> String {
    // All stages are mandatory: no answer of an early one is on time.
    let deadline = format!("deadline_ms = {deadline_ms}\nmandatory_exit = 2\nanswers = \"final\"");
    recorder.to_owned() + &MANIFEST.replacen("deadline_ms = 500", &deadline, 1)
}

fn lab(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-lab"));
    let output = command.args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The newest black box, once there is one that was written after the last.
fn black_box(daemon: &Daemon, after: u64) -> PathBuf {
    let written = |daemon: &Daemon| daemon.report().recorder.expect("it records");
    let limit_ns = clock::now_ns() + LIMIT.as_nanos() as u64;
    while written(daemon).written <= after {
        assert!(clock::now_ns() < limit_ns, "nothing is written");
    }
    written(daemon).last.expect("one is written")
}

fn late(file: &Path) -> Vec<Story> {
    let bytes = fs::read(file).expect("a file");
    let recording = Recording::of(&bytes).expect("a recording");
    let setting = recording.setting().expect("it has one");
    let found = explain(recording.entries(), &setting, &Ask::Late).expect("readable");
    found.stories
}

/// Stops the daemon in the middle of a frame's way, this long after it was submitted.
fn stop(daemon: &Daemon, client: &mut punctual_ipc::ClientChannel, after_ns: u64) {
    submit(client);
    let at_ns = clock::now_ns() + after_ns;
    while clock::now_ns() < at_ns {}
    let process = Pid::from_raw(daemon.pid() as i32);
    kill(process, Signal::SIGSTOP).expect("it runs");
    clock::sleep_until_ns(clock::now_ns() + STOPPED_NS);
    kill(process, Signal::SIGCONT).expect("it is stopped");
    result(client);
}

#[test]
fn a_stage_that_took_too_long_is_named_replayed_and_on_time_under_another_plan() {
    let folder = Folder::with("");
    let directory = folder.path("recordings");
    let recorder = format!("[recorder]\ndirectory = {directory:?}\n");
    folder.write("manifest.toml", manifest(&recorder, DEADLINE_MS).as_bytes());
    folder.write("fixed.toml", manifest("", 5 * DEADLINE_MS).as_bytes());
    let daemon = Daemon::start_in(folder);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    for moment in 0..MOMENTS {
        stop(&daemon, &mut client, moment * MOMENT_NS);
    }
    daemon.signal("USR2");
    let mut written = 0;
    let (file, story) = loop {
        let file = black_box(&daemon, written);
        let is_of_stage = |story: &&Story| {
            let broken = story.broken();
            broken.is_some_and(|part| part.name.starts_with("stage"))
        };
        if let Some(story) = late(&file).iter().find(is_of_stage) {
            break (file, story.clone());
        }
        written += 1;
    };
    let broken = story.broken().expect("it was looked for");
    let over = broken.over_ns.expect("it has a bound").as_nanos();
    assert!(over > STOPPED_NS / 2, "{broken:?}");

    let file = file.to_str().expect("a path in UTF-8");
    let replayed = lab(&["replay", file, "--json"]);
    assert!(replayed["steps"].as_u64() > Some(50), "{replayed}");
    let fixed = daemon.folder.path("fixed.toml");
    let fixed = fixed.to_str().expect("a path in UTF-8");
    let what_if = lab(&["replay", file, "--manifest", fixed, "--json"]);
    let late = |side: &str| what_if[side]["late"].as_u64().expect("a count");
    // Where the machine stood still for longer than it was stopped, a frame may be late in any case.
    assert!(late("what_if") * 2 < late("recorded"), "{what_if}");
    let front = &what_if["tasks"][0]["what_if"];
    assert!(front["on_time"].as_u64() > Some(0), "{what_if}");
    drop(client);
    daemon.stop();
}
