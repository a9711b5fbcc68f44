//! The fuzzers' corpora, without the fuzzers: what once was interesting stays harmless.

use std::fs;
use std::path::Path;

use punctual_ipc::fuzzed;

use crate::hostile_client::hostile_client;

fn replay(target: &str, entry: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/fuzz/ipc/corpus");
    let mut count = 0;
    for file in fs::read_dir(corpus.join(target)).unwrap() {
        entry(&fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 10, "{target}: a corpus of {count}");
}

#[test]
fn first_messages_are_understood_or_refused() {
    replay("handshake", fuzzed::handshake);
}

#[test]
fn terms_and_descriptors_that_are_accepted_are_possible() {
    replay("metadata", fuzzed::metadata);
}

#[test]
fn clients_survive_their_daemons_memory() {
    replay("results", fuzzed::results);
    replay("record", fuzzed::record);
}

#[test]
fn daemons_survive_their_clients_memory() {
    replay("hostile_client", |script| {
        let _ = hostile_client(script);
    });
}
