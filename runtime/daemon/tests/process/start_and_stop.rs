//! A daemon starts, serves, drains and ends; and says why when it cannot.

use std::io::{BufRead, BufReader};

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};
use punctual_daemon::State;
use punctual_ipc::{ClientChannel, ConnectError, Hello, PixelFormat, Refusal, Rejection, Verdict};
use punctual_platform::clock;

#[test]
fn a_frame_gets_an_answer_and_the_report_says_so() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let sequence = submit(&mut client);
    let record = result(&mut client);
    assert_eq!(
        (record.sequence, record.verdict),
        (sequence, Verdict::OnTime)
    );
    let answer = record.answer.expect("an answer");
    assert!(
        answer.class.is_some_and(|class| class < 43) && answer.exit < 3,
        "{answer:?}"
    );
    let live = daemon.report();
    assert_eq!((live.state, live.clients.in_use), (State::Serving, 1));
    drop(client);
    let report = daemon.stop();
    assert_eq!(report.state, State::Terminated);
    assert_eq!((report.tasks[0].submitted, report.tasks[0].on_time), (1, 1));
    assert_eq!(report.tasks[0].latency_us.count, 1);
    assert!(report.device.starts_with("cpu ("), "{}", report.device);
}

#[test]
fn sigterm_answers_what_was_accepted() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    let submitted = 8;
    for _ in 0..submitted {
        submit(&mut client);
    }
    daemon.report_when(|report| report.tasks[1].submitted == submitted);
    let report = daemon.stop();
    let mut verdicts = Vec::new();
    for _ in 0..submitted {
        verdicts.push(result(&mut client).verdict);
    }
    let answered = verdicts.iter().filter(|v| **v == Verdict::OnTime).count();
    assert_eq!(answered as u64, report.tasks[1].on_time);
    assert_eq!(report.tasks[1].submitted, submitted);
    assert!(client.is_hung_up());
}

#[test]
fn a_drain_that_exceeds_its_bound_counts_what_it_loses() {
    let manifest = MANIFEST
        .replace("board = \"host\"", "board = \"host\"\ndrain_timeout_ms = 1")
        .replace("queue_depth = 8", "queue_depth = 63");
    let daemon = Daemon::start(&manifest);
    let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    for _ in 0..63 {
        submit(&mut client);
    }
    daemon.signal("TERM");
    let (status, report) = daemon.end();
    let lost: u64 = report.tasks.iter().map(|task| task.lost).sum();
    // A machine on which 63 frames take less than a millisecond loses nothing.
    assert_eq!(
        status.code(),
        Some(if lost > 0 { 6 } else { 0 }),
        "{report:#?}"
    );
}

#[test]
fn a_second_signal_ends_the_drain_at_once() {
    let manifest = MANIFEST
        .replace(
            "board = \"host\"",
            "board = \"host\"\ndrain_timeout_ms = 60000",
        )
        .replace("queue_depth = 8", "queue_depth = 63");
    let daemon = Daemon::start(&manifest);
    let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    for _ in 0..63 {
        submit(&mut client);
    }
    daemon.signal_twice();
    let (status, report) = daemon.end();
    let lost: u64 = report.tasks.iter().map(|task| task.lost).sum();
    // A machine that answers 63 frames between two signals is not interrupted.
    assert_eq!(
        status.code(),
        Some(if lost > 0 { 7 } else { 0 }),
        "{report:#?}"
    );
}

#[test]
fn the_ready_line_comes_through_the_inherited_descriptor() {
    let folder = Folder::with(MANIFEST);
    let (reader, writer) = nix::unistd::pipe().expect("a pipe");
    let number = std::os::fd::AsRawFd::as_raw_fd(&writer).to_string();
    let mut child = folder
        .command()
        .args(["--ready-fd", &number])
        .spawn()
        .expect("punctuald starts");
    drop(writer);
    let lines = BufReader::new(std::fs::File::from(reader)).lines().take(2);
    let lines: Vec<String> = lines.map(|line| line.expect("a line")).collect();
    assert_eq!(lines, ["ready", "over"]);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn the_report_says_how_long_the_start_took_until_each_task_was_ready_and_answered() {
    let daemon = Daemon::start(MANIFEST);
    let mut front = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut front);
    assert!(result(&mut front).answer.is_some());
    drop(front);
    let report = daemon.stop();
    let start = &report.start;
    assert!(start.ready_ms > Some(0.0) && start.whole_ms >= start.ready_ms);
    assert_eq!((start.tasks_ready, start.loading), (2, false));
    assert_eq!(start.failures, []);
    for task in &report.tasks {
        let start = &task.start;
        assert_eq!(start.readiness, "whole");
        assert!(
            start.ready_ms > Some(0.0) && start.whole_ms >= start.ready_ms,
            "{start:?}"
        );
        // The other one's client sent nothing.
        assert_eq!(start.answered_ms.is_some(), task.name == "front");
    }
}

