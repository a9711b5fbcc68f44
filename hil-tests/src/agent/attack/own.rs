//! What has no safe interface in our dependencies: to own descriptors that came over a socket and to wait on a
//! word of shared memory, as attackers do, and to take signals as a service manager's children do.
#![allow(unsafe_code, reason = "see above; nothing else of the rig needs it")]

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

/// A program started from here on takes hang-ups, although whoever started us, as nohup(1) does, ignores them.
pub fn take_hang_ups() {
    // SAFETY: no handler is installed, and the signal has one disposition for the whole process either way.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
}

/// How long one wait lasts at most, so that a waiter notices the end of its time, in ns.
const WAIT_NS: i64 = 100_000_000;

/// Takes over descriptors that `recvmsg` put into this process just now.
pub fn received(raw: Vec<RawFd>) -> Vec<OwnedFd> {
    let owned = raw.into_iter().map(|fd| {
        // SAFETY: the kernel made this descriptor for us in `recvmsg`, and each is taken over once.
        unsafe { OwnedFd::from_raw_fd(fd) }
    });
    owned.collect()
}

/// Waits (not private) while the word at this address has this value; at most a tenth of a second.
pub fn wait_while(address: u64, value: u32) {
    let limit = libc::timespec {
        tv_sec: 0,
        tv_nsec: WAIT_NS,
    };
    // SAFETY: the kernel checks the address, only reads there, and answers EFAULT where nothing is.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            address,
            libc::FUTEX_WAIT,
            value,
            &raw const limit,
        );
    }
}
