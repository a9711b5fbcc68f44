//! `punctual bench wakeup`, briefly: that every way is measured under a load, not how fast it is.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_way_is_measured_under_every_load_and_compared_with_the_floor() {
    let output = Command::new(env!("CARGO_BIN_EXE_punctual-bench"))
        .args([
            "wakeup",
            "--seconds",
            "0.05",
            "--loads",
            "none,cpu,disk",
            "--json",
        ])
        .output()
        .expect("punctual runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    for load in ["none", "cpu", "disk"] {
        let here: Vec<&Value> = rows.iter().filter(|row| row["load"] == load).collect();
        // The floor first: cyclictest, or the first of our four.
        assert!(here.len() == 4 || here.len() == 5, "{load}: {here:?}");
        assert!(here[0]["p50_ratio"].is_null());
        for row in here {
            assert!(row["wakes"].as_u64().expect("a count") >= 50, "{row}");
            let (p50, max) = (row["p50_us"].as_f64(), row["max_us"].as_f64());
            assert!(p50 <= max && max > Some(0.0), "{row}");
        }
    }
}
