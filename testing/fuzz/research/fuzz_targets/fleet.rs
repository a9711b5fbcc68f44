//! Text that claims to be a fleet file. `research/fleet/tests/fuzzed.rs` runs the same function on damaged files without
//! a fuzzer.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/research fleet -- -max_len=8192
#![no_main]

#[path = "../entry.rs"]
mod entry;
#[path = "../fleet.rs"]
mod fleet;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let _ = fleet::fleet(text);
});
