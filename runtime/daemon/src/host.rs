//! What this machine has and allows, found out once at start.

use punctual_plan::{Accounts, Host};
use punctual_platform::thread::{ThreadSpec, spawn_realtime};
use punctual_platform::{Missing, OsError, affinity};

/// Looks at the machine: cores, memory, privileges, processor.
pub fn detect() -> Result<Host, OsError> {
    let cores: Vec<u16> = affinity::available_cores()?
        .into_iter()
        .map(|core| core as u16)
        .collect();
    let mut isolated = affinity::isolated_cores();
    isolated.retain(|core| cores.contains(core));
    Ok(Host {
        cores,
        isolated,
        memory_bytes: available_memory(),
        realtime: may_be_realtime(),
        machine: punctual_device_cpu::machine(),
        clocks: punctual_device_cpu::clocks(),
        lanes: punctual_device_cpu::lanes(),
        program_bytes: mapped_files(),
        accounts: accounts(),
        gpu: None,
        ort: Err("it was not looked for: no partition has `device = \"ort\"`".to_owned()),
    })
}

/// The machine's own users and groups. Those of a directory service have numbers only: asking for
/// their names would bring its code into this process.
fn accounts() -> Accounts {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    Accounts::from_files(&read("/etc/passwd"), &read("/etc/group"))
}

/// Bytes of all files that this process has mapped: the program and its libraries, as long as it
/// has opened nothing. None if the kernel does not tell.
fn mapped_files() -> u64 {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| files_in(&maps))
}

fn files_in(maps: &str) -> u64 {
    let bytes = |line: &str| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let name = fields.nth(4)?;
        let address = |hex| u64::from_str_radix(hex, 16).ok();
        let bytes = address(end)?.checked_sub(address(start)?)?;
        name.starts_with('/').then_some(bytes)
    };
    maps.lines().filter_map(bytes).sum()
}

/// The most memory that this process ever had resident, in bytes; 0 if the kernel does not tell.
pub fn peak_memory() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| kibibytes(&text, "VmHWM:"))
        .unwrap_or(0)
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
    use super::{files_in, kibibytes};

    #[test]
    fn mapped_files_are_added_up_and_nothing_else() {
        let maps = "1000-3000 r-xp 00000000 08:01 12 /usr/bin/punctuald\n\
                    3000-4000 rw-p 00000000 00:00 0 \n\
                    5000-6000 r--p 00001000 08:01 13 /usr/lib/libc.so.6\n\
                    7000-9000 rw-p 00000000 00:00 0 [heap]\n";
        assert_eq!(files_in(maps), 0x3000);
    }

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal:       100 kB\nMemAvailable:      42 kB\n";
        assert_eq!(kibibytes(text, "MemAvailable:"), Some(42 * 1024));
        assert_eq!(kibibytes("MemTotal: 1 kB\n", "MemAvailable:"), None);
    }
}
