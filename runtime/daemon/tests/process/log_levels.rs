//! How much the daemon says, by `--log` and by the environment; and that real-time threads say nothing.

use std::io::{PipeReader, Read, pipe};
use std::process::Command;

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};
use punctual_ipc::{ClientChannel, Crop, Hello, PixelFormat};
use punctual_platform::clock;

/// What a daemon says until its end that a client visits.
fn said(change: impl FnOnce(&mut Command)) -> String {
    let (reader, writer) = pipe().expect("a pipe");
    let daemon = Daemon::start_as(Folder::with(MANIFEST), |command| {
        command.stderr(writer);
        change(command);
    });
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    drop(client);
    daemon.report_when(|report| report.clients.in_use == 0);
    let report = daemon.stop();
    assert_eq!(report.lines_dropped, 0, "real-time threads say nothing");
    text(reader)
}

fn text(mut reader: PipeReader) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("what was said");
    text
}

#[test]
fn details_come_by_option_and_by_environment_and_the_option_wins() {
    let plan = "punctuald: debug punctual_daemon::startup: plan ";
    let thread = "punctuald: debug punctual_daemon::startup: thread ";
    let by_option = said(|command| {
        command.args(["--log", "debug"]);
    });
    let by_environment = said(|command| {
        command.env("PUNCTUAL_LOG", "warn,punctual_daemon=debug");
    });
    for said in [&by_option, &by_environment] {
        for expected in [plan, thread] {
            assert!(said.contains(expected), "{expected} in {said}");
        }
    }
    let both = said(|command| {
        command.env("PUNCTUAL_LOG", "debug").args(["--log", "info"]);
    });
    assert!(!both.contains("debug"), "{both}");
}

#[test]
fn a_daemon_says_what_it_serves_who_comes_and_goes_and_how_it_went() {
    let said = said(|_| ());
    let own = std::process::id();
    let client = format!("task front, client 0 (pid {own}): ");
    for expected in [
        "clients connect at /",
        "partition main: device cpu, cores ",
        "task front: model signs on partition main, 2 clients, rgb8 320x240, 10.0 Hz in all, due 500.0 ms after capture: promised to exit 0 of 0 to 2, ",
        "task watch: model signs on partition main, ",
        "serving 2 tasks (1 real-time)",
        &format!("{client}connected\n"),
        &format!("{client}disconnected after 1 frames: "),
        "asked to terminate\n",
        "task front: 1 frames: ",
    ] {
        assert!(said.contains(expected), "{expected} in {said}");
    }
    for line in said.lines() {
        let (time, words) = line.split_once(' ').expect("a time and words");
        assert!(time.ends_with('Z') && time.len() == 24, "{line}");
        assert!(words.starts_with("punctuald: "), "{line}");
    }
}

#[test]
fn the_first_frame_without_an_answer_is_told_with_its_reason_and_the_others_are_counted() {
    let (reader, writer) = pipe().expect("a pipe");
    let daemon = Daemon::start_as(Folder::with(MANIFEST), |command| {
        command.stderr(writer);
    });
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    for _ in 0..3 {
        let slot = client.slot().expect("a free slot");
        let captured_ns = clock::now_ns() + 60_000_000_000;
        let submitted = slot.submit(captured_ns, None, Crop { x: 7, y: 9 });
        submitted.expect("submitted");
        result(&mut client);
    }
    drop(client);
    daemon.report_when(|report| report.clients.in_use == 0);
    daemon.stop();
    let said = text(reader);
    let reason = "has no answer: its capture time was in the future";
    assert_eq!(said.matches(reason).count(), 1, "{said}");
    let counted =
        "0 on time, 0 late, 3 rejected, 0 failed (3 times its capture time was in the future)";
    assert!(said.contains(counted), "{said}");
}

#[test]
fn a_client_that_is_refused_and_tries_again_makes_a_few_lines_that_name_its_task() {
    let (reader, writer) = pipe().expect("a pipe");
    let daemon = Daemon::start_as(Folder::with(MANIFEST), |command| {
        command.stderr(writer);
    });
    let unsure = Hello::new("watch", None);
    drop(ClientChannel::connect(&daemon.socket(), &unsure).expect("the manifest's format"));
    // `watch` takes another format.
    let hello = Hello::new("watch", PixelFormat::Rgb8);
    for _ in 0..15 {
        ClientChannel::connect(&daemon.socket(), &hello).expect_err("refused");
    }
    let unknown = Hello::new("no-such-task", PixelFormat::Rgb8);
    ClientChannel::connect(&daemon.socket(), &unknown).expect_err("refused");
    daemon.stop();
    let said = text(reader);
    let lines = |words: &str| said.lines().filter(|line| line.contains(words)).count();
    assert_eq!(lines("task watch: pid "), 3, "{said}");
    assert_eq!(lines("task watch: clients of user "), 1, "{said}");
    assert_eq!(
        lines("for task \"no-such-task\", was refused: "),
        1,
        "{said}"
    );
}

#[test]
fn without_a_level_everything_but_details_is_said_and_less_if_less_is_wanted() {
    let said_at = |level: &str| {
        let folder = Folder::with(MANIFEST);
        let (reader, writer) = pipe().expect("a pipe");
        let daemon = Daemon::start_as(folder, |command| {
            command.env("PUNCTUAL_LOG", level).stderr(writer);
        });
        daemon.signal("USR1");
        let report = daemon.folder.path("report.json");
        daemon.report_when(|_| report.exists());
        daemon.stop();
        text(reader)
    };
    let usual = said_at("");
    assert!(usual.contains("punctuald: SIGUSR1: wrote "), "{usual}");
    assert!(!usual.contains("debug"), "{usual}");
    assert!(!said_at("warn").contains("SIGUSR1"));
    assert_eq!(said_at("error"), "");
}

#[test]
fn a_level_that_is_none_is_wrong_usage_and_told_with_what_is_allowed() {
    let folder = Folder::with(MANIFEST);
    let by_option = folder.refusal(&["--log", "loud"]);
    let output = folder.command().env("PUNCTUAL_LOG", "loud").output();
    let output = output.expect("punctuald runs");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    for (code, words) in [by_option, (output.status.code(), words)] {
        assert_eq!(code, Some(2), "{words}");
        let expected = "\"loud\" is no level: use error, warn, info, debug or trace";
        assert!(words.contains(expected), "{words}");
        assert!(words.contains("PUNCTUAL_LOG"), "{words}");
    }
}

/// With all levels every call of the facade reaches its backend, which ends a debug build if a real-time
/// thread is the caller, and counts it in any other.
#[test]
fn no_real_time_thread_says_anything_in_words_even_where_everything_is_said() {
    let said = said(|command| {
        command.args(["--log", "trace"]);
    });
    assert!(!said.contains("panicked"), "{said}");
}
