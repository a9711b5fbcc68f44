//! `punctual-lab simulate --record` and `replay`, as they are typed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A fresh folder of Cargo's for this.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-lab"));
    let command = command.current_dir(folder).args(arguments);
    command.output().expect("it runs")
}

fn recorded(folder: &Path, workload: &[&str]) {
    let simulate = [&["simulate"], workload, &["--record", "run.mcap"]].concat();
    let output = lab(folder, &simulate);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_is_simulated_is_recorded_and_decides_the_same_again() {
    let folder = folder("replay-same");
    let workloads: [&[&str]; 3] = [
        &["robot", "--seconds", "3"],
        &["seeb-poisson", "--seconds", "1", "--policy", "seeb"],
        &["disb-a", "--seconds", "1", "--policy", "clockwork"],
    ];
    for workload in workloads {
        recorded(&folder, workload);
        let output = lab(&folder, &["replay", "run.mcap", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(report["steps"].as_u64() > Some(100), "{report}");
        assert!(report["actions"].as_u64() > Some(100), "{report}");
        assert_eq!(report["cut"], Value::Null, "{report}");
    }
}

#[test]
fn a_file_that_was_cut_off_is_replayed_as_far_as_it_goes_and_no_recording_is_refused() {
    let folder = folder("replay-cut");
    recorded(&folder, &["robot", "--seconds", "3"]);
    let file = folder.join("run.mcap");
    let whole = fs::read(&file).expect("it was written");
    fs::write(&file, &whole[..whole.len() / 2]).expect("a test folder");
    let output = lab(&folder, &["replay", "run.mcap"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the file was cut off"), "{text}");
    fs::write(&file, "no recording").expect("a test folder");
    let output = lab(&folder, &["replay", "run.mcap"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let output = lab(&folder, &["replay", "missing.mcap"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}
