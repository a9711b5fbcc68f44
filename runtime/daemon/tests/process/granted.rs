//! What the kernel granted the real-time threads is what the manifest asked for, or is said to be missing.

use crate::support::{Daemon, MANIFEST, connect, result, submit};
use punctual_ipc::PixelFormat;
use punctual_platform::affinity::available_cores;

fn manifest(keys: &str) -> String {
    MANIFEST.replace("board = \"host\"", &format!("board = \"host\"\n{keys}"))
}

/// Names and policies of the daemon's own threads.
fn policies(report: &punctual_daemon::Report) -> Vec<(&str, &str)> {
    let threads = report.threads.iter();
    let threads = threads.filter(|t| t.name == "scheduler" || t.name.starts_with("port/"));
    threads
        .map(|t| (t.name.as_str(), t.policy.as_str()))
        .collect()
}

#[test]
fn threads_are_scheduled_by_priority_each_on_its_core() {
    let daemon = Daemon::start(&manifest(""));
    let report = daemon.stop();
    let own = policies(&report);
    assert_eq!(own.len(), 1 + 4, "{:?}", report.threads);
    let realtime = !report
        .missing
        .iter()
        .any(|what| what.contains("SCHED_FIFO"));
    for (name, policy) in own {
        let expected = if realtime { "fifo " } else { "ordinary" };
        assert!(policy.starts_with(expected), "{name}: {policy}");
    }
    // Four intakes and a worker more.
    assert_eq!(report.threads.len(), 1 + 4 + 4 + 1, "{:?}", report.threads);
    assert!(report.threads.iter().all(|thread| thread.cores.len() == 1));
}

#[test]
fn reserved_time_is_granted_or_said_to_be_missing_and_frames_are_answered() {
    let cores = available_cores().expect("cores");
    let named = cores.last().expect("a core");
    // The daemon's threads on every core, the partition on the last.
    let text = manifest(&format!("scheduling = \"deadline\"\ncores = {cores:?}"));
    let text = text.replace("units = 1", &format!("cores = [{named}]"));
    let daemon = Daemon::start(&text);
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    submit(&mut client);
    assert!(result(&mut client).answer.is_some());
    drop(client);
    let report = daemon.stop();
    let refused = report
        .missing
        .iter()
        .any(|what| what.contains("SCHED_DEADLINE"));
    let realtime = !report
        .missing
        .iter()
        .any(|what| what.contains("SCHED_FIFO"));
    for (name, policy) in policies(&report) {
        let reserved = policy.starts_with("deadline ");
        assert_eq!(reserved, realtime && !refused, "{name}: {policy}");
    }
}

#[test]
fn after_ready_no_real_time_thread_faults_a_page_in() {
    let daemon = Daemon::start(&manifest("idle_latency_us = 100"));
    let mut client = connect(&daemon.socket(), "front", PixelFormat::Rgb8);
    for _ in 0..20 {
        submit(&mut client);
        result(&mut client);
    }
    drop(client);
    let report = daemon.stop();
    if report.missing.iter().any(|what| what.contains("mlockall")) {
        eprintln!("skipped: memory cannot be locked here");
        return;
    }
    // The client's memory is mapped and locked when it comes, by housekeeping.
    assert_eq!(report.page_faults_after_ready, 0, "{:?}", report.threads);
}

#[test]
fn a_core_dump_would_hold_neither_files_nor_memory_shared_with_clients() {
    let daemon = Daemon::start(&manifest(""));
    let path = format!("/proc/{}/coredump_filter", daemon.pid());
    let filter = std::fs::read_to_string(path).expect("the kernel has the setting");
    assert_eq!(filter.trim().trim_start_matches('0'), "31");
    daemon.stop();
}
