//! `punctual bench start`, briefly: that a start is followed from ready to the first answers, not how fast.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn a_start_is_followed_until_each_task_is_answered_and_all_is_loaded() {
    let bench = Path::new(env!("CARGO_BIN_EXE_punctual-bench"));
    for program in ["punctual", "punctuald"] {
        if !bench.with_file_name(program).exists() {
            return eprintln!("not measured: {program} is not built");
        }
    }
    let arguments = "start --workloads demo --caches warm --rounds 1 --json";
    let output = Command::new(bench).args(arguments.split(' ')).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    let ms = |moment: &str| {
        let row = rows.iter().find(|row| row["moment"] == moment);
        row.and_then(|row| row["ours"]["p50"].as_f64())
            .unwrap_or_else(|| panic!("{moment}: {report}"))
    };
    assert!(ms("ready") > 0.0 && ms("ready") <= ms("over"), "{report}");
    assert!(ms("signs-fast ready") <= ms("signs-fast first"), "{report}");
}