#[test]
fn every_startup_error_has_its_code_and_says_what_is_wrong() {
    let folder = Folder::with(MANIFEST);
    let expect = |extra: &[&str], code: i32, words: &str| {
        let (found, said) = folder.refusal(extra);
        assert_eq!(found, Some(code), "{said}");
        assert!(said.contains(words), "{words:?} is not in {said:?}");
    };
    expect(&["--nonsense"], 2, "--nonsense");
    expect(&["--ready-fd", "777"], 5, "777");

    folder.write("manifest.toml", b"[daemon]\nboard = 3\n");
    expect(&[], 3, "board");
    folder.write("manifest.toml", &[0xff; 100]);
    expect(&[], 4, "manifest.toml");
    folder.remove("manifest.toml");
    expect(&[], 4, "manifest.toml");
    folder.write("manifest.toml", MANIFEST.as_bytes());

    folder.write("signs.profile.json", b"{}");
    expect(&[], 3, "profile");
    folder.remove("signs.profile.json");
    expect(&[], 4, "profile");
    folder.remove("signs.punctual");
    expect(&[], 4, "signs.punctual");
    folder.write("signs.punctual", b"not a package");
    expect(&[], 4, "package");
}

#[test]
fn a_socket_that_cannot_be_had_is_an_error_of_resources() {
    let daemon = Daemon::start(MANIFEST);
    let (code, said) = daemon.folder.refusal(&[]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("another daemon"), "{said}");
    let mut nowhere = daemon.folder.command();
    nowhere
        .arg("--socket")
        .arg(daemon.folder.path("no/such/folder"));
    // The later one counts, as with any option.
    let output = nowhere.output().expect("punctuald runs");
    assert_ne!(output.status.code(), Some(0));
    daemon.stop();
}

#[test]
fn what_a_dead_daemon_left_behind_does_not_hinder_the_next() {
    let mut daemon = Daemon::start(MANIFEST);
    daemon.kill();
    let folder = &daemon.folder;
    assert!(folder.path("socket").exists() && folder.path("socket.metrics").exists());
    let mut child = folder.command().spawn().expect("punctuald starts");
    let limit = clock::now_ns() + crate::support::LIMIT.as_nanos() as u64;
    while punctual_daemon::Report::live(&folder.path("socket")).is_err() {
        assert!(clock::now_ns() < limit, "the second daemon does not serve");
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn whom_the_plan_has_no_place_for_is_told_why() {
    let daemon = Daemon::start(MANIFEST);
    let refusal = |task: &str, format| {
        let task = task.to_owned();
        match ClientChannel::connect(&daemon.socket(), &Hello::new(task, format)) {
            Err(ConnectError::Refused(refusal)) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    };
    let unknown = refusal("nobody", PixelFormat::Rgb8);
    assert!(matches!(unknown, Refusal::UnknownTask { .. }), "{unknown}");
    let format = refusal("front", PixelFormat::Nv12);
    assert!(matches!(format, Refusal::Format { .. }), "{format}");
    let first = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let _second = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let full = refusal("front", PixelFormat::Rgb8);
    assert_eq!(full, Refusal::Full { clients: 2 });
    drop(first);
    daemon.report_when(|report| report.clients.in_use == 1);
    let _third = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let report = daemon.stop();
    assert_eq!((report.clients.accepted, report.clients.refused), (3, 3));
}

#[test]
fn a_frame_from_the_future_is_refused_by_name() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let slot = client.slot().expect("a free slot");
    let tomorrow = clock::now_ns() + 86_400_000_000_000;
    slot.submit(tomorrow, None, punctual_ipc::Crop::default())
        .expect("submitted");
    let record = result(&mut client);
    let future = Verdict::Rejected(Rejection::CapturedInFuture);
    assert_eq!(record.verdict, future);
    let report = daemon.stop();
    assert_eq!(report.tasks[0].rejected.invalid, 1);
}

#[test]
fn a_daemon_ends_with_the_process_that_started_it() {
    let folder = Folder::with(MANIFEST);
    let mut daemon = folder.command();
    daemon.arg("--end-with-parent");
    let ready = std::os::unix::net::UnixDatagram::bind(folder.path("notify")).expect("a socket");
    ready
        .set_read_timeout(Some(crate::support::LIMIT))
        .expect("a time limit");
    // A shell that starts the daemon and waits.
    let mut shell = std::process::Command::new("sh")
        .args(["-c", "\"$@\" & wait", "sh"])
        .arg(daemon.get_program())
        .args(daemon.get_args())
        .env("NOTIFY_SOCKET", folder.path("notify"))
        .spawn()
        .expect("a shell");
    crate::support::wait_for(&ready, "READY=1");
    shell.kill().expect("it runs");
    shell.wait().expect("it ends");
    crate::support::wait_for(&ready, "STOPPING=1");
    let limit = clock::now_ns() + crate::support::LIMIT.as_nanos() as u64;
    while !folder.path("report.json").exists() {
        assert!(clock::now_ns() < limit, "no report");
    }
}
