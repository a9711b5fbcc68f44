//! A thread that gets no processor is not stuck: a more urgent program has its core, as a hypervisor might. The daemon
//! says who that is, and a start waits for it no longer than its bound.
//!
//! Skipped, saying so, without real-time priorities or a second core. A program of its own, as it
//! takes a core from other programs that run at the same time.
#![forbid(unsafe_code)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use crate::support::{Daemon, Folder, MANIFEST, connect, result, submit};
use punctual_ipc::{Failure, PixelFormat, Verdict};
use punctual_platform::clock;
use punctual_platform::thread::{RealtimeThread, START_NS_MAX, ThreadSpec, spawn_realtime};

/// Beyond the bound of the thread that it starves, 500 ms and what its longest stage may take.
const HOGGED_NS: u64 = 1_500_000_000;

/// More than any test here needs a core for.
const HOGGED_NS_MAX: u64 = 3 * START_NS_MAX;

/// Another program, as the daemon sees it, that keeps a core.
struct Hog {
    over: Arc<AtomicBool>,
    thread: RealtimeThread<()>,
}

impl Hog {
    fn on(core: u16) -> Self {
        Self::of(97, core)
    }

    fn of(priority: u8, core: u16) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let until_ns = clock::now_ns() + HOGGED_NS_MAX;
        let spec = ThreadSpec::new("hog", Some(usize::from(core)), Some(priority));
        let work = move || while !ends.load(Ordering::Relaxed) && clock::now_ns() < until_ns {};
        let thread = spawn_realtime(spec, work).expect("a thread");
        assert_eq!(thread.missing(), []);
        Self { over, thread }
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it ends");
    }
}

/// One test at a time: each takes a core from the others.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn manifest() -> String {
    MANIFEST.replace("board = \"host\"", "board = \"host\"\nwatchdog_ms = 500")
}

/// The core of the worker, if a hog there takes it from no thread but the worker; otherwise says that the test is skipped.
fn workers_core(daemon: &Daemon) -> Option<u16> {
    let report = daemon.report();
    let named = |name: &str| report.threads.iter().find(|thread| thread.name == name);
    let (worker, scheduler) = named("main/0").zip(named("scheduler")).expect("they run");
    if !worker.policy.starts_with("fifo") || worker.cores == scheduler.cores {
        eprintln!("skipped: no real-time priorities here, or one core");
        return None;
    }
    Some(worker.cores[0])
}

/// Of a daemon that is started and ended.
fn core_to_hog() -> Option<u16> {
    let daemon = Daemon::start(&manifest());
    let core = workers_core(&daemon);
    daemon.stop();
    core
}

#[test]
fn a_daemon_outlives_a_program_that_has_its_workers_core_for_longer_than_the_watchdogs_bound() {
    let _alone = alone();
    let daemon = Daemon::start(&manifest());
    let Some(core) = workers_core(&daemon) else {
        return;
    };
    let (since_ns, hog) = (clock::now_ns(), Hog::on(core));
    let starved = daemon.report_when(|report| !report.watchdog.silent.is_empty());
    let starved = &starved.watchdog.silent[0];
    assert_eq!(starved.thread, "main/0");
    // What it slept before it was told to take a turn counts as silence.
    assert!(starved.silent_ms < starved.bound_ms / 2, "{starved:?}");
    assert!(starved.starved_ms > 0, "{starved:?}");
    assert!(
        starved.who.contains("thread \"hog\" (fifo 97"),
        "{starved:?}"
    );
    daemon.report_when(|_| clock::now_ns() > since_ns + HOGGED_NS);
    hog.end();
    let report = daemon.report_when(|report| report.watchdog.silent.is_empty());
    let watchdog = &report.watchdog;
    assert!(
        watchdog.longest_starved_ms > starved.bound_ms,
        "{watchdog:?}"
    );
    assert_eq!((watchdog.starved_episodes, watchdog.episodes), (1, 0));
    daemon.stop();
}

#[test]
fn a_frame_whose_worker_gets_no_processor_fails_as_starved_whoever_has_the_core() {
    let _alone = alone();
    let daemon = Daemon::start(&manifest());
    let Some(core) = workers_core(&daemon) else {
        return;
    };
    let threads = daemon.report().threads;
    let worker = threads.iter().find(|thread| thread.name == "main/0");
    let priority = worker.and_then(|worker| worker.policy.strip_prefix("fifo ")?.parse().ok());
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    assert!(result(&mut client).answer.is_some());
    // Above all of the daemon's threads; and as urgent as the worker, as another daemon's is, below the stall probe.
    for priority in [97, priority.expect("it has one")] {
        let hog = Hog::of(priority, core);
        submit(&mut client);
        let verdict = result(&mut client).verdict;
        hog.end();
        let starved = Verdict::Failed(Failure::Starved);
        assert_eq!(verdict, starved, "beside priority {priority}");
        // As soon as the worker runs, the partition serves again.
        daemon.report_when(|report| {
            report.partitions[0].finished > 0 && report.watchdog.silent.is_empty()
        });
        let served = || {
            submit(&mut client);
            result(&mut client).answer.is_some()
        };
        assert!(
            std::iter::repeat_with(served)
                .take(1_000)
                .any(|served| served)
        );
    }
    drop(client);
    let report = daemon.stop();
    let failed = &report.tasks[0].failed;
    assert_eq!((failed.starved, failed.device), (2, 0), "{failed:?}");
}

#[test]
fn a_start_that_waits_for_a_core_says_who_has_it_and_is_ready_when_it_is_free() {
    let _alone = alone();
    let Some(core) = core_to_hog() else {
        return;
    };
    let folder = Folder::with(&manifest());
    let (leave, stays) = mpsc::channel::<()>();
    let spec = ThreadSpec::new("visitor", Some(usize::from(core)), Some(97));
    let visitor = spawn_realtime(spec, move || stays.recv().is_ok()).expect("a thread");
    let hog = Hog::on(core);
    let mut command = folder.command();
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let mut said = |words: &str| {
        let line = lines.find(|line| line.contains(words));
        line.unwrap_or_else(|| panic!("it ended without {words:?}"))
    };
    // For the first thread of the plan that the core is needed for.
    let waits = said("the start waits for thread ");
    assert!(waits.contains("thread \"hog\" (fifo 97"), "{waits}");
    hog.end();
    let ready = || punctual_daemon::Report::live(&folder.socket()).is_ok();
    let limit_ns = clock::now_ns() + START_NS_MAX;
    while !ready() {
        assert!(clock::now_ns() < limit_ns, "it is not ready");
    }
    // Those that do nothing at present are looked for after the start.
    assert!(said("threads of others may keep").contains("thread \"visitor\""));
    drop(leave);
    assert!(!visitor.join().expect("it ends"), "nobody spoke to it");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn a_start_whose_core_is_not_free_within_the_bound_ends_with_the_reason() {
    let _alone = alone();
    let Some(core) = core_to_hog() else {
        return;
    };
    let folder = Folder::with(&manifest());
    let hog = Hog::on(core);
    let since_ns = clock::now_ns();
    let (code, words) = folder.refusal(&[]);
    let took_ns = clock::now_ns() - since_ns;
    hog.end();
    assert!(took_ns < HOGGED_NS_MAX, "it did not end before the hog did");
    assert_eq!(code, Some(5), "{words}");
    let core = format!("did not get core {core} for 10 s");
    for part in [core.as_str(), "thread \"hog\" (fifo 97", "taskset -p"] {
        assert!(words.contains(part), "{words}");
    }
}
