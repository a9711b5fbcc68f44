//! `punctual plan` as a process: what it prints, what it writes, how it terminates.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet.toml")
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder).expect("a folder for tests");
    folder.join(name)
}

fn plan(arguments: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-lab"));
    command.arg("plan").args(arguments);
    command.output().expect("the command runs")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn the_example_is_planned_and_drawn() {
    let picture = scratch("fleet.svg");
    let output = plan(&[&example(), Path::new("--svg"), &picture]);
    assert_eq!(code(&output), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("0 lights") && said.contains("125.0 ms"),
        "{said}"
    );
    let drawn = fs::read_to_string(&picture).expect("a picture");
    assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
}

#[test]
fn the_plan_is_json_for_machines_and_so_is_what_is_wrong() {
    let json = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let good = plan(&[&example(), Path::new("--json")]);
    assert_eq!(json(&good)["queries"][0]["name"], "cars");
    let file = scratch("bad-fleet.toml");
    fs::write(&file, "[[board]]\nname = \"a\"\n").expect("written");
    let bad = plan(&[&file, Path::new("--json")]);
    assert_eq!(code(&bad), Some(3), "{bad:?}");
    let problems = json(&bad)["problems"].as_array().map(Vec::len);
    assert!(problems >= Some(3), "{bad:?}");
}

#[test]
fn a_fleet_that_is_too_small_is_a_bad_result() {
    let file = scratch("small-fleet.toml");
    let text = fs::read_to_string(example()).expect("the example");
    fs::write(&file, text.replace("count = 3", "count = 1")).expect("written");
    let output = plan(&[&file]);
    assert_eq!(code(&output), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("no place"));
}

#[test]
fn a_file_that_is_not_there_is_said_to_be() {
    let output = plan(&[Path::new("/nowhere/fleet.toml")]);
    assert_eq!(code(&output), Some(4), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/fleet.toml"));
}
