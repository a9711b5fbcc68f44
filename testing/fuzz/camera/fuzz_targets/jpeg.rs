//! Bytes that claim to be a camera's frame of MJPEG. The tests in `runtime/camera/src/jpeg.rs` run the same function without
//! coverage guidance. The corpus begins with a gray picture of 64x48 pixels.
//!
//!     cargo +nightly fuzz run --fuzz-dir testing/fuzz/camera jpeg -- -max_len=4096
#![no_main]

libfuzzer_sys::fuzz_target!(|jpeg: &[u8]| {
    let _ = punctual_camera::fuzzed::jpeg(jpeg);
});
