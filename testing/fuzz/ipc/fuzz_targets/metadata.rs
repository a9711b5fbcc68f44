//! A stream's terms, and what a client tells about a frame.
//! `tests/channel/corpus.rs` runs the same function over the corpus without a fuzzer.
//!
//!     cd runtime/ipc && cargo +nightly fuzz run metadata fuzz/corpus/metadata -- -max_len=512
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| punctual_ipc::fuzzed::metadata(bytes));
