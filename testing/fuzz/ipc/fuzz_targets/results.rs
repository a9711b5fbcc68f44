//! A daemon that writes what it likes into its client's results.
//! `tests/channel/corpus.rs` runs the same function over the corpus without a fuzzer.
//!
//!     cd runtime/ipc && cargo +nightly fuzz run results fuzz/corpus/results -- -max_len=512
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| punctual_ipc::fuzzed::results(bytes));
