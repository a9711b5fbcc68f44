//! Bytes that claim to be an ONNX file. `runtime/compile/tests/compile/fuzzed.rs` runs the same function on damaged files
//! without a fuzzer.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/compile onnx runtime/compile/tests/networks -- -max_len=16384
#![no_main]

#[path = "../entry.rs"]
mod entry;
#[path = "../onnx.rs"]
mod onnx;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let _ = onnx::onnx(file);
});
