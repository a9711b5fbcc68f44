//! Programs in C and C++, with the shared and the static library, against a daemon that is replaced while they run.

mod compiler;
#[path = "../../client/tests/echo_daemon/mod.rs"]
mod echo_daemon;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use compiler::{Compiler, Linking, here, libraries};
use echo_daemon::{EchoDaemon, terms};

const FRAMES: u64 = 50;

/// Runs the program, replacing the daemon under it.
fn feed(program: &Path, way: &str) {
    let daemon = EchoDaemon::start(terms());
    let path = daemon.path().to_owned();
    let mut child = Command::new(program)
        .arg(&path)
        .args([way, &FRAMES.to_string()])
        .env("LD_LIBRARY_PATH", libraries())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let answered = said.next().map(Result::unwrap);
    assert_eq!(answered.as_deref(), Some("answered"), "{way}");
    assert_eq!(daemon.stop().answered, FRAMES);
    let _daemon = EchoDaemon::start_at(path, terms());
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let recovered = said.next().map(Result::unwrap);
    assert_eq!(recovered.as_deref(), Some("recovered"), "{way}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn programs_get_their_verdicts_in_three_ways_and_outlive_the_daemon() {
    for compiler in [Compiler::C, Compiler::Cpp] {
        for linking in [Linking::Shared, Linking::Static] {
            let Some(program) = compiler.build("replies.c", linking) else {
                continue;
            };
            for way in ["ring", "poll", "callback"] {
                feed(&program, way);
            }
        }
    }
}

#[test]
fn the_example_is_answered_frame_by_frame() {
    let source = here().join("examples/camera.c");
    let Some(program) = Compiler::C.build_file(&source, Linking::Shared) else {
        return;
    };
    let daemon = EchoDaemon::start(terms());
    let output = Command::new(program)
        .arg(daemon.path())
        .arg("any")
        .env("LD_LIBRARY_PATH", libraries())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("on time").count(), 150, "{text}");
    assert!(text.contains("newest answer: frame 1, exit 0\n"), "{text}");
}

#[test]
fn the_library_is_installed_under_its_versioned_name() {
    let to = std::env::temp_dir().join(format!("punctual-install-{}", std::process::id()));
    let built = to.join("built");
    std::fs::create_dir_all(&built).unwrap();
    for library in ["libpunctual.so", "libpunctual.a"] {
        std::fs::write(built.join(library), library).unwrap();
    }
    let status = Command::new(here().join("install"))
        .env("DESTDIR", &to)
        .env("PREFIX", "/usr")
        .env("LIBDIR", "/usr/lib/here")
        .env("BUILT", &built)
        .status()
        .unwrap();
    assert!(status.success());
    let version = env!("CARGO_PKG_VERSION");
    let libdir = to.join("usr/lib/here");
    for header in ["punctual.h", "punctual_decode.h"] {
        assert!(to.join("usr/include").join(header).is_file(), "{header}");
    }
    let content = std::fs::read_to_string(libdir.join("libpunctual.so.0")).unwrap();
    assert_eq!(content, "libpunctual.so");
    assert!(libdir.join(format!("libpunctual.so.{version}")).is_file());
    let pc = std::fs::read_to_string(libdir.join("pkgconfig/punctual.pc")).unwrap();
    assert!(pc.contains("libdir=/usr/lib/here\n") && pc.contains(&format!("Version: {version}\n")));
    std::fs::remove_dir_all(&to).unwrap();
}

#[test]
fn the_shared_library_has_its_soname() {
    let library = std::fs::read(libraries().join("libpunctual.so")).unwrap();
    let name = b"libpunctual.so.0\0";
    assert!(library.windows(name.len()).any(|bytes| bytes == name));
}

#[test]
fn programs_take_keep_and_release_the_tensors_of_their_answers() {
    let start = |path| EchoDaemon::start_giving_outputs(path, terms());
    succeeds("outputs", &["verdict", "callback"], start);
}

#[test]
fn programs_ask_each_task_of_one_connection() {
    let start = |path| EchoDaemon::start_with_two_tasks(path, terms());
    succeeds("tasks", &["verdict", "callback"], start);
}

#[test]
fn programs_get_the_answers_before_their_verdicts_and_the_newest_at_any_time() {
    let start = |path| EchoDaemon::start_giving_each_exit(path, terms());
    succeeds("answers", &["ring", "poll", "callback"], start);
}

/// A program of `tests/c` finds all right, built as C and as C++, each way with a daemon of its own.
fn succeeds(program: &str, ways: &[&str], start: impl Fn(PathBuf) -> EchoDaemon) {
    for compiler in [Compiler::C, Compiler::Cpp] {
        let source = format!("{program}.c");
        let Some(built) = compiler.build(&source, Linking::Shared) else {
            continue;
        };
        for way in ways {
            let name = format!("punctual-c-{program}-{}-{way}", std::process::id());
            let daemon = start(std::env::temp_dir().join(name));
            let output = Command::new(&built)
                .arg(daemon.path())
                .arg(way)
                .env("LD_LIBRARY_PATH", libraries())
                .output()
                .unwrap();
            assert!(output.status.success(), "{way}: {output:?}");
        }
    }
}

/// What an example prints; none if there is no compiler.
fn run(example: &str, daemon: &EchoDaemon) -> Option<String> {
    let source = here().join("examples").join(example);
    let program = Compiler::C.build_file(&source, Linking::Shared)?;
    let output = Command::new(program)
        .arg(daemon.path())
        .arg("any")
        .env("LD_LIBRARY_PATH", libraries())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_detector_prints_its_boxes() {
    let name = format!("punctual-c-detector-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let daemon = EchoDaemon::start_giving_detections(path, terms());
    let Some(text) = run("detector.c", &daemon) else {
        return;
    };
    let second = "frame 2: car 0.75: 16.0 8.0 32.0 24.0\nframe 2: tram 0.50: 24.0 16.0 48.0 40.0\n";
    assert!(text.contains(second), "{text}");
    let counts = ["car", "tram"].map(|class| text.matches(class).count());
    assert_eq!(counts, [30, 15], "{text}");
}

#[test]
fn heads_are_decoded_in_c_and_in_cpp() {
    for compiler in [Compiler::C, Compiler::Cpp] {
        let Some(program) = compiler.build("decode.c", Linking::Shared) else {
            continue;
        };
        let output = Command::new(program)
            .env("LD_LIBRARY_PATH", libraries())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn vectors_go_with_frames_and_tensors_come_back() {
    let name = format!("punctual-c-vectors-{}", std::process::id());
    let daemon = EchoDaemon::start_giving_outputs(std::env::temp_dir().join(name), terms());
    let Some(text) = run("vectors.c", &daemon) else {
        return;
    };
    let third = "frame 3: on time, car, boxes: 0 1.5 1 0 | 0 0 0 0\n";
    assert!(text.contains(third), "{text}");
    assert_eq!(text.matches("tram, boxes").count(), 15, "{text}");
}
