//! Bytes that claim to be a package file. The seeded tests of `tests/model/package.rs` run the same
//! function without coverage guidance.
//!
//!     cd runtime/model && cargo +nightly fuzz run package_file -- -max_len=16384
#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let _ = punctual_fuzzed::exercise(file);
});
