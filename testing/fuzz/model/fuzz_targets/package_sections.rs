//! Sections of the fuzzer's choice in a file whose hashes are right, so that they are looked at.
//!
//!     cd runtime/model && cargo +nightly fuzz run package_sections -- -max_len=4096
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let _ = punctual_fuzzed::exercise_sections(script);
});
