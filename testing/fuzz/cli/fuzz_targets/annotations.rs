//! Text that claims to be annotations of pictures. The tests in `runtime/cli/src/calibrate/annotations.rs` run the same
//! function without coverage guidance.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/cli annotations -- -max_len=4096
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let _ = punctual_cli::fuzzed::annotations(text);
});
