//! `punctual bench gpu`, as a user runs it on machines without a GPU.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, Output};

/// Where results go, in a folder that the tests of this package share.
fn out(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-gpu-{name}"))
}

fn bench_gpu(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["bench", "gpu"])
        .args(arguments)
        // Whatever GPU is there: these tests are about none.
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .expect("the command starts")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_a_gpu_it_says_so_and_leaves_nothing_behind() {
    let folder = out("none");
    let output = bench_gpu(&["--out", folder.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(5), "{}", complaint(&output));
    assert!(complaint(&output).contains("Nothing was measured"));
    assert!(!folder.exists());
}

#[test]
fn steps_are_listed_without_a_gpu() {
    let output = bench_gpu(&["--list"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.starts_with("STEPS") && text.contains("  memory "),
        "{text}"
    );
}

#[test]
fn a_step_that_does_not_exist_is_refused() {
    let output = bench_gpu(&["--only", "speed"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(complaint(&output).contains("no step `speed`"));
}

#[test]
fn a_report_of_nothing_has_every_bound_as_not_measured() {
    let folder = out("empty");
    // Left by a run of before.
    let _ = std::fs::remove_dir_all(&folder);
    let output = bench_gpu(&[
        "--report",
        "--json",
        "--out",
        folder.to_str().expect("a path"),
    ]);
    assert!(output.status.success(), "{}", complaint(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let bounds = report["bounds"].as_array().expect("a list");
    assert!(bounds.len() > 10);
    for bound in bounds {
        assert_eq!(bound["verdict"], "not_measured", "{bound}");
    }
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page");
    assert!(page.contains("What it must reach"));
}
