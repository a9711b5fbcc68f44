//! `punctual load`, against a daemon that serves.

use std::process::{Command, Output};

use serde_json::Value;

use crate::documented::root;
use crate::support::{Daemon, MANIFEST};

fn load(daemon: &Daemon, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.arg("load").arg("--socket").arg(daemon.socket());
    command.args(arguments).output().expect("it runs")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn every_frame_of_a_load_has_its_verdict_and_the_daemon_counts_the_same() {
    let daemon = Daemon::start(MANIFEST);
    let arguments = [
        "--seconds",
        "1",
        "--json",
        "--shape",
        "poisson",
        "--rate",
        "front=20",
    ];
    let output = load(&daemon, &arguments);
    let outcome = json(&output);
    let report = daemon.report_when(|report| report.clients.in_use == 0);
    let level = &outcome["levels"][0];
    assert_eq!(level["factor"], 1.0);
    for (task, reported) in report.tasks.iter().enumerate() {
        let of = |key: &str| level["tasks"][task][key].as_u64().expect("a count");
        assert_eq!(level["tasks"][task]["task"], reported.name.as_str());
        assert_eq!(of("submitted"), reported.submitted);
        assert_eq!(of("rejected"), reported.rejected.total());
        assert!(of("submitted") > 0 && of("lost") == 0, "{level}");
        let answered = of("on_time") + of("late") + of("without_deadline");
        assert_eq!(answered, reported.on_time + reported.late);
    }
    daemon.stop();
}

#[test]
fn a_sweep_ends_with_the_level_that_does_not_hold() {
    let daemon = Daemon::start(MANIFEST);
    // The second is far above what the queue holds.
    let arguments = [
        "--task",
        "front",
        "--seconds",
        "1",
        "--sweep",
        "0.5,300,400",
        "--limit",
        "0.5",
        "--json",
    ];
    let output = load(&daemon, &arguments);
    let outcome = json(&output);
    let levels = outcome["levels"].as_array().expect("levels");
    assert_eq!(levels.len(), 2, "{outcome}");
    assert_eq!(outcome["held"], 0.5);
    assert_eq!(output.status.code(), Some(0), "the first level held");
    daemon.stop();
}

#[test]
fn pictures_are_shown_instead_of_noise() {
    let daemon = Daemon::start(MANIFEST);
    let pictures = daemon.folder.path("pictures");
    std::fs::create_dir(&pictures).expect("a folder");
    let street = root().join("examples/street.jpg");
    std::fs::copy(street, pictures.join("1.jpg")).expect("a copy");
    let shown = pictures.to_str().expect("text");
    let output = load(
        &daemon,
        &["--seconds", "0.5", "--json", "--pictures", shown],
    );
    let submitted = &json(&output)["levels"][0]["tasks"][0]["submitted"];
    assert!(submitted.as_u64() > Some(0), "{output:?}");
    std::fs::write(pictures.join("2.png"), "no picture").expect("written");
    let output = load(&daemon, &["--seconds", "0.5", "--pictures", shown]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("2.png: it is no picture"), "{said}");
    daemon.stop();
}

#[test]
fn what_cannot_be_loaded_is_said_in_a_line() {
    let daemon = Daemon::start(MANIFEST);
    let unknown = load(&daemon, &["--task", "rear"]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(3), "{said}");
    assert!(
        said.contains("no task \"rear\"; it has front, watch"),
        "{said}"
    );
    let missing = load(&daemon, &["--shape", "file:/nowhere.txt"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(4), "{said}");
    assert!(said.contains("/nowhere.txt: No such file"), "{said}");
    daemon.stop();
}
