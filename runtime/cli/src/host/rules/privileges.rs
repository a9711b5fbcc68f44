//! What the process may do. Read of the process that checks: the daemon, started in the same way,
//! may do the same; under its unit it has what the unit gives it.

use crate::host::{Finding, Gravity, Machine, Subject};

/// Bits of linux/capability.h.
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

const REMEDY: &str = "run it as the systemd unit does, or: sudo setcap cap_sys_nice,cap_ipc_lock+ep $(command -v punctuald)";

pub fn realtime(machine: &Machine) -> Option<Finding> {
    if has_capability(machine, CAP_SYS_NICE)? {
        return Some(Finding::good(Subject::Privilege, "CAP_SYS_NICE"));
    }
    let limit = soft_and_hard(machine, "Max realtime priority")?;
    let highest: u8 = limit.1.parse().unwrap_or(0);
    let found = format!("no CAP_SYS_NICE; RLIMIT_RTPRIO at most {}", limit.1);
    Some(match highest {
        0 => Finding::new(Subject::Privilege, Gravity::Grave, found).mended_by(REMEDY),
        // A plan takes a handful of levels from `[daemon] priority` (40) on.
        1..50 => Finding::new(Subject::Privilege, Gravity::Costly, found)
            .mended_by("raise the limit to 95, or set [daemon] priority = 1 in the manifest"),
        _ => Finding::good(Subject::Privilege, found),
    })
}

pub fn memory_lock(machine: &Machine) -> Option<Finding> {
    if has_capability(machine, CAP_IPC_LOCK)? {
        return Some(Finding::good(Subject::MemoryLock, "CAP_IPC_LOCK"));
    }
    let (_, hard) = soft_and_hard(machine, "Max locked memory")?;
    if hard == "unlimited" {
        return Some(Finding::good(
            Subject::MemoryLock,
            "no limit on locked memory",
        ));
    }
    let found = format!("no CAP_IPC_LOCK; RLIMIT_MEMLOCK at most {hard} bytes");
    Some(Finding::new(Subject::MemoryLock, Gravity::Costly, found).mended_by(REMEDY))
}

fn has_capability(machine: &Machine, bit: u32) -> Option<bool> {
    let status = machine.text("/proc/self/status")?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> bit & 1 == 1)
}

/// A line of `/proc/self/limits`.
fn soft_and_hard(machine: &Machine, name: &str) -> Option<(String, String)> {
    let limits = machine.text("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    let mut words = line.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next()?))
}
