//! Any process that may connect, and what it may do with descriptors, silence and crowds: it delays no other client.

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Daemon, MANIFEST, connect, result, submit};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect as connect_to,
    sendmsg, setsockopt, socket, sockopt,
};
use punctual_daemon::metrics_socket;
use punctual_ipc::{ClientChannel, PROTOCOL_VERSIONS, PixelFormat};
use punctual_platform::clock::now_ns;
use punctual_platform::poll::{is_hung_up, wait_readable};

/// As long as the sockets linger, in s: far beyond what anything here may take.
const LINGER_S: i32 = 600;

/// Far less than that, and far more than a busy machine takes, in ns.
const SOON_NS: u64 = 20_000_000_000;

/// Sockets whose last close waits for a peer that does not read.
struct Lingering {
    sockets: Vec<TcpStream>,
    _silent: Vec<TcpStream>,
}

impl Lingering {
    fn new(count: usize) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let (mut sockets, mut silent) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut socket = TcpStream::connect(address).expect("a peer");
            silent.push(listener.accept().expect("a peer").0);
            socket.set_nonblocking(true).expect("ours");
            while socket.write(&[0; 65536]).is_ok() {}
            let linger = libc::linger {
                l_onoff: 1,
                l_linger: LINGER_S,
            };
            setsockopt(&socket, sockopt::Linger, &linger).expect("ours");
            // Only a blocking one waits.
            socket.set_nonblocking(false).expect("ours");
            sockets.push(socket);
        }
        Self {
            sockets,
            _silent: silent,
        }
    }

    fn raw(&self) -> Vec<RawFd> {
        self.sockets.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Only the process that these were sent to has them now, and their peers stay. Closing these is not the
    /// last close, so nothing lingers here.
    fn leave(&mut self) {
        self.sockets.clear();
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        // Not sent: this is the last close.
        let at_once = libc::linger {
            l_onoff: 0,
            l_linger: 0,
        };
        for socket in &self.sockets {
            let _ = setsockopt(socket, sockopt::Linger, &at_once);
        }
    }
}

/// An opening for `task`, RGB, no layout, `buffers` buffers.
fn opening(task: &str, buffers: u8) -> Vec<u8> {
    let version = PROTOCOL_VERSIONS.highest.to_le_bytes();
    let mut bytes = b"PNCT".to_vec();
    bytes.extend([version, version].concat());
    bytes.extend(3_u64.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.push(task.len() as u8);
    bytes.extend(task.bytes());
    bytes.extend([0, 0, buffers]);
    bytes
}

fn stranger(path: &Path, kind: SockType) -> OwnedFd {
    let family = AddressFamily::Unix;
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    let address = UnixAddr::new(path).expect("a path");
    connect_to(socket.as_raw_fd(), &address).expect("a daemon");
    socket
}

fn say(socket: &OwnedFd, message: &[u8], files: &[RawFd]) -> nix::Result<usize> {
    let parts = [IoSlice::new(message)];
    let rights = [ControlMessage::ScmRights(files)];
    let control = if files.is_empty() { &[][..] } else { &rights };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, control, flags, None)
}

/// A stranger that sends the messages, with the last one sockets that linger. The daemon stands still
/// meanwhile: if it closed them before this process does, this process would linger.
fn lingering_stranger(
    daemon: &Daemon,
    path: &Path,
    kind: SockType,
    messages: &[&[u8]],
) -> (OwnedFd, Lingering) {
    let mut lingering = Lingering::new(20);
    let (last, first) = messages.split_last().expect("a message");
    daemon.signal("STOP");
    let socket = stranger(path, kind);
    for message in first {
        say(&socket, message, &[]).expect("sent");
    }
    say(&socket, last, &lingering.raw()).expect("sent");
    lingering.leave();
    daemon.signal("CONT");
    (socket, lingering)
}

