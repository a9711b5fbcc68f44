//! The demo, run as a stranger runs it. Tens of seconds of real time, so only on request:
//! `cargo test --release -p punctual --test demo -- --ignored --test-threads 1`.
#![forbid(unsafe_code)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use punctual_core::Action;
use punctual_plan::Policies;
use punctual_recording::replay::replay;
use punctual_recording::{Entry, Recording};
use serde_json::Value;

/// Share of a real-time task's frames that may be late beyond the stalls that the probe saw. The promise is zero,
/// and the demo on an idle machine keeps it; continuous integration runs on machines with unknown neighbours.
const LATE_SHARE_MAX: f64 = 0.01;
/// Times the cameras' rates: more than a machine can answer in full that is several times as fast as those that
/// this was written on.
const TOO_MUCH: &str = "24";

fn demo(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .arg("demo")
        .args(arguments)
        .arg("--json")
        .output()
        .expect("the demo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    eprintln!("{text}");
    serde_json::from_str(&text).expect("one JSON object on standard output")
}

fn count(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} is a count in {value}"))
}

fn task<'a>(result: &'a Value, name: &str) -> &'a Value {
    let tasks = result["tasks"].as_array().expect("a list of tasks");
    tasks
        .iter()
        .find(|task| task["name"] == name)
        .expect("the task is there")
}

fn assert_every_frame_has_its_verdict(task: &Value) {
    let verdicts = ["on_time", "late", "without_deadline", "rejected", "failed"];
    let verdicts = verdicts.map(|key| count(task, key));
    assert_eq!(
        verdicts.iter().sum::<u64>(),
        count(task, "submitted"),
        "{task}"
    );
    assert_eq!(count(task, "lost"), 0, "{task}");
    let exits = task["exits"].as_array().expect("counts by exit");
    let answers: u64 = exits.iter().map(|n| n.as_u64().expect("a count")).sum();
    assert_eq!(answers, verdicts[..3].iter().sum::<u64>(), "{task}");
}

/// Mean exit of a task's answers, 0 being the first.
fn depth(task: &Value) -> f64 {
    let exits = task["exits"].as_array().expect("counts by exit");
    let counts: Vec<f64> = exits.iter().map(|n| n.as_f64().expect("a count")).collect();
    let sum: f64 = counts
        .iter()
        .enumerate()
        .map(|(exit, n)| exit as f64 * n)
        .sum();
    sum / counts.iter().sum::<f64>().max(1.0)
}

#[test]
#[ignore = "real time: run by .ci/run"]
fn at_the_default_load_every_frame_is_answered_and_on_time() {
    let seconds = 4.0;
    let result = demo(&["--seconds", "4"]);
    assert_eq!(result["seconds"], seconds);
    assert_eq!(result["board"], "host");
    assert!(
        result["device"]
            .as_str()
            .is_some_and(|device| device.starts_with("cpu"))
    );
    assert_eq!(count(&result, "allocations_after_ready"), 0);
    for key in [
        "host_stalls",
        "allocations_elsewhere",
        "page_faults_after_ready",
    ] {
        count(&result, key);
    }
    for key in ["p50", "p99", "max"] {
        assert!(result["decision_us"][key].is_number(), "{key}");
    }
    for (name, rate) in [("signs", 30.0), ("signs-fast", 60.0), ("streets", 10.0)] {
        let task = task(&result, name);
        assert_eq!(task["criticality"], "real-time");
        assert_every_frame_has_its_verdict(task);
        let sent = count(task, "submitted") as f64 / (rate * seconds);
        assert!(
            (0.9..=1.1).contains(&sent),
            "{name} sent {sent} of its frames"
        );
        let excused = count(task, "late_in_host_stall");
        let late = count(task, "late") - excused;
        let share = late as f64 / count(task, "submitted") as f64;
        assert!(
            share <= LATE_SHARE_MAX,
            "{name}: {late} late, {excused} more in stalls"
        );
        let right = if name == "streets" {
            task["map50"].as_f64().expect("boxes have a precision")
        } else {
            task["accuracy"].as_f64().expect("classes have an accuracy")
        };
        assert!(right > 0.6, "{name} guesses: {right}");
        for key in ["p50", "p99", "p999", "max"] {
            assert!(count(&task["latency_us"], key) > 0, "{key}");
        }
    }
    let watch = task(&result, "watch");
    assert_eq!(watch["criticality"], "best-effort");
    assert_every_frame_has_its_verdict(watch);
    // It has no deadline to keep.
    assert!(count(watch, "without_deadline") > 0, "{watch}");
    assert_eq!((count(watch, "on_time"), count(watch, "late")), (0, 0));
}

