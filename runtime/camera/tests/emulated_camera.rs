//! `punctual-v4l2` as a process, on a camera that is a preloaded library, against a daemon in this one.
#![forbid(unsafe_code)]

#[path = "../../client/tests/echo_daemon/mod.rs"]
mod echo_daemon;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use echo_daemon::EchoDaemon;
use punctual_client::{FrameSpec, OutputTerms, PixelFormat, StreamTerms};

/// The path that the library answers for. Nothing lies there.
const DEVICE: &str = "/dev/video-of-the-test";

/// The camera; none where there is no C compiler.
fn camera() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device/v4l2.c");
    // Tests run in parallel: each makes its own.
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libcamera-{number}.so"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library);
    match compiler.arg(&source).status() {
        Ok(status) => {
            assert!(status.success(), "{} does not compile", source.display());
            Some(library)
        }
        Err(error) => {
            eprintln!("skipped: no C compiler called cc ({error})");
            None
        }
    }
}

fn daemon(format: PixelFormat) -> EchoDaemon {
    EchoDaemon::start(StreamTerms {
        stream: 0,
        slots: 4,
        results: 8,
        frame: FrameSpec::packed(format, 64, 48),
        crop_width: 32,
        crop_height: 32,
        outputs: OutputTerms::default(),
        vectors: 0,
    })
}

/// Runs the program on the camera with these variables, for this daemon.
fn run(daemon: &EchoDaemon, arguments: &[&str], variables: &[(&str, &str)]) -> Option<Output> {
    let library = camera()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-v4l2"));
    command.args(["--device", DEVICE, "--task", "any", "--json", "--socket"]);
    command.arg(daemon.path()).args(arguments);
    command.env("LD_PRELOAD", library).env("FAKE_V4L2", DEVICE);
    command.envs(variables.iter().copied());
    Some(command.output().expect("the program starts"))
}

fn code_and_words(output: &Output) -> (Option<i32>, String) {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), words)
}

fn count(output: &Output, key: &str) -> u64 {
    let tally: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    tally[key].as_u64().expect("a number")
}

#[test]
fn frames_of_every_format_arrive_whole_from_a_driver_that_pads_its_rows() {
    for (name, format) in [
        ("rgb8", PixelFormat::Rgb8),
        ("bgr8", PixelFormat::Bgr8),
        ("gray8", PixelFormat::Gray8),
        ("nv12", PixelFormat::Nv12),
        ("yuyv", PixelFormat::Yuyv),
    ] {
        let daemon = daemon(format);
        let arguments = ["--format", name, "--frames", "40"];
        let Some(output) = run(&daemon, &arguments, &[("FAKE_V4L2_PADDING", "13")]) else {
            return;
        };
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        let account = daemon.stop();
        let submitted = count(&output, "submitted");
        assert!(submitted > 0, "{name}: {output:?}");
        assert_eq!(count(&output, "captured"), 40, "{name}");
        assert_eq!(submitted + count(&output, "skipped"), 40, "{name}");
        // The daemon's task has no deadline.
        assert_eq!(count(&output, "without_deadline"), submitted, "{name}");
        assert_eq!((account.answered, account.torn), (submitted, 0), "{name}");
    }
}

#[test]
fn the_format_is_the_manifests_unless_it_is_given() {
    for format in [PixelFormat::Nv12, PixelFormat::Yuyv] {
        let daemon = daemon(format);
        let Some(output) = run(&daemon, &["--frames", "4"], &[]) else {
            return;
        };
        assert_eq!(output.status.code(), Some(0), "{format:?}: {output:?}");
        assert!(count(&output, "submitted") > 0, "{format:?}: {output:?}");
    }
    let daemon = daemon(PixelFormat::Yuyv);
    let Some(output) = run(&daemon, &["--frames", "4", "--format", "nv12"], &[]) else {
        return;
    };
    let (code, words) = code_and_words(&output);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("Yuyv"), "{words}");
}

#[test]
fn a_frame_that_the_driver_calls_damaged_is_counted_and_not_submitted() {
    let daemon = daemon(PixelFormat::Gray8);
    let arguments = ["--format", "gray8", "--frames", "6"];
    let variables = [("FAKE_V4L2_DAMAGED", "0"), ("FAKE_V4L2_PERIOD_US", "20000")];
    let Some(output) = run(&daemon, &arguments, &variables) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(count(&output, "damaged"), 1);
    assert_eq!(count(&output, "submitted") + count(&output, "skipped"), 5);
}

#[test]
fn a_camera_that_falls_silent_ends_the_program_with_its_own_code() {
    let daemon = daemon(PixelFormat::Gray8);
    let arguments = ["--format", "gray8", "--silence-ms", "200"];
    let Some(output) = run(&daemon, &arguments, &[("FAKE_V4L2_SILENT", "5")]) else {
        return;
    };
    let (code, words) = code_and_words(&output);
    assert_eq!(code, Some(5), "{words}");
    assert!(words.contains("no frame for 200 ms"), "{words}");
}

#[test]
fn a_driver_that_gives_another_format_is_refused_with_both_named() {
    let daemon = daemon(PixelFormat::Rgb8);
    let arguments = ["--format", "rgb8", "--frames", "1"];
    let Some(output) = run(&daemon, &arguments, &[("FAKE_V4L2_GIVES", "YUYV")]) else {
        return;
    };
    let (code, words) = code_and_words(&output);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("YUYV") && words.contains("RGB3"), "{words}");
}

#[test]
fn what_is_no_camera_is_refused_by_what_it_is() {
    let daemon = daemon(PixelFormat::Rgb8);
    let arguments = ["--format", "rgb8", "--frames", "1"];
    let Some(output) = run(&daemon, &arguments, &[("FAKE_V4L2_NOT", "1")]) else {
        return;
    };
    let (code, words) = code_and_words(&output);
    assert_eq!(code, Some(4), "{words}");
    assert!(words.contains("does not capture"), "{words}");
    let absent = Command::new(env!("CARGO_BIN_EXE_punctual-v4l2"))
        .args(["--device", DEVICE, "--task", "any", "--format", "rgb8"])
        .output()
        .expect("the program starts");
    let (code, words) = code_and_words(&absent);
    assert_eq!(code, Some(4), "{words}");
    assert!(
        words.contains(DEVICE) && words.contains("check that the camera is connected"),
        "{words}"
    );
}

#[test]
fn a_crop_that_leaves_the_frame_is_refused() {
    let daemon = daemon(PixelFormat::Gray8);
    let arguments = ["--format", "gray8", "--crop", "60,0", "--frames", "3"];
    let Some(output) = run(&daemon, &arguments, &[]) else {
        return;
    };
    let (code, words) = code_and_words(&output);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("--crop"), "{words}");
}
