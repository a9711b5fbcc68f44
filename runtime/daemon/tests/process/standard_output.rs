//! `punctuald` when its reader went away, and on a full disk.
#[path = "../../../platform/tests/standard_output/mod.rs"]
mod endings;

use endings::assert_program_ends;

#[test]
fn it_ends_quietly_without_a_reader_and_with_a_word_on_a_full_disk() {
    for arguments in [&["--help"], &["--version"]] {
        assert_program_ends(env!("CARGO_BIN_EXE_punctuald"), arguments, 4);
    }
}
