//! `punctual bench prefix`, briefly: that networks which begin alike are served in batches of one network and of all, not how fast.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
#[ignore = "a minute, most of it pauses of the measurement: run by `just prefix`"]
fn eight_networks_share_batches_together_and_not_apart() {
    let bench = Path::new(env!("CARGO_BIN_EXE_punctual-bench"));
    for program in ["punctual", "punctuald"] {
        if !bench.with_file_name(program).exists() {
            return eprintln!("not measured: {program} is not built");
        }
    }
    let arguments =
        "prefix --families mobilenet_v2 --networks 8 --side 32 --seconds 1 --turns 1 --json";
    let output = Command::new(bench).args(arguments.split(' ')).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figure = |name: &str, side: usize| rows[0][name][side].as_f64().expect("a figure");
    assert!(
        figure("answers_hz", 0) > 0.0 && figure("answers_hz", 1) > 0.0,
        "{rows}"
    );
    // Each has one frame of eight open.
    assert!(
        figure("batch", 0) < 1.5 && figure("batch", 1) > 2.0,
        "{rows}"
    );
    assert!(figure("memory_mb", 1) > 0.0, "{rows}");
}
