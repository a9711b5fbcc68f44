//! Page faults: flat in steady state when memory was locked and pre-faulted as it should be.

use std::ops::Sub;

use crate::error::{OsError, check};

/// Page faults since a process or thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFaults {
    /// Answered from memory (a microsecond or so each).
    pub minor: u64,
    /// Answered from a disk (milliseconds).
    pub major: u64,
}

impl Sub for PageFaults {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            minor: self.minor.saturating_sub(earlier.minor),
            major: self.major.saturating_sub(earlier.major),
        }
    }
}

pub fn of_current_thread() -> Result<PageFaults, OsError> {
    usage(libc::RUSAGE_THREAD)
}

pub fn of_process() -> Result<PageFaults, OsError> {
    usage(libc::RUSAGE_SELF)
}

/// Of another thread of this process, by its kernel thread id. Reads `/proc`: for ordinary
/// threads only. None if the thread has ended.
#[must_use]
pub fn of_thread(tid: i32) -> Option<PageFaults> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    // The second field is the name in parentheses and may hold anything; fields 10 and 12 are
    // minflt and majflt (proc_pid_stat(5)).
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let minor = fields.nth(10 - 3)?.parse().ok()?;
    let major = fields.nth(1)?.parse().ok()?;
    Some(PageFaults { minor, major })
}

fn usage(who: libc::c_int) -> Result<PageFaults, OsError> {
    // SAFETY: a rusage is plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writes.
    check("getrusage", unsafe { libc::getrusage(who, &raw mut usage) })?;
    Ok(PageFaults {
        minor: usage.ru_minflt as u64,
        major: usage.ru_majflt as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_fresh_pages_is_counted_on_the_thread_and_the_process() {
        let before = (of_current_thread().unwrap(), of_process().unwrap());
        let mut fresh = vec![0_u8; 16 << 20];
        for at in (0..fresh.len()).step_by(4096) {
            fresh[at] = 1;
        }
        std::hint::black_box(&fresh);
        assert!((of_current_thread().unwrap() - before.0).minor > 0);
        assert!((of_process().unwrap() - before.1).minor > 0);
    }

    #[test]
    fn another_view_of_this_thread_agrees() {
        let tid = crate::thread::current_tid();
        let before = of_current_thread().unwrap().minor;
        let seen = of_thread(tid).unwrap().minor;
        assert!(before <= seen && seen <= before + 64);
        assert_eq!(of_thread(i32::MAX), None);
    }
}
