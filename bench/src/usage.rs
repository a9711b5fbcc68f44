//! Processor time and context switches of threads, and memory of processes, as the kernel counts them.

use std::fs;
use std::io;
use std::ops::Sub;

#[derive(Debug, thiserror::Error)]
#[error("/proc/{path}: {source}")]
pub struct UsageError {
    path: String,
    source: io::Error,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub ran_ns: u64,
    /// How often they were given a core.
    pub switches: u64,
}

impl Usage {
    /// Of all threads of a process, since each began.
    pub fn of_process(id: u32) -> Result<Self, UsageError> {
        let path = format!("{id}/task");
        let failed = |source| UsageError {
            path: path.clone(),
            source,
        };
        let mut all = Self::default();
        for thread in fs::read_dir(format!("/proc/{path}")).map_err(failed)? {
            let name = thread.map_err(failed)?.file_name();
            all += Self::read(format!("{path}/{}/schedstat", name.display()))?;
        }
        Ok(all)
    }

    /// Of a thread of this process.
    pub fn of_thread(tid: i32) -> Result<Self, UsageError> {
        Self::read(format!("self/task/{tid}/schedstat"))
    }

    fn read(path: String) -> Result<Self, UsageError> {
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "it has another form");
        fs::read_to_string(format!("/proc/{path}"))
            .and_then(|text| Self::parse(&text).ok_or_else(unknown))
            .map_err(|source| UsageError { path, source })
    }

    /// Time on a core, time waiting for one, and the number of times on one.
    fn parse(schedstat: &str) -> Option<Self> {
        let mut fields = schedstat.split_whitespace();
        Some(Self {
            ran_ns: fields.next()?.parse().ok()?,
            switches: fields.nth(1)?.parse().ok()?,
        })
    }
}

/// Memory that a process has now, in bytes: pages that it shows at several addresses, as the daemon those of equal weights,
/// count once, and those that it shares with other processes in part (`Pss`).
pub fn memory_of_process(id: u32) -> Result<u64, UsageError> {
    let path = format!("{id}/smaps_rollup");
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, "it has no line `Pss`");
    fs::read_to_string(format!("/proc/{path}"))
        .and_then(|text| proportional_bytes(&text).ok_or_else(unknown))
        .map_err(|source| UsageError { path, source })
}

fn proportional_bytes(smaps: &str) -> Option<u64> {
    let line = smaps.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.ran_ns += other.ran_ns;
        self.switches += other.switches;
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            ran_ns: self.ran_ns.saturating_sub(before.ran_ns),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_platform::thread::current_tid;

    use super::*;

    #[test]
    fn the_first_and_the_third_number_count() {
        let usage = Usage {
            ran_ns: 250,
            switches: 9,
        };
        assert_eq!(Usage::parse("250 70 9\n"), Some(usage));
        assert_eq!(Usage::parse("250 70"), None);
    }

    #[test]
    fn a_process_has_used_what_its_threads_have() {
        let own = Usage::of_thread(current_tid()).unwrap();
        let all = Usage::of_process(std::process::id()).unwrap();
        assert!(all.ran_ns >= own.ran_ns && all.switches >= own.switches.max(1));
    }

    #[test]
    fn a_process_has_the_memory_that_its_pages_take() {
        let smaps =
            "5600-7fff ---p 0 00:00 0 [rollup]\nRss: 9000 kB\nPss:    70 kB\nPss_Anon: 9 kB\n";
        assert_eq!(proportional_bytes(smaps), Some(70 << 10));
        assert_eq!(proportional_bytes("Rss: 9000 kB\n"), None);
        let own = memory_of_process(std::process::id()).unwrap();
        assert!(own > 1 << 20, "{own}");
    }
}
