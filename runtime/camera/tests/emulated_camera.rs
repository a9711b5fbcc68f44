//! `punctual-v4l2` as a process, on a camera that is a preloaded library, against a daemon in this one.
#![forbid(unsafe_code)]

#[path = "../../client/tests/echo_daemon/mod.rs"]
mod echo_daemon;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use echo_daemon::EchoDaemon;
use punctual_client::{FrameSpec, OutputTerms, PixelFormat, StreamTerms};
use serde_json::json;

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
        records: 1,
    })
}

/// The program on the camera with these variables, for this daemon.
fn command(daemon: &EchoDaemon, arguments: &[&str], variables: &[(&str, &str)]) -> Option<Command> {
    let library = camera()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual-v4l2"));
    command.args(["--device", DEVICE, "--task", "any", "--json", "--socket"]);
    command.arg(daemon.path()).args(arguments);
    command.env("LD_PRELOAD", library).env("FAKE_V4L2", DEVICE);
    command.envs(variables.iter().copied());
    Some(command)
}

fn run(daemon: &EchoDaemon, arguments: &[&str], variables: &[(&str, &str)]) -> Option<Output> {
    let mut command = command(daemon, arguments, variables)?;
    Some(command.output().expect("the program starts"))
}

/// Runs the program on a camera whose first frames, `faults` of them, have this fault.
fn run_with(fault: &str, faults: &str, arguments: &[&str]) -> Option<Output> {
    let daemon = daemon(PixelFormat::Gray8);
    // Slow enough that few frames are skipped.
    let variables = [
        ("FAKE_V4L2_FAULT", fault),
        ("FAKE_V4L2_FAULTS", faults),
        ("FAKE_V4L2_PERIOD_US", "20000"),
    ];
    let output = run(&daemon, arguments, &variables);
    assert_eq!(daemon.stop().torn, 0);
    output
}

fn code_and_words(output: &Output) -> (Option<i32>, String) {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), words)
}

fn count(output: &Output, key: &str) -> u64 {
    tally(output)[key].as_u64().expect("a number")
}

fn tally(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn frames_of_every_format_arrive_whole_from_a_driver_that_pads_its_rows() {
    for (name, format) in [
        ("rgb8", PixelFormat::Rgb8),
        ("bgr8", PixelFormat::Bgr8),
        ("gray8", PixelFormat::Gray8),
        ("nv12", PixelFormat::Nv12),
        ("yuyv", PixelFormat::Yuyv),
        ("uyvy", PixelFormat::Uyvy),
    ] {
        if !frames_arrive_whole(name, format, &[("FAKE_V4L2_PADDING", "13")]) {
            return;
        }
    }
}

#[test]
fn frames_of_a_multi_planar_driver_arrive_whole_if_they_are_one_piece_of_memory() {
    let variables = [("FAKE_V4L2_PADDING", "13"), ("FAKE_V4L2_PIECES", "1")];
    for (name, format) in [("nv12", PixelFormat::Nv12), ("uyvy", PixelFormat::Uyvy)] {
        if !frames_arrive_whole(name, format, &variables) {
            return;
        }
    }
}

/// False where there is no C compiler.
fn frames_arrive_whole(name: &str, format: PixelFormat, variables: &[(&str, &str)]) -> bool {
    let daemon = daemon(format);
    let arguments = ["--format", name, "--frames", "40"];
    let Some(output) = run(&daemon, &arguments, variables) else {
        return false;
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
    true
}

#[test]
fn frames_in_several_pieces_of_memory_are_refused_by_their_format() {
    let daemon = daemon(PixelFormat::Nv12);
    let variables = [("FAKE_V4L2_PIECES", "2"), ("FAKE_V4L2_GIVES", "NM12")];
    let Some(output) = run(&daemon, &["--frames", "1"], &variables) else {
        return;
    };
    let (code, words) = code_and_words(&output);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("NM12 over 2 pieces of memory"), "{words}");
}

#[test]
fn a_frame_behind_a_header_is_counted_and_not_submitted() {
    let daemon = daemon(PixelFormat::Gray8);
    let variables = [
        ("FAKE_V4L2_PIECES", "1"),
        ("FAKE_V4L2_FAULT", "header"),
        ("FAKE_V4L2_FAULTS", "6"),
    ];
    let Some(output) = run(&daemon, &["--frames", "10"], &variables) else {
        return;
    };
    let (code, said) = code_and_words(&output);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("a header of 16 bytes"), "{said}");
    assert_eq!(tally(&output)["faults"], json!({ "header": 6 }));
}

