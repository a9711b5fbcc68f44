//! What this machine has and allows, found out once at start.

use punctual_plan::Host;
use punctual_platform::thread::{ThreadSpec, spawn_realtime};
use punctual_platform::{Missing, OsError, affinity};

/// Looks at the machine: cores, memory, privileges, processor.
///
/// # Errors
/// If the kernel does not tell the cores.
pub fn detect() -> Result<Host, OsError> {
    Ok(Host {
        cores: affinity::available_cores()?
            .into_iter()
            .map(|core| core as u16)
            .collect(),
        memory_bytes: available_memory(),
        realtime: may_be_realtime(),
        machine: punctual_device::profile::machine(),
        clocks: punctual_device::profile::clocks(),
        lanes: punctual_device::profile::lanes(),
    })
}

/// Tries it, which is the only test that capabilities, limits and control groups agree on.
fn may_be_realtime() -> bool {
    spawn_realtime(ThreadSpec::new("probe", None, Some(1)), || ())
        .is_ok_and(|thread| !thread.missing().contains(&Missing::Realtime))
}

/// What may be taken without pushing others out; no limit if the kernel does not tell.
fn available_memory() -> u64 {
    std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| available_in(&text))
        .unwrap_or(u64::MAX)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::available_in;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal:       100 kB\nMemAvailable:      42 kB\n";
        assert_eq!(available_in(text), Some(42 * 1024));
        assert_eq!(available_in("MemTotal: 1 kB\n"), None);
    }
}
