//! Text that claims to be calibration records. The seeded tests of `tests/model/files.rs` run the same function without
//! coverage guidance.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/model calibration -- -max_len=4096
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let _ = punctual_fuzzed::exercise_calibration(file);
});
