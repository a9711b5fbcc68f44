//! The fuzzer's entry without the fuzzer: damaged workload files are diagnosed or complete.

#[path = "../../../../testing/fuzz/research/damage.rs"]
mod damage;
#[path = "../../../../testing/fuzz/research/entry.rs"]
mod entry;
#[path = "../../../../testing/fuzz/research/workload.rs"]
mod workload;

use std::path::Path;

#[test]
fn damaged_workload_files_are_diagnosed_or_complete() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workload.toml");
    let example = std::fs::read_to_string(path).expect("the example");
    let taken = damage::taken(&example, 400, workload::workload);
    assert!((40..400).contains(&taken), "{taken} were taken");
}
