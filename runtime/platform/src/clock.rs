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

/// Processor time that all threads of this process have used, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Seconds since 1970, for the date on a report. The system may set this clock: nothing is timed by it.
#[must_use]
pub fn unix_seconds() -> u64 {
    read(libc::CLOCK_REALTIME) / 1_000_000_000
}

/// What the clock that other programs date by is ahead of [`now_ns`], in ns; at this moment, as the system may set that clock.
#[must_use]
pub fn unix_ahead_ns() -> i64 {
    (read(libc::CLOCK_REALTIME) as i64).wrapping_sub(now_ns() as i64)
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

/// Seconds since 1970 as a date and time, for people.
#[must_use]
pub fn date_of(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Counted in years that begin on 1 March, so that the leap day is a year's last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!(
        "{:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        year + era * 400 + next,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
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

    #[test]
    fn seconds_become_dates() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_795_301_145, "2026-11-21 22:45:45 UTC"),
            (4_102_444_799, "2099-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(date_of(seconds), date);
        }
    }
}
