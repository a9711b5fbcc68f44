//! The committed workloads of DISB are those that its authors publish.

use std::fs;
use std::path::Path;

#[test]
fn the_committed_files_are_the_published_ones() {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disb");
    if !published.exists() {
        println!("skipped: {} is not there", published.display());
        return;
    }
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads/disb");
    for name in ["A", "B", "C", "D", "E", "REAL"] {
        let file = format!("{name}.json");
        let read = |folder: &Path| fs::read(folder.join(&file)).expect("a file");
        assert!(read(&published) == read(&committed), "{file} differs");
    }
}