/// A file with a picture of one gray, as high as a frame.
fn jpeg(name: &str, width: u32) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let picture = image::RgbImage::from_pixel(width, 48, image::Rgb([128; 3]));
    picture.save(&path).expect("a picture");
    path
}

#[test]
fn mjpeg_is_decoded_and_a_picture_that_is_cut_is_counted_and_not_submitted() {
    let picture = jpeg("whole.jpg", 64);
    for format in [PixelFormat::Rgb8, PixelFormat::Bgr8, PixelFormat::Gray8] {
        let daemon = daemon(format);
        let variables = [
            ("FAKE_V4L2_JPEG", picture.to_str().expect("ASCII")),
            ("FAKE_V4L2_FAULT", "short"),
            ("FAKE_V4L2_FAULTS", "6"),
            ("FAKE_V4L2_PERIOD_US", "20000"),
        ];
        let Some(output) = run(&daemon, &["--mjpeg", "--frames", "10"], &variables) else {
            return;
        };
        let (code, said) = code_and_words(&output);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(
            said.matches("a JPEG picture has no end").count(),
            1,
            "{said}"
        );
        assert_eq!(tally(&output)["faults"], json!({ "jpeg_cut": 6 }));
        let submitted = count(&output, "submitted");
        assert!(submitted > 0, "{output:?}");
        assert_eq!(submitted + count(&output, "skipped"), 4, "{output:?}");
        let account = daemon.stop();
        assert_eq!((account.answered, account.torn), (submitted, 0));
    }
}

