//! Every command that prints, with a reader that went away and on a full disk: it ends quietly, or with one line that says
//! why, with the documented code, and never by a panic.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A command line without its program; `{signs}` is a package, `{scratch}` a folder of the test's.
const PRINTING: &[&str] = &[
    "--help",
    "--version",
    "help compare",
    "bench gpu --help",
    "daemon --help",
    "compare --list",
    "compare robot --policies punctual --no-bound",
    "compare robot --policies punctual --no-bound --json",
    "simulate --list",
    "simulate robot --seconds 1",
    "simulate robot --seconds 1 --json --audit",
    "simulate --fuzz 3 --seed 1",
    "check --host",
    "check --host --json",
    "check {scratch}/missing.toml --json",
    "plan examples/fleet.toml",
    "plan examples/fleet.toml --json",
    "plan {scratch}/missing.toml --json",
    "compile models/signs/signs.toml --no-images --output {scratch}/compiled.punctual",
    "compile models/signs/signs.toml --no-images --output {scratch}/compiled.punctual --json",
    "calibrate {signs} --samples {scratch}/samples",
    "calibrate {signs} --samples {scratch}/samples --json",
    "share {signs} {scratch}/other.punctual --output {scratch}/shared",
    "share {signs} {scratch}/other.punctual --output {scratch}/shared --json",
    "board detect",
    "board detect --json",
    "bench gpu --list",
    "bench paging --models 12 --cache-percent 33 --rate 60 --seconds 1",
    "bench wakeup --seconds 0.01 --loads none",
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("samples/0")).expect("a folder");
    fs::copy(
        root().join("models/signs/signs.punctual"),
        folder.join("other.punctual"),
    )
    .expect("a copy");
    let picture = [b"P6 64 64 255\n".to_vec(), vec![128; 64 * 64 * 3]].concat();
    fs::write(folder.join("samples/0/grey.ppm"), picture).expect("a picture");
    folder
}

/// How a command ended, and what it said on standard error.
fn end(line: &str, scratch: &Path, stdout: Stdio) -> (Option<i32>, String) {
    let line = line.replace("{signs}", "models/signs/signs.punctual");
    let line = line.replace("{scratch}", scratch.to_str().expect("a path in UTF-8"));
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(line.split(' '))
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(stdout)
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn a_reader_that_went_away_ends_every_command_quietly() {
    let scratch = scratch("reader-gone");
    for line in PRINTING {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (code, said) = end(line, &scratch, writer.into());
        assert_eq!(code, Some(141), "{line}: {said}");
        for words in ["panicked", "standard output", "os error"] {
            assert!(!said.contains(words), "{line}: {said}");
        }
    }
}

#[test]
fn a_full_disk_is_said_in_one_line_and_has_the_code_of_files_that_cannot_be_written() {
    let scratch = scratch("disk-full");
    for line in PRINTING {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("a full device");
        let (code, said) = end(line, &scratch, full.into());
        assert_eq!(code, Some(4), "{line}: {said}");
        assert_eq!(
            said.matches("cannot write to standard output").count(),
            1,
            "{line}: {said}"
        );
        assert!(!said.contains("panicked"), "{line}: {said}");
    }
}

#[test]
fn standard_error_that_nobody_reads_harms_nothing() {
    for line in [
        "compare robot --policies punctual --no-bound",
        "check missing.toml",
    ] {
        for gone in [true, false] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let full = || {
                File::options()
                    .write(true)
                    .open("/dev/full")
                    .expect("a full device")
            };
            let stderr = if gone {
                writer.into()
            } else {
                Stdio::from(full())
            };
            let status = Command::new(env!("CARGO_BIN_EXE_punctual"))
                .args(line.split(' '))
                .stdout(Stdio::null())
                .stderr(stderr)
                .status()
                .expect("the command starts");
            let expected = if line.starts_with("check") { 4 } else { 0 };
            assert_eq!(status.code(), Some(expected), "{line}, reader gone: {gone}");
        }
    }
}
