//! `punctuald` under a service manager that this test plays: sockets, signs of life, reloads.
//! (A real one: `systemd/test`.)

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use crate::support::{Daemon, Folder, MANIFEST, connect, is_ignored, result, submit, wait_for};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use punctual_daemon::{Report, Termination};
use punctual_ipc::PixelFormat;

/// A socket of this kind that listens at the folder's `passed`.
fn listening(folder: &Folder, kind: SockType) -> OwnedFd {
    let made = socket(AddressFamily::Unix, kind, SockFlag::empty(), None).expect("a socket");
    let address = UnixAddr::new(&folder.path("passed")).expect("an address");
    bind(made.as_raw_fd(), &address).expect("a fresh path");
    listen(&made, Backlog::new(8).expect("a backlog")).expect("it listens");
    made
}

/// `punctuald` with `socket` as its descriptor 3, as a service manager starts it.
fn activated(folder: &Folder, socket: &OwnedFd) -> Command {
    let daemon = folder.command();
    let script = "exec 3<&0 </dev/null; \
                  LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=clients exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .arg(daemon.get_program())
        .args(daemon.get_args())
        .env("NOTIFY_SOCKET", folder.path("notify"))
        .stdin(Stdio::from(socket.try_clone().expect("a descriptor")));
    command
}

#[test]
fn a_passed_socket_is_served_and_outlives_the_daemon() {
    let folder = Folder::with(MANIFEST);
    let manager = UnixDatagram::bind(folder.path("notify")).expect("a socket");
    manager
        .set_read_timeout(Some(crate::support::LIMIT))
        .expect("a time limit");
    let socket = listening(&folder, SockType::SeqPacket);
    let mut daemons = activated(&folder, &socket);

    let mut first = daemons.spawn().expect("a daemon");
    wait_for(&manager, "READY=1");
    let mut client = connect(&folder.path("passed"), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    assert!(!folder.path("socket").exists(), "--socket gave way");
    let report = Report::live(&folder.path("passed")).expect("metrics beside the passed socket");
    assert_eq!(report.clients.in_use, 1);
    first.kill().expect("it runs");
    first.wait().expect("it ends");
    assert!(folder.path("passed").exists(), "it is the manager's");

    let mut second = activated(&folder, &socket).spawn().expect("a daemon");
    // Waits in the manager's socket until the second daemon is there to answer.
    let mut client = connect(&folder.path("passed"), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    second.kill().expect("it runs");
    second.wait().expect("it ends");
}

#[test]
fn a_passed_socket_of_another_kind_is_refused_by_name() {
    let folder = Folder::with(MANIFEST);
    let socket = listening(&folder, SockType::Stream);
    let output = activated(&folder, &socket).output().expect("a daemon");
    let code = i32::from(Termination::Resources.code());
    assert_eq!(output.status.code(), Some(code));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("ListenSequentialPacket"), "{words}");
}

#[test]
fn the_manager_hears_of_the_start_and_then_gets_signs_of_life_and_a_status() {
    let folder = Folder::with(MANIFEST);
    let manager = UnixDatagram::bind(folder.path("notify")).expect("a socket");
    manager
        .set_read_timeout(Some(crate::support::LIMIT))
        .expect("a time limit");
    let mut daemon = folder
        .command()
        .env("NOTIFY_SOCKET", folder.path("notify"))
        .env("WATCHDOG_USEC", "600000")
        .spawn()
        .expect("a daemon");
    wait_for(
        &manager,
        "STATUS=starting: reading the manifest and its packages",
    );
    wait_for(&manager, "READY=1");
    wait_for(&manager, "WATCHDOG=1");
    wait_for(&manager, "WATCHDOG=1");
    daemon.kill().expect("it runs");
    daemon.wait().expect("it ends");
}

#[test]
fn a_reload_ends_the_daemon_in_order_if_the_present_manifest_can_be_served_and_else_leaves_it_alone()
 {
    if is_ignored(libc::SIGHUP) {
        return eprintln!("skipped: SIGHUP is ignored here, as after nohup");
    }
    let daemon = Daemon::start(MANIFEST);
    let pid = daemon.pid().to_string();
    let reload = |pid: &str| daemon.folder.refusal(&["--reload", pid]);

    let wrong = MANIFEST.replace("deadline_ms = 500", "deadline_ms = -1");
    daemon.folder.write("manifest.toml", wrong.as_bytes());
    let (code, words) = reload(&pid);
    assert_eq!(code, Some(i32::from(Termination::InvalidPlan.code())));
    assert!(
        words.contains("deadline_ms") && words.contains("continues to serve, unchanged"),
        "{words}"
    );
    assert_eq!(daemon.report().clients.refused, 0, "it serves");

    daemon.folder.write("manifest.toml", MANIFEST.as_bytes());
    let (code, words) = reload("2147483646");
    assert_eq!(code, Some(i32::from(Termination::NotReloaded.code())));
    assert!(words.contains("process 2147483646"), "{words}");
    let (code, words) = reload(&pid);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("is valid, plan "), "{words}");
    let (status, report) = daemon.end();
    assert_eq!(status.code(), Some(0), "{report:#?}");
}
