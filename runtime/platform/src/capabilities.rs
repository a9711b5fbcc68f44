//! Capabilities that a service holds to start its threads with their final settings, and needs for nothing after that.
//!
//! The kernel keeps them by thread. Each thread gives up its own once it is scheduled, and those that it starts have none.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{OsError, check};
use crate::limits;

/// Whether threads of this process give their capabilities up.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Has all threads that start from now on give their capabilities up once they have their final settings, if limits are enough
/// for what this process does later: priorities up to `priority`, memory that it locks. Not where root started it, who is
/// refused nothing else either. Whether they do.
pub fn give_up_after_starts(priority: u8) -> bool {
    // SAFETY: no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    let enough = limits::realtime_priority() >= u64::from(priority) && limits::locks_any_memory();
    let wanted = !is_root && enough;
    // Relaxed: threads that start later see it anyway; partner of the load in `give_up_if_wanted`.
    GIVEN_UP.store(wanted, Ordering::Relaxed);
    wanted
}

/// For the calling thread, if that was [wanted](give_up_after_starts).
pub fn give_up_if_wanted() {
    // Relaxed: partner of the store in `give_up_after_starts`.
    if GIVEN_UP.load(Ordering::Relaxed) {
        // Giving up what one has is never refused.
        let given_up = give_up();
        debug_assert!(given_up.is_ok());
    }
}

/// The kernel's structures, version 3 (capset(2)).
#[repr(C)]
struct Header {
    version: u32,
    thread: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Leaves the calling thread without any. The ambient ones, which a program that it starts would have, go with them.
fn give_up() -> Result<(), OsError> {
    let header = Header {
        version: VERSION_3,
        thread: 0,
    };
    let none = [Sets::default(); 2];
    // SAFETY: both are as this version has them, and valid for reads.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    check("capset", result as libc::c_int).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::spawn_ordinary;

    fn held() -> Vec<String> {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("a status");
        let sets = ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"];
        let lines = status
            .lines()
            .filter(|line| sets.iter().any(|set| line.starts_with(set)));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn a_thread_gives_its_own_up_and_no_others() {
        let before = held();
        let after = spawn_ordinary("first", || {
            give_up().expect("never refused");
            // What it starts has none either.
            let second = spawn_ordinary("second", held).expect("a thread");
            (held(), second.join().expect("it ends"))
        });
        let (own, started) = after.expect("a thread").join().expect("it ends");
        assert_eq!(own, started);
        assert_eq!(own.len(), 4);
        assert!(
            own.iter().all(|line| line.ends_with("\t0000000000000000")),
            "{own:?}"
        );
        assert_eq!(held(), before);
    }
}
