//! How much the daemon says, by `--log` and by the environment; and that real-time threads say nothing.

use std::io::{PipeReader, Read, pipe};
use std::process::Command;

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};
use punctual_ipc::{ClientChannel, Hello, PixelFormat};

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
    let own = std::process::id();
    let came = format!("client slot 0: pid {own}, of task \"front\", was admitted");
    let gone = format!("client slot 0: pid {own}, of task \"front\", is gone");
    let plan = "punctuald: debug punctual_daemon::startup: plan ";
    let by_option = said(|command| {
        command.args(["--log", "debug"]);
    });
    let by_environment = said(|command| {
        command.env("PUNCTUAL_LOG", "warn,punctual_daemon=debug");
    });
    for said in [&by_option, &by_environment] {
        for expected in [&came, &gone, plan] {
            assert!(said.contains(expected), "{expected} in {said}");
        }
    }
    let both = said(|command| {
        command.env("PUNCTUAL_LOG", "debug").args(["--log", "info"]);
    });
    assert!(!both.contains("debug"), "{both}");
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
    assert_eq!(lines("for task \"watch\", was refused: "), 3, "{said}");
    assert_eq!(
        lines("for task \"watch\", were refused 12 more"),
        1,
        "{said}"
    );
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
