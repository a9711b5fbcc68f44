//! Text that claims to be a profile. The seeded tests of `tests/model/files.rs` run the same function without coverage
//! guidance.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/model profile -- -max_len=8192
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let _ = punctual_fuzzed::exercise_profile(file);
});
