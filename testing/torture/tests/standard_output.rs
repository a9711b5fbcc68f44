//! `channel-torture` when its reader went away, and on a full disk.
#![forbid(unsafe_code)]

#[path = "../../../runtime/platform/tests/standard_output/mod.rs"]
mod standard_output;

use standard_output::assert_program_ends;

#[test]
fn it_ends_quietly_without_a_reader_and_with_a_word_on_a_full_disk() {
    for arguments in [
        &["--help"][..],
        &["--frames", "500", "--kills", "1"],
        &["--frames", "500", "--kills", "1", "--json"],
    ] {
        assert_program_ends(env!("CARGO_BIN_EXE_channel-torture"), arguments, 3);
    }
}
