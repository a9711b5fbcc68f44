//! How the kernel schedules the real-time threads, as it was granted at the start.

use punctual_platform::{affinity, thread};
use serde::{Deserialize, Serialize};

/// A thread, as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadReport {
    /// Its name, as `ps -L` shows it.
    pub name: String,
    /// `fifo 44`, `deadline 500 us in 10000 us`, `ordinary`.
    pub policy: String,
    /// The cores that it may run on.
    pub cores: Vec<u16>,
}

/// Of the threads of this process with these kernel ids; one that has ended is left out.
pub fn of(tids: &[i32]) -> Vec<ThreadReport> {
    let report = |tid: &i32| {
        let cores = affinity::cores_of(*tid).ok()?;
        Some(ThreadReport {
            name: thread::name_of(*tid)?,
            policy: thread::policy_of(*tid)?.to_string(),
            cores: cores.into_iter().map(|core| core as u16).collect(),
        })
    };
    tids.iter().filter_map(report).collect()
}
