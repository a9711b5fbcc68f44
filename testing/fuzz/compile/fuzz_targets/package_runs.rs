//! A network of the fuzzer's choice, encoded as in a package: one that opens runs on the CPU device.
//! `runtime/compile/tests/compile/fuzzed.rs` runs the same function without a fuzzer.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/compile package_runs -- -max_len=4096
#![no_main]

#[path = "../entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let _ = entry::package(&punctual_fuzzed::of_script(script));
});
