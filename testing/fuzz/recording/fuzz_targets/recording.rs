//! Bytes that claim to be a recording. `runtime/recording/tests/recording/fuzzed.rs` runs the same function
//! on damaged recordings without a fuzzer.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/recording recording -- -max_len=65536
#![no_main]

#[path = "../entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    // Replay guards itself against panics of a scheduler that was told nonsense; libFuzzer's hook would end the process there.
    std::panic::set_hook(Box::new(|_| {}));
    let _ = entry::recording(file);
});
