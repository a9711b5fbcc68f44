//! `punctual explain`, of a file that `punctual simulate` wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

fn punctual(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    let command = command.current_dir(folder).args(line.split(' '));
    command.output().expect("it runs")
}

fn recorded(folder: &Path) {
    let line = "simulate robot --load 6 --seconds 5 --record robot.mcap";
    let simulated = punctual(folder, line);
    assert_eq!(simulated.status.code(), Some(0), "{simulated:?}");
}

fn json(folder: &Path, line: &str) -> Value {
    let output = punctual(folder, line);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_frame_of_a_list_is_explained_by_its_name() {
    let folder = folder("explained");
    recorded(&folder);
    let found = json(&folder, "explain robot.mcap --rejected --json");
    let stories = found["stories"].as_array().expect("a list");
    let no_slack = stories.iter().find(|story| story["reason"] == "no-slack");
    let frame = no_slack.expect("the load is six times the plan's")["frame"].as_str();
    let line = format!("explain robot.mcap {}", frame.expect("a name"));
    let output = punctual(&folder, &line);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        text.contains("rejected (no-slack)") && text.contains("holds it"),
        "{text}"
    );
    let same = json(&folder, &format!("{line} --json"));
    assert_eq!(same["stories"][0]["frame"].as_str(), frame);

    let slowest = json(&folder, "explain robot.mcap --slowest 3 --json");
    assert_eq!(slowest["stories"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_cut_file_is_explained_as_far_as_it_goes_and_others_are_refused() {
    let folder = folder("explained-cut");
    recorded(&folder);
    let code = |line: &str| punctual(&folder, line).status.code();
    assert_eq!(code("explain robot.mcap robot/9/1"), Some(1));
    assert_eq!(code("explain robot.mcap robot"), Some(2));
    assert_eq!(code("explain robot.mcap --late --rejected"), Some(2));
    let file = folder.join("robot.mcap");
    let whole = fs::read(&file).expect("it was written");
    fs::write(&file, &whole[..whole.len() / 2]).expect("a test folder");
    let found = json(&folder, "explain robot.mcap --json");
    assert!(found["summary"]["cut"].is_string(), "{found}");
    assert!(found["summary"]["steps"].as_u64() > Some(100), "{found}");
    fs::write(&file, "no recording").expect("a test folder");
    assert_eq!(code("explain robot.mcap"), Some(3));
    assert_eq!(code("explain missing.mcap"), Some(4));
}
