//! A result record, alone.
//! `tests/channel/corpus.rs` runs the same function over the corpus without a fuzzer.
//!
//!     cd runtime/ipc && cargo +nightly fuzz run record fuzz/corpus/record -- -max_len=512
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| punctual_ipc::fuzzed::record(bytes));
