//! `punctual bench paging`, briefly: that one client gets its verdicts of many networks of a folder, not how fast.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn a_few_networks_in_a_third_of_their_pages_lose_nothing() {
    let bench = Path::new(env!("CARGO_BIN_EXE_punctual-bench"));
    for program in ["punctual", "punctuald"] {
        if !bench.with_file_name(program).exists() {
            return eprintln!("not measured: {program} is not built");
        }
    }
    let arguments =
        "paging --models 12 --cache-percent 33 --rate 60 --seconds 2 --deadline-ms 900 --json";
    let output = Command::new(bench).args(arguments.split(' ')).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let count = |name: &str| report[name].as_u64().expect("a count");
    assert_eq!((count("lost"), count("failed")), (0, 0), "{report}");
    assert!(count("submitted") > 60 && count("on_time") > 0, "{report}");
    assert!(count("loads") > 0 && count("evictions") > 0, "{report}");
}
