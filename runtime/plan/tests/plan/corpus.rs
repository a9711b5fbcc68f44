//! The fuzzer's corpus, without the fuzzer: what once was interesting stays harmless.

#[path = "../../../../testing/fuzz/plan/entry.rs"]
mod entry;
use std::fs;
use std::path::Path;

#[test]
fn every_manifest_of_the_corpus_is_planned_or_diagnosed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/fuzz/plan/corpus/plan");
    let mut count = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        entry::plan(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 10, "a corpus of {count}");
}
