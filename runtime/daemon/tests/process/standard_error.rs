//! A full standard error holds nothing up, nor do other streams.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::support::{Daemon, Folder, MANIFEST, submit};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket,
};
use punctual_ipc::PixelFormat;

/// A pipe that takes nothing more.
fn full() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    let room = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).expect("a small pipe");
    writer.write_all(&vec![b'.'; room as usize]).expect("room");
    (reader, writer)
}

fn start_with_standard_error(manifest: &str, error: PipeWriter) -> Daemon {
    Daemon::start_as(Folder::with(manifest), |command| {
        command.stderr(error);
    })
}

/// Makes the daemon say something: a connection with an invalid opening.
fn provoke(daemon: &Daemon) {
    let before = daemon.report().clients.refused;
    let flags = SockFlag::SOCK_CLOEXEC;
    let client = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).expect("a socket");
    let address = UnixAddr::new(&daemon.socket()).expect("an address");
    connect(client.as_raw_fd(), &address).expect("a connection");
    send(client.as_raw_fd(), b"nonsense", MsgFlags::empty()).expect("sent");
    daemon.report_when(|report| report.clients.refused > before);
}

#[test]
fn a_full_pipe_holds_up_neither_metrics_nor_clients_nor_the_end() {
    let (mut reader, writer) = full();
    let daemon = start_with_standard_error(MANIFEST, writer);
    provoke(&daemon);
    let mut client = crate::support::connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    crate::support::result(&mut client);
    drop(client);
    daemon.stop();
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("what was there");
    assert!(text.bytes().all(|byte| byte == b'.'), "{text}");
}

#[test]
fn a_second_signal_is_heard_behind_a_full_pipe() {
    let manifest = MANIFEST
        .replace(
            "board = \"host\"",
            "board = \"host\"\ndrain_timeout_ms = 60000",
        )
        .replace("queue_depth = 8", "queue_depth = 63");
    let (_reader, writer) = full();
    let daemon = start_with_standard_error(&manifest, writer);
    provoke(&daemon);
    let mut client = crate::support::connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    for _ in 0..63 {
        submit(&mut client);
    }
    daemon.signal_twice();
    let (status, report) = daemon.end();
    let lost: u64 = report.tasks.iter().map(|task| task.lost).sum();
    // A machine that answers 63 frames between two signals is not interrupted.
    let expected = if lost > 0 { 7 } else { 0 };
    assert_eq!(status.code(), Some(expected), "{report:#?}");
}

#[test]
fn what_was_said_arrives_as_soon_as_somebody_reads() {
    let (mut reader, writer) = full();
    let daemon = start_with_standard_error(MANIFEST, writer);
    provoke(&daemon);
    let mut text = [0; 4096];
    reader.read_exact(&mut text).expect("the filling");
    daemon.stop();
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("what was said");
    assert!(text.contains("punctuald: "), "{text:?}");
}

#[test]
fn a_daemon_that_cannot_start_ends_with_its_code_though_nobody_reads_why() {
    let folder = Folder::with("[daemon]\nboard = 3\n");
    let (reader, writer) = full();
    let mut child = folder
        .command()
        .stderr(writer)
        .spawn()
        .expect("punctuald starts");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    drop(reader);
}

#[test]
fn a_report_goes_into_what_is_no_file_and_does_not_replace_it() {
    let folder = Folder::with(MANIFEST);
    let mut mkfifo = Command::new("mkfifo");
    let made = mkfifo.arg(folder.path("report.json")).status();
    assert!(made.expect("mkfifo runs").success());
    let mut daemon = Daemon::start_in(folder);
    // There is no reader: an error, and no wait.
    daemon.signal("TERM");
    assert_eq!(daemon.wait().code(), Some(5));
    let report = daemon.folder.path("report.json");
    let found = std::fs::symlink_metadata(report).expect("still there");
    assert!(found.file_type().is_fifo());
}

#[test]
fn a_ready_pipe_that_takes_nothing_holds_nothing_up() {
    let (_reader, writer) = full();
    let number = writer.as_raw_fd().to_string();
    let inherit = FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    fcntl(&writer, inherit).expect("it is open");
    let daemon = Daemon::start_as(Folder::with(MANIFEST), |command| {
        command.args(["--ready-fd", &number]);
    });
    let path = punctual_daemon::metrics_socket(&daemon.socket());
    UnixStream::connect(path).expect("it serves");
    daemon.stop();
}
