//! `punctual record dump` and `punctual explain --socket`: the black box of a daemon that serves.

use std::path::Path;
use std::process::{Command, Output};

use punctual_ipc::PixelFormat;

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};

fn punctual(arguments: &[&str], socket: &Path) -> Output {
    let socket = format!("--socket={}", socket.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(arguments).arg(socket);
    command.output().expect("it runs")
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn the_frames_of_a_daemon_that_serves_are_explained() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    for _ in 0..5 {
        submit(&mut client);
        result(&mut client);
    }
    let told = punctual(&["explain", "front/0/3"], &daemon.socket());
    assert!(told.status.success(), "{told:?}");
    let told = text(&told.stdout);
    assert!(
        told.contains("front/0/3") && told.contains("stage 0 of signs"),
        "{told}"
    );
    // It was written for that.
    assert_eq!(daemon.report().recorder.expect("it records").written, 1);
    drop(client);
    daemon.stop();
}

#[test]
fn a_black_box_is_written_by_command() {
    let daemon = Daemon::start(MANIFEST);
    let dumped = punctual(&["record", "dump"], &daemon.socket());
    assert!(dumped.status.success(), "{dumped:?}");
    let file = text(&dumped.stdout);
    assert!(Path::new(file.trim()).exists(), "{file}");
    daemon.stop();
}

#[test]
fn where_nothing_is_recorded_or_nothing_serves_this_is_said() {
    let off = format!("[recorder]\nmode = \"off\"\n{MANIFEST}");
    let daemon = Daemon::start(&off);
    let dumped = punctual(&["record", "dump"], &daemon.socket());
    assert_eq!(dumped.status.code(), Some(1), "{dumped:?}");
    assert!(
        text(&dumped.stderr).contains("records nothing"),
        "{dumped:?}"
    );
    daemon.stop();
    let folder = Folder::with(MANIFEST);
    let dumped = punctual(&["record", "dump"], &folder.socket());
    assert_eq!(dumped.status.code(), Some(4), "{dumped:?}");
    let named = punctual(&["explain", "no-frame"], &folder.socket());
    assert_eq!(named.status.code(), Some(3), "{named:?}");
}
