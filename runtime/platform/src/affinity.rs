//! Which cores this process may use, and pinning to one.

use crate::error::{Missing, OsError, check};

/// The cores that the calling thread may run on, by the kernel's numbers, rising.
///
/// # Errors
/// If the kernel does not tell (more than 1024 cores).
pub fn available_cores() -> Result<Vec<usize>, OsError> {
    // SAFETY: a cpu_set_t is a plain bit mask; all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid for writes of its own size.
    check("sched_getaffinity", unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set)
    })?;
    Ok((0..libc::CPU_SETSIZE as usize)
        // SAFETY: the index is below CPU_SETSIZE.
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect())
}

/// Pins the calling thread to `core`.
///
/// # Errors
/// [`Missing::Affinity`] if there is no such core or the process may not use it.
pub fn pin_current_thread(core: usize) -> Result<(), Missing> {
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
///
/// # Errors
/// [`Missing::Affinity`] if none of them is there and allowed.
pub fn keep_current_thread_to(cores: &[usize]) -> Result<(), Missing> {
    // SAFETY: as in `available_cores`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in cores.iter().filter(|&&c| c < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: `set` is valid for reads of its own size.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
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
    fn a_core_that_does_not_exist_is_reported_missing() {
        assert_eq!(pin_current_thread(1_023), Err(Missing::Affinity));
        assert_eq!(pin_current_thread(usize::MAX), Err(Missing::Affinity));
    }
}
