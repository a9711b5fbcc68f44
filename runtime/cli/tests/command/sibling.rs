//! Commands of our other programs: started with what was given, and named where they are not there.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with a copy of `punctual` and nothing else.
fn alone(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    fs::copy(env!("CARGO_BIN_EXE_punctual"), folder.join("punctual")).expect("a copy");
    folder
}

#[test]
fn a_command_of_another_program_is_that_programs_with_its_words_input_and_code() {
    let folder = alone("sibling");
    for program in ["punctual-lab", "punctual-bench"] {
        let script = format!("#!/bin/sh\necho \"{program} $*\"\ncat\nexit 42\n");
        let path = folder.join(program);
        fs::write(&path, script).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    for (typed, passed) in [
        ("compare a b", "punctual-lab compare a b"),
        ("simulate --help", "punctual-lab simulate --help"),
        ("help plan", "punctual-lab plan --help"),
        ("bench gpu --list", "punctual-bench gpu --list"),
        ("help bench", "punctual-bench --help"),
    ] {
        let mut child = Command::new(folder.join("punctual"))
            .args(typed.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = child.stdin.take().expect("piped");
        input.write_all(b"typed in\n").expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8(output.stdout).expect("text");
        assert_eq!(said, format!("{passed}\ntyped in\n"), "{typed}");
        assert_eq!(output.status.code(), Some(42), "{typed}");
    }
}

#[test]
fn a_program_that_is_not_there_is_named_with_how_to_get_it() {
    let output = Command::new(alone("no-sibling").join("punctual"))
        .args(["compare", "robot"])
        .env("PATH", "")
        .output()
        .expect("it starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("punctual-lab") && said.contains("cargo build"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}
