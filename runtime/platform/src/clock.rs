//! The one clock: `CLOCK_MONOTONIC`, in nanoseconds. Clients and the daemon share it, since it is
//! the same for every process of a machine. Code that also runs in virtual time takes a [`Clock`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the time comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// [`now_ns`].
    Machine,
    /// Nanoseconds, stored there by the simulation. Relaxed: it is stored and read by one thread.
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// The present in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Machine => now_ns(),
            Self::Virtual(now_ns) => now_ns.load(Ordering::Relaxed),
        }
    }
}

/// The present in nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Processor time that the calling thread has used, in nanoseconds: for benchmarks on machines that others use too.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Seconds since 1970, for the date on a report. The system may set this clock: nothing is timed by it.
#[must_use]
pub fn unix_seconds() -> u64 {
    read(libc::CLOCK_REALTIME) / 1_000_000_000
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "these clocks exist on every Linux");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until `deadline_ns`, or not at all if it has passed. For periodic threads (a camera's
/// pace, the stall probe); a thread that waits for an event waits on a
/// [`Doorbell`](crate::Doorbell).
pub fn sleep_until_ns(deadline_ns: u64) {
    let time = timespec(deadline_ns);
    loop {
        // SAFETY: `time` is a valid timespec; with TIMER_ABSTIME no remainder is written.
        let code = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const time,
                std::ptr::null_mut(),
            )
        };
        // A signal ends the sleep early. The time is absolute, so that sleeping again adds no drift.
        if code != libc::EINTR {
            return;
        }
    }
}

/// `ns` as the kernel's type. Times beyond the type's range become its end, centuries away.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: (ns % 1_000_000_000) as _,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_never_goes_backwards() {
        let mut before = now_ns();
        for _ in 0..10_000 {
            let after = now_ns();
            assert!(after >= before);
            before = after;
        }
    }

    #[test]
    fn sleeping_until_the_past_returns_at_once() {
        sleep_until_ns(0);
    }

    #[test]
    fn sleeping_ends_after_its_deadline() {
        let deadline = now_ns() + 300_000;
        sleep_until_ns(deadline);
        assert!(now_ns() >= deadline);
    }
}
