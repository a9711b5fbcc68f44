//! `punctual bench answers`, briefly: that every form is measured on each side, not how fast it is.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn every_form_is_measured_beside_a_copy_and_both_tasks_through_a_daemon() {
    let bench = env!("CARGO_BIN_EXE_punctual-bench");
    let daemon = Path::new(bench).with_file_name("punctuald");
    let turns = if daemon.exists() {
        "1"
    } else {
        eprintln!("without the channel: {} is not built", daemon.display());
        "0"
    };
    let arguments = ["answers", "--rounds", "2", "--seconds", "1", "--json"];
    let output = Command::new(bench)
        .args(arguments)
        .args(["--rate", "5", "--turns", turns])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = |part: &str| report[part].as_array().expect("rows").clone();
    let forms = rows("forms");
    assert!(forms.len() >= 3 * 7, "{forms:?}");
    for row in forms.iter().chain(&rows("channel")) {
        assert!(row["samples"].as_u64() >= Some(1), "{row}");
        assert!(row["p50_us"].as_f64() <= row["max_us"].as_f64(), "{row}");
    }
    let written: Vec<&Value> = forms.iter().filter(|row| !row["ratio"].is_null()).collect();
    assert!(written.len() >= 7, "{written:?}");
    assert_eq!(rows("channel").is_empty(), turns == "0");
}
