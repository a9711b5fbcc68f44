//! `punctual bench detection`, briefly: that both sides answer with boxes, not how fast they are.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn both_sides_answer_each_in_its_own_depth() {
    let bench = Path::new(env!("CARGO_BIN_EXE_punctual-bench"));
    for program in ["punctual", "punctuald"] {
        if !bench.with_file_name(program).exists() {
            eprintln!("not measured: {program} is not built");
            return;
        }
    }
    let output = Command::new(bench)
        .args(["detection", "--rate", "4", "--loads", "1", "--json"])
        .args(["--seconds", "2", "--turns", "1"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let sides: Vec<&Value> = rows.iter().map(|row| &row["side"]).collect();
    assert_eq!(sides, ["early-exits", "full-depth"]);
    for row in &rows {
        assert_eq!(row["frames"], 8, "{row}");
        let exits = row["exits"].as_array().expect("counts by exit");
        let answers: u64 = exits.iter().filter_map(Value::as_u64).sum();
        assert!(answers > 0 && row["map50"].as_f64() > Some(0.3), "{row}");
    }
    let shallow = rows[1]["exits"].as_array().expect("counts by exit");
    assert!(shallow[..2].iter().all(|count| count == 0), "{}", rows[1]);
}