#[test]
fn mjpeg_of_another_size_or_for_another_format_ends_the_program_with_the_reason() {
    let narrow = jpeg("narrow.jpg", 56);
    let narrow = [("FAKE_V4L2_JPEG", narrow.to_str().expect("ASCII"))];
    let raw = [("FAKE_V4L2_GIVES", "YUYV")];
    for (format, camera, expected, words) in [
        (
            PixelFormat::Rgb8,
            narrow,
            5,
            "a JPEG picture has 56x48 pixels, not the 64x48",
        ),
        (
            PixelFormat::Nv12,
            narrow,
            3,
            "--mjpeg gives rgb8, bgr8 or gray8, and the task wants nv12",
        ),
        (
            PixelFormat::Rgb8,
            raw,
            3,
            "64 x 48 pixels of YUYV, and the task wants 64 x 48 of MJPG",
        ),
    ] {
        let daemon = daemon(format);
        let arguments = ["--mjpeg", "--silence-ms", "200"];
        let Some(output) = run(&daemon, &arguments, &camera) else {
            return;
        };
        let (code, said) = code_and_words(&output);
        assert_eq!(code, Some(expected), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

/// What the program and its camera say if a few frames are asked for with these settings.
fn said_with(arguments: &[&str], variables: &[(&str, &str)]) -> Option<(Option<i32>, String)> {
    let daemon = daemon(PixelFormat::Gray8);
    let arguments = [&["--frames", "3"], arguments].concat();
    let output = run(&daemon, &arguments, variables)?;
    Some(code_and_words(&output))
}

#[test]
fn the_driver_is_asked_for_a_frame_rate_and_the_nearest_that_it_gives_is_said() {
    for (fps, set, is_other) in [("30", "1/30", false), ("90", "1/60", true)] {
        let Some((code, said)) = said_with(&["--fps", fps], &[("FAKE_V4L2_FPS_MAX", "60")]) else {
            return;
        };
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains(&format!("camera: a frame every {set} s")),
            "{said}"
        );
        assert_eq!(
            said.contains("every 1/60 s, not every 1/90 s"),
            is_other,
            "{said}"
        );
    }
}

#[test]
fn the_driver_is_asked_for_an_exposure_in_the_mode_that_it_needs() {
    for (modes, exposure, set, is_other) in [
        ("all", "auto", "exposure mode 0", false),
        ("usb", "auto", "exposure mode 3", false),
        ("usb", "8000", "exposure mode 1\ncamera: exposure 80", false),
        ("usb", "8333", "exposure mode 1\ncamera: exposure 83", false),
        ("none", "20", "exposure 1", false),
        ("none", "20000", "exposure 100", true),
    ] {
        let variables = [("FAKE_V4L2_EXPOSURE", modes)];
        let Some((code, said)) = said_with(&["--exposure", exposure], &variables) else {
            return;
        };
        assert_eq!(code, Some(0), "{modes} {exposure}: {said}");
        assert!(
            said.contains(&format!("camera: {set}\n")),
            "{modes} {exposure}: {said}"
        );
        let words = "exposes for 10000 us, not for 20000 us";
        assert_eq!(said.contains(words), is_other, "{said}");
    }
}

#[test]
fn a_setting_that_the_driver_lacks_is_refused_with_its_option() {
    for (arguments, words) in [
        (["--fps", "30"], "cannot set its frame rate: VIDIOC_S_PARM"),
        (
            ["--exposure", "auto"],
            "cannot set its exposure: VIDIOC_S_CTRL",
        ),
        (
            ["--exposure", "8000"],
            "cannot set its exposure: VIDIOC_S_CTRL",
        ),
    ] {
        let Some((code, said)) = said_with(&arguments, &[]) else {
            return;
        };
        assert_eq!(code, Some(3), "{said}");
        let option = format!("without {} it keeps its own", arguments[0]);
        assert!(said.contains(words) && said.contains(&option), "{said}");
    }
}

#[test]
fn frames_that_the_driver_exports_are_answered_where_they_lie_and_its_buffers_go_round() {
    let daemon = daemon(PixelFormat::Nv12);
    // More than there are buffers.
    let arguments = ["--frames", "40", "--export"];
    let Some(output) = run(&daemon, &arguments, &[("FAKE_V4L2_EXPORTS", "sealed")]) else {
        return;
    };
    let (code, words) = code_and_words(&output);
    assert_eq!(code, Some(0), "{words}");
    assert!(!words.contains("copied"), "{words}");
    let account = daemon.stop();
    let submitted = count(&output, "submitted");
    assert_eq!(submitted, 40, "none finds its slot taken: {output:?}");
    assert_eq!((account.answered, account.torn), (submitted, 0));
    // One to ask for the format.
    assert_eq!(account.hung_up, 2);
}

#[test]
fn frames_are_copied_where_the_driver_or_the_daemon_wants_nothing_else() {
    for (exports, reason) in [
        (None, "the driver exports no DMA-BUFs"),
        (Some("open"), "F_SEAL_SHRINK"),
    ] {
        let daemon = daemon(PixelFormat::Yuyv);
        let arguments = ["--frames", "10", "--export"];
        let variables = exports.map(|how| ("FAKE_V4L2_EXPORTS", how));
        let Some(output) = run(&daemon, &arguments, variables.as_slice()) else {
            return;
        };
        let (code, words) = code_and_words(&output);
        assert_eq!(code, Some(0), "{words}");
        let warned = words
            .lines()
            .find(|line| line.contains("frames are copied"));
        assert!(warned.is_some_and(|line| line.contains(reason)), "{words}");
        assert!(count(&output, "submitted") > 0, "{output:?}");
        assert_eq!(daemon.stop().torn, 0, "{reason}");
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
        // A daemon logs each refusal.
        assert_eq!(daemon.stop().refused, 0, "{format:?}");
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
fn a_frame_that_is_damaged_or_has_not_its_bytes_is_counted_by_kind_and_not_submitted() {
    for (fault, words) in [
        ("damaged", "a frame is damaged"),
        ("empty", "an empty buffer"),
        ("short", "3071 bytes, a frame of its format has 3072"),
        ("overlong", "3073 bytes are in a buffer of 3072"),
    ] {
        // More than there are buffers: each must be given back.
        let Some(output) = run_with(fault, "6", &["--frames", "10"]) else {
            return;
        };
        let (code, said) = code_and_words(&output);
        assert_eq!(code, Some(0), "{fault}: {said}");
        assert_eq!(said.matches(words).count(), 1, "{fault}: {said}");
        assert_eq!(tally(&output)["faults"], json!({ fault: 6 }), "{fault}");
        let others = count(&output, "submitted") + count(&output, "skipped");
        assert_eq!(others, 4, "{fault}: {output:?}");
    }
}

#[test]
fn a_frame_whose_stamp_cannot_be_true_is_counted_by_kind_and_not_submitted() {
    for (fault, kind, words) in [
        ("zero", "stamp_zero", "is zero"),
        ("ahead", "stamp_ahead", "s ahead of CLOCK_MONOTONIC"),
        ("realtime", "stamp_ahead", "s ahead of CLOCK_MONOTONIC"),
        ("old", "stamp_old", "s before the frame's receipt"),
        ("copied", "stamp_copied", "a copy of another device's"),
        ("unknown", "stamp_unknown_clock", "does not name"),
        ("equal", "stamp_repeated", "does not lie after"),
    ] {
        let Some(output) = run_with(fault, "6", &["--frames", "10"]) else {
            return;
        };
        let (code, said) = code_and_words(&output);
        assert_eq!(code, Some(0), "{fault}: {said}");
        assert_eq!(said.matches(words).count(), 1, "{fault}: {said}");
        assert!(said.contains("`--stamp receipt`"), "{fault}: {said}");
        // The first of equal ones is credible.
        let faulty = 6 - u64::from(fault == "equal");
        assert_eq!(tally(&output)["faults"], json!({ kind: faulty }), "{fault}");
        let others = count(&output, "submitted") + count(&output, "skipped");
        assert_eq!(others, 10 - faulty, "{fault}: {output:?}");
    }
}

#[test]
fn whatever_the_stamps_are_frames_are_submitted_by_the_time_of_receipt_if_that_is_asked_for() {
    for fault in ["zero", "ahead", "old", "copied", "unknown", "equal"] {
        let arguments = ["--frames", "6", "--stamp", "receipt"];
        let Some(output) = run_with(fault, "6", &arguments) else {
            return;
        };
        assert_eq!(output.status.code(), Some(0), "{fault}: {output:?}");
        assert_eq!(tally(&output)["faults"], json!({}), "{fault}");
        assert!(count(&output, "submitted") > 0, "{fault}: {output:?}");
    }
}

#[test]
fn a_camera_without_a_usable_frame_ends_the_program_with_the_fault_and_how_many_there_were() {
    for (fault, words) in [
        ("short", "the last: the driver gave 3071 bytes"),
        ("unknown", "`--stamp receipt` takes the time of receipt"),
    ] {
        let Some(output) = run_with(fault, "1000", &["--silence-ms", "300"]) else {
            return;
        };
        let (code, said) = code_and_words(&output);
        assert_eq!(code, Some(5), "{fault}: {said}");
        let end = said.lines().last().expect("a message");
        assert!(end.contains("no usable frame for 300 ms, "), "{said}");
        assert!(end.contains(words), "{said}");
    }
}

#[test]
fn a_driver_that_fails_with_eio_is_started_anew_and_its_lost_buffers_are_found_again() {
    // More often than there are buffers.
    let Some(output) = run_with("eio", "6", &["--frames", "10"]) else {
        return;
    };
    let (code, said) = code_and_words(&output);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("EIO").count(), 1, "{said}");
    assert_eq!(tally(&output)["faults"], json!({ "interrupted": 6 }));
    assert_eq!(count(&output, "captured"), 10);
    // It counts from 0 again, which is no gap of four thousand million frames.
    assert!(count(&output, "dropped_by_driver") < 1000, "{output:?}");
}

#[test]
fn a_driver_that_does_nothing_but_fail_is_left_alone_between_attempts_and_ends_the_program() {
    let Some(output) = run_with("eio", "1000", &["--silence-ms", "300"]) else {
        return;
    };
    let (code, said) = code_and_words(&output);
    assert_eq!(code, Some(5), "{said}");
    let faults = said.split("300 ms, ").nth(1).expect("the last message");
    let faults = faults.split(' ').next().expect("a number");
    let faults: u32 = faults.parse().expect("a number");
    // One each 20 ms at most, and the first.
    assert!((2..=16).contains(&faults), "{said}");
}

#[test]
fn a_signal_ends_the_program_while_its_driver_fails() {
    let daemon = daemon(PixelFormat::Gray8);
    let arguments = ["--silence-ms", "600000"];
    let Some(mut command) = command(&daemon, &arguments, &[("FAKE_V4L2_FAULT", "eio")]) else {
        return;
    };
    command.stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.spawn().expect("the program starts");
    let said = BufReader::new(program.stderr.take().expect("a pipe"));
    let failed = |line: std::io::Result<String>| line.expect("words").contains("EIO");
    assert!(said.lines().any(failed), "it ended without a word on EIO");
    let id = program.id().to_string();
    let status = Command::new("kill").args(["-TERM", &id]).status();
    assert!(status.expect("kill runs").success());
    let output = program.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(count(&output, "captured"), 0);
}

#[test]
fn a_buffer_that_was_never_made_ends_the_program() {
    let Some(output) = run_with("index", "1", &[]) else {
        return;
    };
    let (code, said) = code_and_words(&output);
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("an impossible buffer: number 4 of 4"),
        "{said}"
    );
}

#[test]
fn a_camera_that_is_ready_and_has_nothing_is_silent() {
    let Some(output) = run_with("nothing", "1", &["--silence-ms", "200"]) else {
        return;
    };
    let (code, said) = code_and_words(&output);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("no frame for 200 ms"), "{said}");
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
