//! Which cores this process may use, and pinning to one.

use std::fmt::Write as _;

use crate::error::{Missing, OsError, check};

/// The cores that the calling thread may run on, by the kernel's numbers, rising.
pub fn available_cores() -> Result<Vec<usize>, OsError> {
    cores_of(0)
}

/// The cores that thread `tid` (0: the calling one) may run on, rising.
pub fn cores_of(tid: i32) -> Result<Vec<usize>, OsError> {
    // SAFETY: a cpu_set_t is a plain bit mask; all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid for writes of its own size.
    check("sched_getaffinity", unsafe {
        libc::sched_getaffinity(tid, size_of::<libc::cpu_set_t>(), &raw mut set)
    })?;
    Ok((0..libc::CPU_SETSIZE as usize)
        // SAFETY: the index is below CPU_SETSIZE.
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect())
}

/// The cores that the kernel keeps other programs from (`isolcpus=`), rising; none if it does not tell.
#[must_use]
pub fn isolated_cores() -> Vec<u16> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/isolated");
    list.ok()
        .and_then(|list| cores_in(&list))
        .unwrap_or_default()
}

/// A list as the kernel writes it, `0-3,6`, as numbers; none if it is something else.
#[must_use]
pub fn cores_in(list: &str) -> Option<Vec<u16>> {
    /// More are no list of cores.
    const CORES_MAX: u16 = 4096;
    let mut cores = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last >= CORES_MAX {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

/// Cores, rising, as the kernel writes them: `0-3,6`.
#[must_use]
pub fn shown(cores: &[u16]) -> String {
    let mut text = String::new();
    let mut rest = cores;
    while let Some(&first) = rest.first() {
        let run = (first..).zip(rest).take_while(|(a, b)| a == *b).count();
        let comma = if text.is_empty() { "" } else { "," };
        let last = rest[run - 1];
        let _ = match run {
            1 => write!(text, "{comma}{first}"),
            _ => write!(text, "{comma}{first}-{last}"),
        };
        rest = &rest[run..];
    }
    text
}

/// Pins the calling thread to `core`.
pub fn pin_current_thread(core: usize) -> Result<(), Missing> {
    // `CPU_SET` panics at a larger number.
    if core >= libc::CPU_SETSIZE as usize {
        return Err(Missing::Affinity);
    }
    // SAFETY: as in `available_cores`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: `set` is valid for reads of its own size.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 {
        Ok(())
    } else {
        Err(Missing::Affinity)
    }
}

/// Lets the calling thread, and those that it starts from now on, run on `cores` only.
pub fn keep_current_thread_to(cores: &[usize]) -> Result<(), Missing> {
    keep_thread_to(0, cores)
}

/// Lets thread `tid` of this process (0: the calling one) run on `cores` only.
pub fn keep_thread_to(tid: i32, cores: &[usize]) -> Result<(), Missing> {
    // SAFETY: as in `available_cores`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in cores.iter().filter(|&&c| c < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: `set` is valid for reads of its own size.
    let result =
        unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 {
        Ok(())
    } else {
        Err(Missing::Affinity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_sees_only_its_core() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let core = *available_cores().unwrap().last().unwrap();
                pin_current_thread(core).unwrap();
                assert_eq!(available_cores().unwrap(), [core]);
            });
        });
    }

    #[test]
    fn lists_of_cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(cores_in("0-3,6\n"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(cores_in("\n"), Some(Vec::new()));
        assert_eq!(cores_in("(null)"), None);
        assert_eq!(cores_in("0-65535"), None);
        assert_eq!(shown(&[0, 1, 2, 3, 6]), "0-3,6");
    }

    #[test]
    fn a_core_that_does_not_exist_is_reported_missing() {
        assert_eq!(pin_current_thread(1_023), Err(Missing::Affinity));
        assert_eq!(pin_current_thread(usize::MAX), Err(Missing::Affinity));
    }
}
