//! What this machine has and allows, found out once at start.

use std::path::Path;

use punctual_plan::{Accounts, Host, HostCores};
use punctual_platform::thread::{ThreadError, ThreadSpec, spawn_realtime};
use punctual_platform::{Missing, OsError, affinity, settings};

use crate::program;

/// Looks at the machine: cores, memory, privileges, processor.
pub fn detect() -> Result<Host, OsError> {
    Ok(Host {
        cores: cores()?,
        memory_bytes: available_memory(),
        realtime: may_be_realtime(),
        machine: punctual_device_cpu::machine(),
        clocks: punctual_device_cpu::clocks(),
        settings: settings::of_processor(Path::new("/")),
        lanes: punctual_device_cpu::lanes(),
        program_bytes: program::of_this_process(),
        accounts: accounts(),
        gpu: None,
        ort: Err("it was not looked for: no partition has `device = \"ort\"`".to_owned()),
    })
}

/// The cores that this process may use.
pub fn cores() -> Result<HostCores, OsError> {
    let available = affinity::available_cores()?.into_iter();
    let available: Vec<u16> = available.map(|core| core as u16).collect();
    let mut isolated = affinity::isolated_cores();
    isolated.retain(|core| available.contains(core));
    Ok(HostCores {
        available,
        isolated,
    })
}

/// The machine's own users and groups. Those of a directory service have numbers only: asking for
/// their names would bring its code into this process.
fn accounts() -> Accounts {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    Accounts::from_files(&read("/etc/passwd"), &read("/etc/group"))
}

/// Tries it, which is the only test that capabilities, limits and control groups agree on.
fn may_be_realtime() -> bool {
    match spawn_realtime(ThreadSpec::new("probe", None, Some(1)), || ()) {
        Ok(thread) => !thread.missing().contains(&Missing::Realtime),
        // What waits behind other real-time threads is one.
        Err(error) => matches!(error, ThreadError::Starved { .. }),
    }
}

/// What may be taken without pushing others out; no limit if the kernel does not tell.
fn available_memory() -> u64 {
    std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| kibibytes(&text, "MemAvailable:"))
        .unwrap_or(u64::MAX)
}

/// A figure of the kernel's files of `name: 12 kB` lines, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::kibibytes;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal:       100 kB\nMemAvailable:      42 kB\n";
        assert_eq!(kibibytes(text, "MemAvailable:"), Some(42 * 1024));
        assert_eq!(kibibytes("MemTotal: 1 kB\n", "MemAvailable:"), None);
    }
}
