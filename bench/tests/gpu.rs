//! `punctual bench gpu`, as a user runs it: on machines without a GPU, and on the emulated driver.
#![forbid(unsafe_code)]

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use emulated_cuda::{Config, ENVIRONMENT, Emulator};
use serde_json::Value;

/// Where results go, in a folder that the tests of this package share.
fn out(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-gpu-{name}"))
}

fn bench_gpu(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual-bench"))
        .args(["gpu"])
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
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let bounds = report["bounds"].as_array().expect("a list");
    assert!(bounds.len() > 10);
    for bound in bounds {
        assert_eq!(bound["verdict"], "not_measured", "{bound}");
    }
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page");
    assert!(page.contains("What it must reach"));
}

#[test]
fn predictions_need_no_gpu_and_are_the_same_on_a_page_and_for_a_machine() {
    let output = bench_gpu(&["--predict"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let page = String::from_utf8(output.stdout).expect("text");
    assert!(page.starts_with("# Stage times on a GPU, predicted"));
    let output = bench_gpu(&["--predict", "--json"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stages = json["stages"].as_array().expect("a list");
    for stage in stages {
        let us = stage["us"].as_f64().expect("a number");
        let limit = stage["limit"].as_str().expect("a word");
        assert!(page.contains(&format!("{us:.0} {limit}")), "{stage}");
    }
    for device in json["devices"].as_array().expect("a list") {
        for fact in device["facts"].as_array().expect("a list") {
            let source = fact["source"].as_str().expect("a name");
            assert!(page.contains(&format!("- `{source}`: ")), "{source}");
        }
    }
}

/// The command with tiny sizes on an emulated GPU.
fn emulated(arguments: &[&str], folder: &Path) -> Output {
    let config = Config {
        tpcs: 4,
        ..Config::default()
    };
    emulated_as(&config, arguments, folder)
}

fn emulated_as(config: &Config, arguments: &[&str], folder: &Path) -> Output {
    let library = Emulator::library_folder(config).expect("the driver that was built");
    Command::new(env!("CARGO_BIN_EXE_punctual-bench"))
        .args(["gpu", "--quick", "--out"])
        .arg(folder)
        .args(arguments)
        .env("LD_LIBRARY_PATH", library)
        .env(ENVIRONMENT, config.to_string())
        .output()
        .expect("the command starts")
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("the report");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn on_an_emulated_gpu_every_step_runs_and_the_report_says_that_times_mean_nothing() {
    let folder = out("emulated");
    // Left by a run of before.
    let _ = std::fs::remove_dir_all(&folder);
    let output = emulated(&[], &folder);
    let said = complaint(&output);
    let report = json(&folder.join("report.json"));
    for step in report["steps"].as_array().expect("a list") {
        assert!(step["outcome"]["failed"].is_null(), "{step}\n{said}");
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(report["emulated"], true);
    for bound in report["bounds"].as_array().expect("a list") {
        let of_time = bound["of_time"] == true;
        assert!(!of_time || bound["verdict"] == "not_measured", "{bound}");
        assert_ne!(bound["verdict"], "missed", "{bound}");
    }
    let compared = report["steps"].as_array().expect("a list").iter();
    let compared = compared.filter_map(|step| step["outcome"]["measured"]["compared"].as_array());
    let compared: Vec<&Value> = compared.flatten().collect();
    assert!(compared.len() >= 3, "{compared:?}");
    for beside in compared {
        assert!(beside["measured_us"].as_f64() > Some(0.0), "{beside}");
        assert!(beside["predicted"].is_null(), "{beside}");
        assert_eq!(beside["why"], "emulated: no prediction");
    }
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page");
    assert!(page.contains("<h1 class=\"warning\">emulated: times mean nothing</h1>"));
    assert!(page.contains("Measured beside predicted"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("MEASURED BESIDE PREDICTED"), "{text}");
    assert!(page.contains("<svg"));

    // All of it is there: the second run measures nothing, and one step again changes one file.
    let second = emulated(&["--again", "memory"], &folder);
    let said = complaint(&second);
    let steps = report["steps"].as_array().expect("a list");
    let measured = |step: &&Value| !step["outcome"]["measured"].is_null();
    let kept = steps.iter().filter(measured).count() - 1;
    assert!(kept >= 6, "{said}");
    assert_eq!(said.matches("has a result").count(), kept, "{said}");
}

#[test]
fn frames_that_lie_in_registered_memory_are_prepared_without_a_copy_and_others_with_one() {
    let folder = out("frames");
    // Left by a run of before.
    let _ = std::fs::remove_dir_all(&folder);
    let output = emulated(&["--only", "frames"], &folder);
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = json(&folder.join("report.json"));
    let mut steps = report["steps"].as_array().expect("a list").iter();
    let step = steps.find(|step| step["step"] == "frames");
    let measured = &step.expect("it ran")["outcome"]["measured"];
    let table = &measured["tables"][0];
    let headings = table["headings"].as_array().expect("a list");
    let copied = headings.iter().position(|of| of == "copied, KB");
    let copied = copied.expect("a column");
    let rows = table["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 6, "{table}");
    for row in rows {
        let is_copied = row[copied] != "0";
        assert_eq!(is_copied, row[1] == "the GPU, from a copy", "{row}");
    }
}

fn first_light(path: &Path) -> Value {
    let bytes = std::fs::read(path).expect("the report");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_string(&mut text)
        .expect("compressed text");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn without_a_gpu_first_light_says_so_and_what_to_do_and_writes_nothing() {
    let file = out("first-none.json.gz");
    let output = bench_gpu(&["--first", "--file", file.to_str().expect("a path")]);
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("There is no GPU") && said.contains("Jetson"),
        "{said}"
    );
    assert!(!file.exists());
}

/// Each step ran, with readings of a clock that stood still while it was measured, and its verdict is one that an
/// emulated driver allows.
fn check_steps(report: &Value) {
    for step in report["steps"].as_array().expect("a list") {
        let name = step["step"].as_str().expect("a name");
        let measured = &step["outcome"]["measured"];
        // Trials need the program `punctual`, which other packages build.
        if name == "isolation" && step["verdict"] == "not_measured" {
            continue;
        }
        assert!(measured.is_object(), "{step}");
        let clocks = measured["clocks"].as_array().expect("a list");
        assert!(clocks.len() >= 4, "idle, before, during, after: {step}");
        assert_eq!(clocks[0]["gpu_mhz"], 345.0, "nobody had a context: {step}");
        if !["calibration", "known-answers", "resumption"].contains(&name) {
            let moved = clocks[1..].iter().any(|clock| clock["gpu_mhz"] != 1980.0);
            assert!(!moved, "{step}");
        }
        let expected = match name {
            "calibration" => &["proven", "open"][..],
            "known-answers" => &["proven"],
            "resumption" => &["proven", "open"],
            _ => &["no_time"],
        };
        let verdict = step["verdict"].as_str().expect("a word");
        assert!(expected.contains(&verdict), "{step}");
        let samples = measured["finding"]["samples"].as_array().expect("a list");
        let samples_expected = !["calibration", "known-answers"].contains(&name);
        assert_eq!(!samples.is_empty(), samples_expected, "{step}");
    }
}

#[test]
fn on_an_emulated_gpu_first_light_runs_whole_and_says_that_driver_and_device_are_emulated() {
    let file = out("first.json.gz");
    let root = out("first-root");
    for path in [&file, &root] {
        // Left by a run of before.
        let _ = std::fs::remove_file(path);
        let _ = std::fs::remove_dir_all(path);
    }
    let clock = root.join("sys/class/devfreq/17000000.gpu");
    std::fs::create_dir_all(&clock).expect("a folder");
    let clock = clock.join("cur_freq");
    std::fs::write(&clock, "345000000\n").expect("a file");
    // Like the clock of a card whose clocks are not locked: it is up as long as any process has a context.
    let config = Config {
        tpcs: 4,
        clock_file: Some(clock.to_str().expect("a path").to_owned()),
        ..Config::default()
    };
    let (path, root) = (
        file.to_str().expect("a path"),
        root.to_str().expect("a path"),
    );
    let arguments = ["--first", "--file", path, "--root", root];
    let output = emulated_as(&config, &arguments, &out("first-work"));
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("WARNING: emulated"), "{text}");

    let report = first_light(&file);
    assert_eq!(report["machine"]["emulated"], true);
    let warning = report["warnings"][0].as_str().expect("words");
    assert!(
        warning.contains("no GPU") && warning.contains("time says nothing"),
        "{warning}"
    );
    check_steps(&report);
    let made_by = &report["made_by"];
    assert_eq!(made_by["programs"][0]["name"], "punctual-bench");
    assert_eq!(
        made_by["programs"][0]["hash"].as_str().map(str::len),
        Some(64)
    );
    for image in made_by["images"].as_array().expect("a list") {
        assert_eq!(image["as_built"], true, "{image}");
    }

    // There is one GPU, and the report is kept.
    let other = emulated(&["--first", "--device", "3"], &out("first-work"));
    assert_eq!(other.status.code(), Some(5));
    assert!(complaint(&other).contains("the driver has 1"));
    let again = emulated(&arguments, &out("first-work"));
    assert_eq!(again.status.code(), Some(4));
    assert!(complaint(&again).contains("there already"));
    assert_eq!(first_light(&file), report);
}

#[test]
fn first_light_on_a_gpu_whose_launches_fail_is_bad_and_the_file_says_why() {
    let file = out("first-wrong.json.gz");
    // Left by a run of before.
    let _ = std::fs::remove_file(&file);
    let path = file.to_str().expect("a path");
    // In each step's process the first launch fails.
    let config = Config {
        tpcs: 2,
        launch_faults: vec![emulated_cuda::LaunchFault {
            nth: 0,
            code: Some(719),
        }],
        ..Config::default()
    };
    let output = emulated_as(&config, &["--first", "--file", path], &out("first-work"));
    let said = complaint(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report = first_light(&file);
    let steps = report["steps"].as_array().expect("a list");
    assert_eq!(steps.len(), 8);
    let answers = &steps[1];
    assert_eq!(answers["verdict"], "failed", "{answers}");
}