#[test]
#[ignore = "real time: run by .ci/run"]
fn a_recording_of_the_demo_decides_the_same_and_has_every_frame() {
    let name = format!("punctual-demo-{}.mcap", std::process::id());
    let file = std::env::temp_dir().join(name);
    let path = file.to_str().expect("a path in UTF-8");
    let result = demo(&["--seconds", "3", "--overload", "16", "--record", path]);
    let bytes = std::fs::read(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it is there");
    let recording = Recording::of(&bytes).expect("a recording");
    let setting = recording.setting().expect("it has one");
    let policy = Policies::shipped().written(&setting.policy);
    let policy = policy.expect("the demo's policy ships");
    let done = replay(recording.entries(), &setting.config, &policy).expect("it decides the same");
    assert_eq!((done.lost, done.skipped), (0, 0), "{done:?}");
    let is_verdict = |action: &Action| matches!(action, Action::Reply(_));
    let verdicts: usize = recording
        .entries()
        .map(|entry| match entry {
            Ok(Entry::Step(step)) => step.actions.iter().filter(|it| is_verdict(it)).count(),
            _ => 0,
        })
        .sum();
    let tasks = result["tasks"].as_array().expect("a list of tasks");
    let submitted: u64 = tasks.iter().map(|task| count(task, "submitted")).sum();
    assert_eq!(verdicts as u64, submitted);
}

#[test]
#[ignore = "real time: run by .ci/run"]
fn in_overload_real_time_answers_get_shallower_or_are_refused_early_and_best_effort_yields() {
    let calm = demo(&["--seconds", "3"]);
    let busy = demo(&["--seconds", "3", "--overload", TOO_MUCH]);
    for name in ["signs", "signs-fast", "streets", "watch"] {
        assert_every_frame_has_its_verdict(task(&busy, name));
    }
    for name in ["signs", "signs-fast", "streets"] {
        let (calm, busy) = (task(&calm, name), task(&busy, name));
        assert!(
            count(busy, "on_time") > count(calm, "on_time"),
            "{name} answers more: {busy}"
        );
        assert!(
            count(busy, "rejected") > 0 || depth(busy) < depth(calm),
            "{name} gives way: {busy}"
        );
    }
    let answered = |result| count(task(result, "watch"), "without_deadline");
    assert!(answered(&busy) < answered(&calm), "watch yields: {busy}");
}

#[test]
#[ignore = "real time: run by .ci/run"]
fn a_page_shows_the_same_frames_at_both_loads() {
    let name = format!("punctual-demo-page-{}.html", std::process::id());
    let path = std::env::temp_dir().join(name);
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["demo", "--seconds", "6", "--overload", TOO_MUCH, "--html"])
        .arg(&path)
        .output()
        .expect("the demo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let page = std::fs::read_to_string(&path).expect("it was written");
    let _ = std::fs::remove_file(&path);
    for camera in ["signs: ", "signs-fast: ", "streets: ", "watch: "] {
        assert_eq!(
            page.matches(&format!("<h2>{camera}")).count(),
            1,
            "{camera}"
        );
    }
    // Three cameras with a rate, at two loads.
    assert_eq!(page.matches(" frames/s: ").count(), 6);
    assert!(page.contains("10 frames/s: "));
    // Four of each camera at each load; a camera in overload may not have come to its last ones.
    assert!((28..=32).contains(&page.matches("data:image/jpeg").count()));
    assert!(page.contains("exit 1 of 3") && page.contains("stroke=\"#00e08a\""));
}

/// Stops the demo as Ctrl-C does, once its cameras have been heard of.
#[test]
#[ignore = "real time: run by .ci/run"]
fn an_interrupted_demo_says_what_there_was_at_the_rates_that_there_were() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["demo", "--seconds", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the demo starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut next = || lines.next().map(|line| line.expect("text"));
    // The first table comes seconds after the first frame.
    while !next().expect("a table").starts_with("watch") {}
    let demo = Pid::from_raw(child.id() as i32);
    kill(demo, Signal::SIGINT).expect("it is still there");
    let closing: Vec<String> = std::iter::from_fn(next).collect();
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{closing:#?}");
    let (heading, _) = closing
        .iter()
        .find_map(|line| line.split_once(" s on board"))
        .expect("a heading");
    let seconds = heading
        .strip_prefix("interrupted after ")
        .expect("so it was");
    let digits = seconds
        .split_once('.')
        .map_or(0, |(_, digits)| digits.len());
    assert!(
        seconds.parse::<f64>().is_ok_and(|s| s < 60.0) && digits <= 1,
        "{seconds}"
    );
    // A table that is wider than the terminal goes on below: the part with the rates is meant.
    let heading = closing.iter().rposition(|line| line.contains("rate/s"));
    let rows = &closing[heading.expect("a table of rates")..];
    for (name, rate) in [("signs ", 30.0), ("signs-fast ", 60.0)] {
        let row = rows.iter().find(|line| line.starts_with(name));
        let row = row.expect("a row");
        let shown: f64 = row
            .split_whitespace()
            .nth(1)
            .and_then(|rate| rate.parse().ok())
            .expect("a rate");
        assert!((shown / rate - 1.0).abs() < 0.1, "{row}");
    }
}

#[test]
fn a_bad_option_is_named_and_ends_with_the_usage_code() {
    for (option, value) in [
        ("--seconds", "0"),
        ("--seconds", "NaN"),
        ("--overload", "-1"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["demo", &format!("{option}={value}")])
            .output()
            .expect("the command starts");
        assert_eq!(output.status.code(), Some(2), "{option} {value}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(option));
    }
}
