//! One thread of a running daemon is stopped by the debugger's interface, as a fault would stop it: the
//! binary under test has no hook for this. The watchdog must name it and end the process.
//!
//! Skipped, saying so, where the system does not let a process trace its child.

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit, wait_for};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use punctual_daemon::Report;
use punctual_ipc::{PixelFormat, Rejection, Verdict};
use punctual_platform::clock;

/// Half a second for every thread that has a real-time priority, two seconds otherwise.
fn manifest() -> String {
    MANIFEST.replace("board = \"host\"", "board = \"host\"\nwatchdog_ms = 500")
}

/// A thread of another process, stopped.
struct Stopped(Pid);

impl Stopped {
    /// None where this is not permitted.
    fn thread(pid: u32, name: &str) -> Option<Self> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
        let named = |task: &std::fs::DirEntry| {
            let comm = std::fs::read_to_string(task.path().join("comm"));
            comm.is_ok_and(|comm| comm.trim_end() == name)
        };
        let task = tasks.flatten().find(named);
        let task = task.unwrap_or_else(|| panic!("no thread is called {name}"));
        let tid = task.file_name().to_str().and_then(|tid| tid.parse().ok());
        let tid = Pid::from_raw(tid.expect("a number"));
        if let Err(error) = ptrace::seize(tid, ptrace::Options::empty()) {
            eprintln!("skipped: this system does not let a process trace its child ({error})");
            return None;
        }
        ptrace::interrupt(tid).expect("it is seized");
        let status = waitpid(tid, Some(WaitPidFlag::__WALL)).expect("it stops");
        assert!(matches!(status, WaitStatus::PtraceEvent(..)), "{status:?}");
        Some(Self(tid))
    }

    fn go_on(self) {
        ptrace::detach(self.0, None).expect("it is stopped");
    }

    /// Its process ends only when its tracer has seen it end.
    fn see_its_end(self) {
        while !matches!(
            waitpid(self.0, Some(WaitPidFlag::__WALL)),
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_)
        ) {}
    }
}

#[test]
fn a_stuck_thread_is_named_and_the_daemon_ends_within_the_bound() {
    for name in ["scheduler", "main/0"] {
        let daemon = Daemon::start(&manifest());
        let Some(thread) = Stopped::thread(daemon.pid(), name) else {
            return;
        };
        let stopped_ns = clock::now_ns();
        thread.see_its_end();
        let took_ms = (clock::now_ns() - stopped_ns) / 1_000_000;
        let (status, report) = daemon.end();
        assert_eq!(status.code(), Some(8), "{name}: {report:#?}");
        let silent = &report.watchdog.silent;
        assert_eq!(silent.len(), 1, "{name}: {silent:?}");
        assert_eq!(silent[0].thread, name);
        // What comes on top of the bound is a look of housekeeping and the writing of the report.
        let bound_ms = silent[0].bound_ms;
        assert!(silent[0].silent_ms >= bound_ms && silent[0].silent_ms < bound_ms + 500);
        assert!(took_ms < bound_ms + 5_000, "{name} took {took_ms} ms");
    }
}

#[test]
fn a_thread_that_goes_on_before_its_bound_costs_nothing_but_a_line() {
    let manifest = manifest().replace("watchdog_ms = 500", "watchdog_ms = 4000");
    let daemon = Daemon::start(&manifest);
    let Some(thread) = Stopped::thread(daemon.pid(), "main/0") else {
        return;
    };
    let report = daemon.report_when(|report| !report.watchdog.silent.is_empty());
    assert_eq!(report.watchdog.silent[0].thread, "main/0");
    // Best-effort work has given way meanwhile.
    let mut watch = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
    submit(&mut watch);
    daemon.report_when(|report| report.tasks[1].rejected.shedding == 1);
    thread.go_on();
    let refused = Verdict::Rejected(Rejection::Shedding);
    assert_eq!(result(&mut watch).verdict, refused);
    daemon.report_when(|report| report.watchdog.silent.is_empty());
    submit(&mut watch);
    assert!(result(&mut watch).answer.is_some());
    drop(watch);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    result(&mut client);
    drop(client);
    let report = daemon.stop();
    assert_eq!(report.watchdog.episodes, 1);
}

#[test]
fn a_client_that_its_port_or_intake_waits_for_is_disconnected_and_no_other_notices() {
    for name in ["port/0", "intake/0"] {
        let daemon = Daemon::start(&manifest());
        // The place of a task's first client is its first.
        let mut slow = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
        let mut other = connect(&daemon.socket(), "watch", PixelFormat::Nv12);
        // By then its threads have taken it over.
        submit(&mut slow);
        result(&mut slow);
        let Some(thread) = Stopped::thread(daemon.pid(), name) else {
            return;
        };
        submit(&mut slow);
        daemon.report_when(|report| report.watchdog.longest_ms > 2_000);
        submit(&mut other);
        assert!(result(&mut other).answer.is_some(), "{name}");
        thread.go_on();
        daemon.report_when(|report| report.channel_faults == 1 && report.clients.gone == 1);
        submit(&mut other);
        assert!(result(&mut other).answer.is_some(), "{name}");
        let mut next = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
        submit(&mut next);
        assert!(result(&mut next).answer.is_some(), "{name}");
        drop((slow, next, other));
        daemon.stop();
    }
}

#[test]
fn the_daemon_ends_although_a_port_waits_for_its_client() {
    let daemon = Daemon::start(&manifest());
    let Some(thread) = Stopped::thread(daemon.pid(), "port/0") else {
        return;
    };
    daemon.signal("TERM");
    thread.see_its_end();
    let (status, _) = daemon.end();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_daemon_that_was_stopped_as_a_whole_finds_no_thread_stuck() {
    let daemon = Daemon::start(&manifest());
    daemon.signal("STOP");
    let report = |daemon: &Daemon| Report::live(&daemon.socket());
    // It answers within a second if it can.
    assert!(report(&daemon).is_err());
    assert!(report(&daemon).is_err());
    daemon.signal("CONT");
    daemon.report_when(|report| report.seconds > 2.0);
    let report = daemon.stop();
    assert_eq!(report.watchdog.episodes, 0, "{:?}", report.watchdog);
}

#[test]
fn the_service_manager_hears_from_a_daemon_whose_threads_are_well() {
    let mut folder = Folder::with(&manifest());
    let wanted = [("WATCHDOG_USEC", "400000")];
    folder.environment = wanted.map(|(name, value)| (name, value.into())).to_vec();
    let daemon = Daemon::start_in(folder);
    for _ in 0..5 {
        wait_for(&daemon.manager, "WATCHDOG=1");
    }
    daemon.stop();
}
