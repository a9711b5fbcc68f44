//! The comparison with loops around ONNX Runtime, briefly: that every camera's frames are counted on both sides, not who is faster.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Turns that are over soon; the networks are measured before the first one on a machine.
fn bench(further: &[&str]) -> Output {
    let turns = ["--loads", "1", "--seconds", "0.4", "--turns", "1", "--json"];
    let mut bench = Command::new(env!("CARGO_BIN_EXE_punctual-bench"));
    let bench = bench.arg("beside").args(turns).args(further);
    bench.output().expect("it runs")
}

/// False, with a word on why, where the daemon cannot run.
fn can_run() -> bool {
    let daemon = Path::new(env!("CARGO_BIN_EXE_punctual-bench")).with_file_name("punctuald");
    let cores = punctual_platform::affinity::available_cores().unwrap_or_default();
    let reason = if !daemon.exists() {
        "punctuald is not built"
    } else if cores.len() < 2 {
        "it needs two cores"
    } else {
        return true;
    };
    eprintln!("not measured: {reason}");
    false
}

fn rows(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["rows"].as_array().expect("rows").clone()
}

/// Of 0.4 s at 30, 60 and 10 frames a second.
fn has_all_frames(row: &Value) {
    assert_eq!(row["frames"], 12 + 24 + 4, "{row}");
    let counted = ["on_time", "late", "not_answered"].map(|of| row[of].as_u64().expect("a count"));
    assert_eq!(counted.iter().sum::<u64>(), 40, "{row}");
    assert!(row["score"]["mean"].as_f64() <= Some(1.0), "{row}");
}

#[test]
fn the_daemon_alone_needs_no_onnx_runtime() {
    if !can_run() {
        return;
    }
    let rows = rows(&bench(&["--only", "punctual"]));
    assert_eq!(rows.len(), 1, "{rows:?}");
    has_all_frames(&rows[0]);
}

#[test]
fn loops_of_each_kind_answer_the_frames_of_all_cameras() {
    if punctual_device_ort::named().is_none() {
        let variable = punctual_device_ort::PATH_VARIABLE;
        eprintln!("not measured: {variable} names no ONNX Runtime");
        return;
    }
    if !can_run() {
        return;
    }
    let rows = rows(&bench(&["--only", "adaptive,rate-monotonic,edf-first"]));
    let names: Vec<&Value> = rows.iter().map(|row| &row["contestant"]).collect();
    assert_eq!(names, ["rate-monotonic", "edf-first", "adaptive"]);
    let answers = |row: &Value| -> Vec<u64> {
        let exits = row["exits"].as_array().expect("counts by exit").iter();
        exits
            .map(|count| count.as_u64().expect("a count"))
            .collect()
    };
    for row in &rows {
        has_all_frames(row);
        assert!(
            row["best_effort_per_s"]["mean"].as_f64() > Some(0.0),
            "{row}"
        );
    }
    assert_eq!(answers(&rows[0]).len(), 3, "full depth: {}", rows[0]);
    assert_eq!(answers(&rows[1]).len(), 1, "the first exit: {}", rows[1]);
}

#[test]
fn without_onnx_runtime_it_says_what_to_install() {
    let output = bench(&["--onnxruntime", "/nowhere/libonnxruntime.so"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("/nowhere/libonnxruntime.so"), "{words}");
    assert!(words.contains("pip install onnxruntime"), "{words}");
}
