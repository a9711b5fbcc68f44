//! `punctual bench overhead`, briefly: that both sides answer all frames with the camera on each core, not how fast.

use std::path::Path;
use std::process::Command;

use punctual_platform::affinity;
use serde_json::Value;

#[test]
fn loop_and_daemon_answer_every_frame_with_the_camera_on_each_core() {
    let bench = env!("CARGO_BIN_EXE_punctual-bench");
    let daemon = Path::new(bench).with_file_name("punctuald");
    let cores = affinity::available_cores().expect("they can be asked for");
    if !daemon.exists() || cores.len() < 2 {
        return eprintln!("skipped: it needs {} and two cores", daemon.display());
    }
    let arguments = ["overhead", "--turns", "1", "--seconds", "1", "--json"];
    let output = Command::new(bench)
        .args(arguments)
        .args(["--rate", "20", "--watched", "3"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6, "{rows:?}");
    let places = [cores[0], *cores.last().expect("two")];
    for (row, place) in rows.iter().zip(places.into_iter().cycle()) {
        assert_eq!(row["frames"], 20, "{row}");
        assert_eq!(row["camera_core"].as_u64(), Some(place as u64), "{row}");
        assert!(row["p50_us"].as_f64() <= row["max_us"].as_f64(), "{row}");
        assert!(row["switches"].as_f64() >= Some(1.0), "{row}");
    }
}
