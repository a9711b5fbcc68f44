//! The first message of either side.
//! `tests/channel/corpus.rs` runs the same function over the corpus without a fuzzer.
//!
//!     cd runtime/ipc && cargo +nightly fuzz run handshake fuzz/corpus/handshake -- -max_len=512
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| punctual_ipc::fuzzed::handshake(bytes));
