//! What each signal does to a daemon.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use punctual_daemon::{Report, State};
use punctual_ipc::PixelFormat;
use punctual_platform::clock;

/// The report in the file, as soon as there is one that is as wanted.
fn written_when(daemon: &Daemon, wanted: impl Fn(&Report) -> bool) -> Report {
    let limit = clock::now_ns() + crate::support::LIMIT.as_nanos() as u64;
    loop {
        match Report::read(&daemon.folder.path("report.json")) {
            Ok(report) if wanted(&report) => return report,
            found => assert!(clock::now_ns() < limit, "still not so: {found:#?}"),
        }
    }
}

/// A command, started by another program, which then becomes it.
fn started_by(starter: &[&str], command: &Command) -> Command {
    let mut all = Command::new(starter[0]);
    all.args(&starter[1..]);
    all.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => all.env(name, value),
            None => all.env_remove(name),
        };
    }
    all
}

#[test]
fn whatever_asks_it_to_end_is_answered_with_a_drain() {
    for name in ["TERM", "INT", "HUP", "QUIT"] {
        // The process that runs the tests may have been started by nohup(1).
        let default = ["env", "--default-signal=HUP"];
        let daemon = Daemon::start_as(Folder::with(MANIFEST), |command| {
            *command = started_by(&default, command);
        });
        let mut client = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
        for _ in 0..8 {
            submit(&mut client);
        }
        daemon.report_when(|report| report.tasks[1].submitted == 8);
        daemon.signal(name);
        let (status, report) = daemon.end();
        assert_eq!(status.code(), Some(0), "{name}: {report:#?}");
        assert_eq!(report.state, State::Terminated);
        crate::support::assert_accounts(&report);
    }
}

#[test]
fn whatever_else_would_end_it_or_stop_it_does_nothing() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    let pid = Pid::from_raw(daemon.pid() as i32);
    for signal in [
        Signal::SIGALRM,
        Signal::SIGVTALRM,
        Signal::SIGPROF,
        Signal::SIGIO,
        Signal::SIGXFSZ,
        Signal::SIGPIPE,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
        Signal::SIGCHLD,
        Signal::SIGWINCH,
        Signal::SIGURG,
        Signal::SIGCONT,
    ] {
        kill(pid, signal).expect("it runs");
        submit(&mut client);
        result(&mut client);
    }
    drop(client);
    assert_eq!(daemon.stop().tasks[0].submitted, 12);
}

#[test]
fn the_reports_present_state_is_written_when_asked_for() {
    let daemon = Daemon::start(MANIFEST);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    for asked in 1..=2 {
        submit(&mut client);
        result(&mut client);
        daemon.signal("USR1");
        let report = written_when(&daemon, |report| report.tasks[0].submitted == asked);
        assert_eq!(report.state, State::Serving);
        assert_eq!(report.clients.in_use, 1);
    }
    drop(client);
    daemon.stop();
}

/// A daemon that was started otherwise than by [`Daemon`], ready; and what it tells the service manager.
fn start(folder: &Folder, mut command: Command) -> Child {
    let manager = UnixDatagram::bind(folder.path("notify")).expect("a socket");
    manager
        .set_read_timeout(Some(crate::support::LIMIT))
        .expect("a time limit");
    command.env("NOTIFY_SOCKET", folder.path("notify"));
    let child = command.spawn().expect("punctuald starts");
    crate::support::wait_for(&manager, "READY=1");
    child
}

fn terminate(mut child: Child, signal: Signal) -> Option<i32> {
    kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
    child.wait().expect("it ends").code()
}

#[test]
fn a_daemon_without_a_report_says_so_and_serves_on() {
    let folder = Folder::with(MANIFEST);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctuald"));
    command.arg(folder.path("manifest.toml")).stderr(writer);
    command.arg("--socket").arg(folder.path("socket"));
    let child = start(&folder, command);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGUSR1).expect("it runs");
    let mut said = BufReader::new(reader).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("SIGUSR1")));
    assert_eq!(terminate(child, Signal::SIGTERM), Some(0));
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_not_a_death() {
    let folder = Folder::with(MANIFEST);
    let daemon = folder.command();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 0 && exec \"$@\"", "sh"]);
    shell.arg(daemon.get_program()).args(daemon.get_args());
    let output = shell.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("File too large"), "{said}");
}

#[test]
fn a_daemon_that_was_started_by_nohup_outlives_the_session() {
    let ignoring = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
    let daemon = Daemon::start_as(Folder::with(MANIFEST), |command| {
        *command = started_by(&ignoring, command);
    });
    // Of signals that wait, the one of the lower number is read first: SIGHUP would come before SIGUSR1.
    daemon.signal("HUP");
    daemon.signal("USR1");
    let report = written_when(&daemon, |_| true);
    assert_eq!(report.state, State::Serving);
    daemon.stop();
}