/// Frames, metrics and new clients are answered soon.
fn assert_well(daemon: &Daemon, client: &mut ClientChannel, when: &str) {
    let began = now_ns();
    submit(client);
    assert!(result(client).answer.is_some(), "{when}");
    daemon.report();
    drop(connect(&daemon.socket(), "watch", PixelFormat::Nv12));
    let took = now_ns() - began;
    assert!(took < SOON_NS, "{took} ns {when}");
}

/// Waits until the daemon has closed the connection.
fn assert_ended(socket: &OwnedFd, when: &str) {
    let limit = now_ns() + SOON_NS;
    while !is_hung_up(socket.as_fd()) {
        assert!(now_ns() < limit, "still connected {when}");
        let _ = wait_readable(socket.as_fd(), Some(now_ns() + 10_000_000));
    }
}

#[test]
fn descriptors_that_are_slow_to_close_hold_up_nobody_wherever_they_come() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let open = opening("watch", 0);
    // (What is sent one after the other, whether the descriptors come with the last one.)
    let points: [(&str, Vec<&[u8]>); 5] = [
        ("before an opening", vec![b"x"]),
        ("with an empty message", vec![b""]),
        ("with an opening that announces none", vec![&open]),
        ("behind an opening", vec![&open, b"more"]),
        (
            "behind messages that look like an end",
            vec![&open, b"", b""],
        ),
    ];
    let (path, kind) = (daemon.socket(), SockType::SeqPacket);
    for (point, messages) in &points {
        let (socket, _lingering) = lingering_stranger(&daemon, &path, kind, messages);
        assert_well(&daemon, &mut client, point);
        drop(socket);
        assert_well(&daemon, &mut client, point);
    }
    // Announced, where none are wanted.
    let announced = opening("watch", 20);
    let (socket, _announced) = lingering_stranger(&daemon, &path, kind, &[&announced]);
    assert_ended(&socket, "with buffers that are not wanted");
    assert_well(&daemon, &mut client, "after a refusal");
    let metrics = metrics_socket(&daemon.socket());
    let (socket, _with_metrics) = lingering_stranger(&daemon, &metrics, SockType::Stream, &[b"x"]);
    assert_well(&daemon, &mut client, "at the metrics");
    drop(socket);
    assert_well(&daemon, &mut client, "after the metrics");
    drop(client);
    daemon.stop();
}

#[test]
fn once_welcome_a_client_can_send_nothing() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let socket = stranger(&daemon.socket(), SockType::SeqPacket);
    say(&socket, &opening("front", 0), &[]).expect("sent");
    let limit = Some(now_ns() + SOON_NS);
    assert!(wait_readable(socket.as_fd(), limit), "welcome");
    let lingering = Lingering::new(1);
    let sent = say(&socket, b"x", &lingering.raw());
    assert_eq!(sent, Err(nix::errno::Errno::EPIPE));
    assert_well(&daemon, &mut client, "after an attempt");
    drop(client);
    daemon.stop();
}

#[test]
fn a_daemon_that_ends_does_not_wait_for_what_nobody_accepted() {
    let daemon = Daemon::start(MANIFEST);
    // Stopped, so that no connection is accepted any more; SIGTERM is seen when it goes on.
    daemon.signal("STOP");
    let mut strangers = Vec::new();
    for kind in [SockType::SeqPacket, SockType::Stream] {
        for _ in 0..10 {
            let path = match kind {
                SockType::SeqPacket => daemon.socket(),
                _ => metrics_socket(&daemon.socket()),
            };
            let mut lingering = Lingering::new(3);
            let socket = stranger(&path, kind);
            say(&socket, b"x", &lingering.raw()).expect("sent");
            lingering.leave();
            strangers.push((socket, lingering));
        }
    }
    let began = now_ns();
    daemon.signal("TERM");
    daemon.signal("CONT");
    let (status, _report) = daemon.end();
    assert_eq!(status.code(), Some(0));
    let took = now_ns() - began;
    assert!(took < SOON_NS, "{took} ns");
}

