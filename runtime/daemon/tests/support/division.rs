//! Which multiprocessors the launches of a daemon's emulated GPU ran on.
#![allow(dead_code)] // Each test binary uses a part.

use std::collections::BTreeSet;
use std::path::PathBuf;

use emulated_cuda::{Config, LoggedLaunch, read_launch_log};

/// A driver that logs its launches, and where. The file is the test's own.
pub fn logging(test: &str) -> (Config, PathBuf) {
    let name = format!("punctual-launches-{test}-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&file);
    let config = Config {
        launch_log: Some(file.to_str().expect("a name").to_owned()),
        // As many as the program asks for; the test's own environment says nothing.
        connections: Some(32),
        ..Config::default()
    };
    (config, file)
}

/// The launches of one process, without those of the trials of masks.
pub fn launches(file: &PathBuf, process: u32) -> Vec<LoggedLaunch> {
    let launches = read_launch_log(file);
    let _ = std::fs::remove_file(file);
    let mut launches = launches;
    launches.retain(|launch| launch.process == process);
    launches
}

/// No two launches of different streams had blocks on one multiprocessor at one time, and some had blocks on different
/// ones at one time; how many of the latter there are.
pub fn assert_apart(launches: &[LoggedLaunch]) -> usize {
    let mut at_once = 0;
    for (position, launch) in launches.iter().enumerate() {
        let later = launches[position + 1..].iter();
        let during = later.take_while(|later| later.began_ns < launch.last_began_ns);
        for other in during.filter(|other| other.stream != launch.stream) {
            assert!(!launch.meets(other), "{launch:?} and {other:?}");
            at_once += 1;
        }
    }
    at_once
}

/// The different sets of multiprocessors that launches ran on, by kernels that fill more than one.
pub fn divisions(launches: &[LoggedLaunch]) -> BTreeSet<Vec<u32>> {
    launches.iter().map(|launch| launch.sms.clone()).collect()
}
