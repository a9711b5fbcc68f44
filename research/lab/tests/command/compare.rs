//! `punctual compare` and `punctual simulate`, as a user runs them.
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::Folder;

fn punctual(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_punctual-lab"))
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = punctual(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    rows.as_array().expect("an array").clone()
}

const SHORT: [&str; 6] = [
    "compare",
    "seeb-poisson",
    "--json",
    "--policies",
    "punctual,seeb,batch",
    "--loads=0.5,2",
];

#[test]
fn each_row_has_the_documented_keys_and_its_counts_add_up() {
    let rows = rows(&SHORT);
    assert_eq!(rows.len(), 6);
    let keys = [
        "workload",
        "policy",
        "load",
        "seed",
        "submitted",
        "missed",
        "late",
        "rejected",
        "failed",
        "lost",
        "told_early",
        "silent",
        "told_us",
        "accuracy",
        "accuracy_all",
        "accuracy_on_time",
        "accuracy_full_depth",
        "accuracy_bound",
        "latency_us",
        "goodput_per_s",
        "gpu_efficacy",
    ];
    for row in &rows {
        let mut found: Vec<&str> = row
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
        let mut wanted = keys.to_vec();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        let count = |key: &str| row[key].as_u64().expect("a count");
        let parts = count("late") + count("rejected") + count("failed") + count("lost");
        assert_eq!(count("missed"), parts);
        let known = count("told_early") + count("late") + count("silent");
        assert_eq!(count("missed"), known);
        assert!(count("submitted") > 1000 && count("lost") == 0, "{row}");
        let share = |key: &str| row[key].as_f64().expect("a share");
        assert!(
            share("accuracy_bound") <= 1.0 && share("accuracy_all") <= 1.0,
            "{row}"
        );
        let latency = |key: &str| row["latency_us"][key].as_f64().expect("a time");
        assert!(
            latency("p50") > 0.0 && latency("p50") <= latency("p99"),
            "{row}"
        );
        assert!(
            latency("p99") <= latency("p999") && latency("p999") <= latency("max"),
            "{row}"
        );
    }
    let requests = |row: &Value| (row["load"].as_f64(), row["submitted"].as_u64());
    assert_eq!(
        requests(&rows[0]),
        requests(&rows[2]),
        "the same requests for all"
    );
}

#[test]
fn rows_do_not_depend_on_the_number_of_jobs() {
    let with = |jobs: &str| {
        let mut arguments = SHORT.to_vec();
        arguments.extend(["--seeds=2", "--jobs", jobs]);
        rows(&arguments)
    };
    assert_eq!(with("1"), with("3"));
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let path = std::env::temp_dir().join(format!("punctual-page-{}.html", std::process::id()));
    let output = punctual(&[
        "compare",
        "robot",
        "--policies=punctual,seq",
        "--html",
        path.to_str().expect("a name of letters"),
    ]);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(&path).expect("the page");
    std::fs::remove_file(&path).expect("it was there");
    for part in [
        "What became of the requests",
        "Latencies at load 1",
        "punctual at load 1",
        "seq at load 1",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.matches("<svg").count() >= 2);
    assert!(
        !page.contains("against load") && !page.contains("against misses"),
        "an axis of a single load"
    );
    // It is attached to issues.
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    let bad = [
        (vec!["compare", "seeb-poison"], 3, "seeb-poisson"),
        (
            vec!["compare", "robot", "--policies", "punctul"],
            3,
            "punctual",
        ),
        (
            vec!["compare", "there-is-none.json"],
            4,
            "there-is-none.json",
        ),
        (vec!["compare", "robot", "--loads", "0"], 2, "0.001"),
        (vec!["compare", "robot", "--seeds", "0"], 2, "seeds"),
        (vec!["compare"], 2, "WORKLOAD"),
        (vec!["simulate", "--experiment", "none"], 3, "experiment"),
        (vec!["simulate", "robot", "--policy", "x"], 3, "clockwork"),
        (
            vec![
                "compare",
                "robot",
                "--policies=seq",
                "--html",
                "/no/such/folder/x.html",
            ],
            4,
            "folder",
        ),
    ];
    for (arguments, code, word) in bad {
        let output = punctual(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}

#[test]
fn one_run_in_depth_says_what_became_of_each_task() {
    let output = punctual(&["simulate", "robot", "--seconds", "2"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    for word in ["task", "utilisation", "exits"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    let output = punctual(&["simulate", "robot", "--seconds", "2", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let tasks = json["tasks"].as_array().expect("tasks");
    assert!(tasks.len() >= 3);
    for task in tasks {
        assert_eq!(task["summary"]["lost"], 0);
        assert!(task["summary"]["submitted"].as_u64() > Some(10), "{task}");
    }
}

#[test]
fn a_manifest_is_simulated_with_its_pipeline_as_it_would_be_served() {
    let folder = Folder::with_detector(
        r#"
[daemon]
board = "host"

[[partition]]
name = "main"
units = 1

[[task]]
name = "streets"
package = "streets.punctual"
rate_hz = 5
deadline_ms = 150
frame = { format = "rgb8", width = 640, height = 480 }

[[task]]
name = "signs"
package = "signs.punctual"
after = "streets"
crops = { at_most = 4, fit = "letterbox" }
"#,
    );
    let manifest = folder.path("manifest.toml");
    let manifest = manifest.to_str().expect("UTF-8");
    let output = punctual(&["simulate", manifest, "--seconds", "10", "--audit"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    assert!(
        complaint.contains("the auditor found nothing"),
        "{complaint}"
    );
    let mut queries = said
        .lines()
        .skip_while(|line| !line.starts_with("queries of"));
    let row = queries.find(|line| line.starts_with("streets"));
    let row: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
    let ["streets", queries, on_time, parts, parts_on_time] = row[..] else {
        panic!("{said}");
    };
    assert_eq!((queries, parts), (on_time, parts_on_time), "{said}");
    assert!(parts.parse::<u64>().expect("a count") > 50, "{said}");
}
