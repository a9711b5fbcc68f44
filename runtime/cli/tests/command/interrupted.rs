//! Commands that run long end at once when they are interrupted, and say so.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_platform::clock;

use crate::support::{Folder, MANIFEST, is_ignored};

/// More than a second would be felt; the rest is for a busy machine.
const LIMIT_NS: u64 = 5_000_000_000;

/// What a command says from the line on that has `sign`, at which it gets this signal, and its code.
fn interrupted(command: &mut Command, sign: &str, signal: Signal) -> (String, Option<i32>) {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("it starts");
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut said = String::new();
    while !said.contains(sign) {
        said.clear();
        assert!(
            errors.read_line(&mut said).expect("text") > 0,
            "no {sign:?}"
        );
    }
    let began_ns = clock::now_ns();
    kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
    errors.read_to_string(&mut said).expect("text");
    let status = child.wait().expect("it ends");
    let took_ns = clock::now_ns() - began_ns;
    assert!(took_ns < LIMIT_NS, "{took_ns} ns");
    (said, status.code())
}

#[test]
fn the_demo_ends_at_once_while_it_measures_and_leaves_nothing() {
    let folder = Folder::with(MANIFEST);
    let temporary = folder.path("tmp");
    std::fs::create_dir(&temporary).expect("a folder");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_punctual"));
    demo.arg("demo")
        .env("XDG_CACHE_HOME", folder.path("cache"))
        .env("TMPDIR", &temporary);
    let (said, code) = interrupted(&mut demo, "measuring signs: ", Signal::SIGINT);
    assert!(said.ends_with("punctual demo: interrupted\n"), "{said}");
    assert_eq!(code, Some(130));
    let left = std::fs::read_dir(&temporary).expect("it is there").count();
    assert_eq!(left, 0);
}

#[test]
fn a_measurement_ends_at_once_and_says_so() {
    let folder = Folder::with(MANIFEST);
    for (signal, expected) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        if is_ignored(signal as i32) {
            eprintln!("skipped: {signal} is ignored here, as in the background of a shell");
            continue;
        }
        let mut profile = Command::new(env!("CARGO_BIN_EXE_punctual"));
        profile.arg("profile").arg(folder.path("manifest.toml"));
        let (said, code) = interrupted(&mut profile, "measuring ", signal);
        assert!(said.ends_with("punctual profile: interrupted\n"), "{said}");
        assert_eq!(code, Some(expected));
    }
}
