//! Clients that die or misbehave lose their place for a moment, and cost other clients nothing.
#![forbid(unsafe_code)]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Daemon, MANIFEST, assert_accounts, connect, result, submit};
use fastrand::Rng;
use punctual_ipc::{ClientChannel, ConnectError, Crop, Hello, PixelFormat, Refusal};
use punctual_platform::clock;

/// Where the client process connects; set for it only.
const SOCKET: &str = "PUNCTUAL_TEST_SOCKET";

/// How often a client is killed.
const DEATHS: u32 = 1_000;

/// Not a test but the client process of the tests below: submits frames as fast as it may, and
/// writes a line before, while and after each.
#[test]
#[ignore = "started by other tests as a process of its own"]
fn client_process() {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return;
    };
    let mut out = std::io::stdout();
    let mut step = |word: &str| writeln!(out, "{word}").is_ok();
    let mut client = connect_when_free(Path::new(&socket), "watch", PixelFormat::Nv12);
    while step("connected") {
        let seen = client.bell();
        while client.take().expect("the daemon lives").is_some() {}
        let Some(mut slot) = client.slot() else {
            client.wait(seen, None).expect("the daemon lives");
            continue;
        };
        let middle = slot.pixels().len() / 2;
        slot.pixels()[..middle].fill(90);
        step("half a frame");
        slot.pixels()[middle..].fill(200);
        slot.submit(clock::now_ns(), None, Crop::default())
            .expect("the daemon lives");
        step("submitted");
    }
}

fn connect_when_free(socket: &Path, task: &str, format: PixelFormat) -> ClientChannel {
    loop {
        let hello = Hello::new(task, format);
        match ClientChannel::connect(socket, &hello) {
            Ok(client) => return client,
            Err(ConnectError::Refused(Refusal::Full { .. } | Refusal::Unfinished { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn start_client(socket: &Path) -> Child {
    let this = std::env::current_exe().expect("a test binary");
    Command::new(this)
        .args(["--ignored", "--exact", "client_process", "--nocapture"])
        .env(SOCKET, socket)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the client process starts")
}

#[test]
fn a_thousand_clients_killed_mid_frame_cost_nobody_else_a_verdict_and_leave_nothing_behind() {
    let daemon = Daemon::start(MANIFEST);
    let mut witness = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let mut witnessed = 0;
    for death in 0..DEATHS {
        let mut client = start_client(&daemon.socket());
        let mut out = BufReader::new(client.stdout.take().expect("piped"));
        // Three lines a frame after the test harness's own: every point of a frame in turn.
        let lines = 3 + death % 17;
        let said = out.by_ref().lines().take(lines as usize).count();
        assert_eq!(said, lines as usize, "the client ended by itself");
        let sequence = submit(&mut witness);
        client.kill().expect("it runs");
        client.wait().expect("it ends");
        assert_eq!(result(&mut witness).sequence, sequence);
        witnessed += 1;
    }
    let report = daemon.report_when(|report| report.clients.in_use == 1);
    assert_eq!(report.clients.gone, u64::from(DEATHS));
    assert_eq!(report.channel_faults, 0);
    // What they left inside is over, and their places take new clients.
    daemon.report_when(|report| report.tasks[1].open == 0);
    let mut clients = [(); 2].map(|()| connect(&daemon.socket(), "watch", PixelFormat::Nv12));
    for client in &mut clients {
        let sequences: Vec<u64> = (0..8).map(|_| submit(client)).collect();
        let results: Vec<u64> = sequences.iter().map(|_| result(client).sequence).collect();
        let mut sorted = results.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, sequences);
    }
    drop((witness, clients));
    let report = daemon.stop();
    assert_eq!(report.tasks[0].submitted, witnessed);
    assert_eq!(report.tasks[0].failed.total(), 0);
}

#[test]
fn a_client_that_goes_away_with_frames_open_gets_its_verdicts_counted() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    for _ in 0..8 {
        submit(&mut client);
    }
    daemon.report_when(|report| report.tasks[1].submitted == 8);
    drop(client);
    let report = daemon.report_when(|report| report.clients.in_use == 0);
    assert_eq!(report.tasks[1].open, 0);
    daemon.stop();
}

#[test]
fn what_clients_submit_counts_however_soon_they_leave() {
    const CLIENTS: u64 = 300;
    let daemon = Daemon::start(MANIFEST);
    for _ in 0..CLIENTS {
        let mut client = connect_when_free(&daemon.socket(), "watch", PixelFormat::Nv12);
        for _ in 0..4 {
            submit(&mut client);
        }
    }
    let report = daemon.report_when(|report| report.clients.gone == CLIENTS);
    assert_eq!(report.tasks[1].submitted, 4 * CLIENTS);
    assert_accounts(&daemon.stop());
}

#[test]
fn a_connection_that_says_nothing_or_nonsense_is_sent_away() {
    let daemon = Daemon::start(MANIFEST);
    let connect_raw = || {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
        let address = UnixAddr::new(&daemon.socket()).expect("a short path");
        let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
        let raw = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        connect(std::os::fd::AsRawFd::as_raw_fd(&raw), &address).expect("a socket");
        raw
    };
    let silent = connect_raw();
    let noisy = connect_raw();
    nix::unistd::write(&noisy, b"GET / HTTP/1.1\r\n\r\n").expect("an open socket");
    // No thread has to wait for them.
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    let report = daemon.report_when(|report| report.clients.refused == 2);
    assert_eq!(report.clients.accepted, 1);
    drop((silent, noisy));
    daemon.stop();
}

/// Submits and takes at random until `frames` were submitted; each result names a frame that is
/// open, and when everything was taken none is.
fn feed(client: &mut ClientChannel, frames: u64, random: &mut Rng) -> BTreeSet<u64> {
    let mut open = BTreeSet::new();
    for _ in 0..frames {
        if client.slot().is_none() || random.usize(..4) == 0 {
            let wanted = !open.is_empty();
            if wanted {
                assert!(open.remove(&result(client).sequence), "a result twice");
            }
        }
        if client.slot().is_some() {
            assert!(open.insert(submit(client)), "a sequence twice");
        }
    }
    open
}

#[test]
fn clients_that_come_and_go_at_random_get_one_verdict_a_frame_while_they_stay() {
    let daemon = Daemon::start(MANIFEST);
    let socket = daemon.socket();
    std::thread::scope(|scope| {
        for seed in 0..6_u64 {
            let socket = &socket;
            let (task, format) = match seed % 2 {
                0 => ("front", PixelFormat::Rgb8),
                _ => ("watch", PixelFormat::Nv12),
            };
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed);
                for life in 0..12 {
                    let mut client = connect_when_free(socket, task, format);
                    let mut open = feed(&mut client, 20, &mut random);
                    if life % 3 == 0 {
                        // Goes away with frames open.
                        continue;
                    }
                    while !open.is_empty() {
                        assert!(open.remove(&result(&mut client).sequence), "a result twice");
                    }
                }
            });
        }
    });
    let report = daemon.report_when(|report| report.clients.in_use == 0);
    assert_eq!((report.clients.accepted, report.clients.gone), (72, 72));
    assert_eq!(report.channel_faults, 0);
    daemon.stop();
}
