//! Every command that prints, with a reader that went away and on a full disk: it ends quietly, or with one line that says
//! why, with the documented code, and never by a panic.
#[path = "../../../platform/tests/standard_output/mod.rs"]
mod endings;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use endings::assert_program_ends;

/// A command line without its program; `{root}` is the tree's, `{signs}` a package, `{scratch}` a folder of the test's.
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
    "doctor",
    "doctor --json",
    "check {scratch}/missing.toml --json",
    "plan {root}/examples/fleet.toml",
    "plan {root}/examples/fleet.toml --json",
    "plan {scratch}/missing.toml --json",
    "compile {root}/models/signs/signs.toml --no-images --output {scratch}/compiled.punctual",
    "compile {root}/models/signs/signs.toml --no-images --output {scratch}/compiled.punctual --json",
    "inspect {signs}",
    "inspect {signs} --json",
    "calibrate {signs} --samples {scratch}/samples",
    "calibrate {signs} --samples {scratch}/samples --json",
    "share {signs} {scratch}/other.punctual --output {scratch}/shared",
    "share {signs} {scratch}/other.punctual --output {scratch}/shared --json",
    "board detect",
    "board detect --json",
    "bench gpu --list",
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

#[test]
fn every_command_ends_quietly_without_a_reader_and_with_a_word_on_a_full_disk() {
    let scratch = scratch("standard-output");
    let signs = root().join("models/signs/signs.punctual");
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    for line in PRINTING {
        let line = line
            .replace("{root}", &text(root()))
            .replace("{signs}", &text(&signs))
            .replace("{scratch}", &text(&scratch));
        let arguments: Vec<&str> = line.split(' ').collect();
        assert_program_ends(env!("CARGO_BIN_EXE_punctual"), &arguments, 4);
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