/// Processor time that a process has used, in ns.
fn cpu_ns(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks
        .map(|ticks| ticks.parse::<u64>().expect("ticks"))
        .sum();
    ticks * 10_000_000
}

#[test]
fn a_crowd_that_says_nothing_costs_next_to_nothing_and_makes_room_for_who_speaks() {
    let daemon = Daemon::start(MANIFEST);
    let (began, before) = (now_ns(), cpu_ns(daemon.pid()));
    // As many as there is room for, and as many again in the queue.
    let silent: Vec<_> = (0..64)
        .map(|_| stranger(&daemon.socket(), SockType::SeqPacket))
        .collect();
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    for socket in &silent {
        assert_ended(socket, "though it says nothing");
    }
    let (took, used) = (now_ns() - began, cpu_ns(daemon.pid()) - before);
    // A thread that spun would use as much as it took; what else runs here lengthens neither alike.
    assert!(used < took / 2, "{used} ns of {took} ns");
    drop(client);
    daemon.stop();
}

#[test]
fn a_daemon_without_descriptors_waits_for_better_times_in_silence() {
    let daemon = Daemon::start(MANIFEST);
    let limit = |nofile: &str| {
        let pid = daemon.pid().to_string();
        let arguments = ["--pid", &pid, &format!("--nofile={nofile}:4096")];
        let set = Command::new("prlimit").args(arguments).status();
        assert!(set.expect("prlimit runs").success());
    };
    limit("3");
    let (began, before) = (now_ns(), cpu_ns(daemon.pid()));
    let waiting: Vec<_> = (0..10)
        .map(|_| stranger(&daemon.socket(), SockType::SeqPacket))
        .collect();
    let mut metrics = UnixStream::connect(metrics_socket(&daemon.socket())).expect("a listener");
    // Nothing can happen until the limit is raised: a second of nothing.
    let _ = wait_readable(waiting[0].as_fd(), Some(began + 1_000_000_000));
    let (took, used) = (now_ns() - began, cpu_ns(daemon.pid()) - before);
    // A thread that spun would use as much as it took; what else runs here lengthens neither alike.
    assert!(used < took / 2, "{used} ns of {took} ns");
    limit("1024");
    let mut report = String::new();
    metrics.read_to_string(&mut report).expect("an answer");
    assert!(report.starts_with('{'), "{report}");
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    drop((client, waiting));
    daemon.stop();
}

/// Frames of 16 MB: a client's memory takes a tenth of a second to make.
fn large_frames() -> String {
    MANIFEST.replacen("height = 240", "height = 240, stride = 65536", 1)
}

#[test]
fn openings_that_close_before_or_after_their_answer_hold_up_nobody() {
    let daemon = Daemon::start(&large_frames());
    let mut watch = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    let path = daemon.socket();
    let stop = AtomicBool::new(false);
    let (mut reports, mut slow) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut opened = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let socket = stranger(&path, SockType::SeqPacket);
                let _ = say(&socket, &opening("front", 0), &[]);
                // At once, or at any moment of its admission.
                let closes_ns = now_ns() + opened % 8 * 5_000_000;
                let _ = wait_readable(socket.as_fd(), Some(closes_ns));
                opened += 1;
            }
        });
        let until_ns = now_ns() + 3_000_000_000;
        while now_ns() < until_ns {
            let began_ns = now_ns();
            daemon.report();
            reports += 1;
            slow += u32::from(now_ns() - began_ns > 50_000_000);
            submit(&mut watch);
            assert!(result(&mut watch).answer.is_some());
        }
        stop.store(true, Ordering::Relaxed);
    });
    // If housekeeping makes, brings in and frees the memory, most reports wait for that; a busy machine makes few wait.
    assert!(slow * 10 < reports, "{slow} of {reports} reports");
    daemon.report_when(|report| report.clients.in_use == 1);
    daemon.stop();
}
