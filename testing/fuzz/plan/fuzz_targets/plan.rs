//! Text that claims to be a manifest, and a board file behind a zero byte. `tests/corpus.rs` runs the
//! same function over the corpus without a fuzzer.
//!
//!     cd runtime/plan && cargo +nightly fuzz run plan fuzz/corpus/plan -- -max_len=8192 -dict=fuzz/plan.dict
#![no_main]

#[path = "../entry.rs"]
mod entry;
#[path = "../../../../runtime/plan/tests/fixture/mod.rs"]
mod fixture;

libfuzzer_sys::fuzz_target!(|text: &[u8]| entry::plan(text));
