//! The fuzzer's entry without the fuzzer: damaged fleet files are diagnosed or planned.

#[path = "../../../testing/fuzz/research/damage.rs"]
mod damage;
#[path = "../../../testing/fuzz/research/entry.rs"]
mod entry;
#[path = "../../../testing/fuzz/research/fleet.rs"]
mod fleet;

#[test]
fn damaged_fleet_files_are_diagnosed_or_planned() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet.toml");
    let example = std::fs::read_to_string(path).expect("the example");
    let taken = damage::taken(&example, 500, fleet::fleet);
    assert!((50..500).contains(&taken), "{taken} were taken");
}
