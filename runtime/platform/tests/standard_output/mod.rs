//! A program whose reader went away, and one on a full disk: for the tests of every program that prints.

use std::fs::File;
use std::process::{Command, Stdio};

/// Runs `program` with standard output in both states. It ends quietly with 141, or with
/// `write_code` and one line that says why.
pub fn assert_program_ends(program: &str, arguments: &[&str], write_code: i32) {
    let end = |stdout: Stdio| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(stdout);
        let output = command.output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        (output.status.code(), said)
    };
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let (code, said) = end(writer.into());
    assert_eq!(code, Some(141), "{arguments:?}: {said}");
    assert!(!said.contains("standard output"), "{arguments:?}: {said}");

    let full = File::options().write(true).open("/dev/full");
    let (code, said) = end(full.expect("a full device").into());
    assert_eq!(code, Some(write_code), "{arguments:?}: {said}");
    let lines = said.matches("cannot write to standard output").count();
    assert_eq!(lines, 1, "{arguments:?}: {said}");
}
