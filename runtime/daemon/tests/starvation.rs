//! A thread that gets no processor is not stuck: a more urgent program has its core, as a hypervisor might.
//!
//! Skipped, saying so, without real-time priorities or a second core. A program of its own, as it
//! takes a core from whoever runs beside it.
#![forbid(unsafe_code)]

mod support;

use crate::support::{Daemon, MANIFEST};
use punctual_platform::clock;
use punctual_platform::thread::{ThreadSpec, spawn_realtime};

/// Beyond the bound of the thread that it starves, 500 ms and what its longest stage may take.
const HOGGED_NS: u64 = 1_500_000_000;

#[test]
fn a_daemon_outlives_a_program_that_has_its_workers_core_for_longer_than_the_watchdogs_bound() {
    let manifest = MANIFEST.replace("board = \"host\"", "board = \"host\"\nwatchdog_ms = 500");
    let daemon = Daemon::start(&manifest);
    let report = daemon.report();
    let named = |name: &str| report.threads.iter().find(|thread| thread.name == name);
    let (worker, scheduler) = (named("main/0"), named("scheduler"));
    let (worker, scheduler) = worker.zip(scheduler).expect("they run");
    if !worker.policy.starts_with("fifo") || worker.cores == scheduler.cores {
        eprintln!("skipped: no real-time priorities here, or one core");
        return;
    }
    let until_ns = clock::now_ns() + HOGGED_NS;
    let hog = ThreadSpec::new("hog", Some(usize::from(worker.cores[0])), Some(97));
    let hog = spawn_realtime(hog, move || while clock::now_ns() < until_ns {});
    let hog = hog.expect("a thread");
    assert_eq!(hog.missing(), []);
    let starved = daemon.report_when(|report| !report.watchdog.silent.is_empty());
    let starved = &starved.watchdog.silent[0];
    assert_eq!(starved.thread, "main/0");
    // What it slept before it was told to take a turn counts as silence.
    assert!(starved.silent_ms < starved.bound_ms / 2, "{starved:?}");
    assert!(starved.starved_ms > 0, "{starved:?}");
    hog.join().expect("it ends");
    let report = daemon.report_when(|report| report.watchdog.silent.is_empty());
    let watchdog = &report.watchdog;
    assert!(
        watchdog.longest_starved_ms > starved.bound_ms,
        "{watchdog:?}"
    );
    assert_eq!((watchdog.starved_episodes, watchdog.episodes), (1, 0));
    daemon.stop();
}
