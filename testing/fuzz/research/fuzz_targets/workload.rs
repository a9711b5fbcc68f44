//! Text that claims to be a workload file. `research/evaluation/tests/evaluation/fuzzed.rs` runs the same function on damaged files without
//! a fuzzer.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/research workload -- -max_len=8192
#![no_main]

#[path = "../entry.rs"]
mod entry;
#[path = "../workload.rs"]
mod workload;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let _ = workload::workload(text);
});
