//! A client that does what the fuzzer says, against the daemon's side of the channel. The seeded
//! test `garbage.rs` runs the same function without coverage guidance.
//!
//!     cd runtime/ipc && cargo +nightly fuzz run hostile_client -- -max_len=512
#![no_main]

#[path = "../hostile_client.rs"]
mod hostile_client;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    let _ = hostile_client::hostile_client(script);
});
