//! A moment as something that a [`Poller`](crate::poll::Poller) can wait for.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::clock;
use crate::error::{OsError, check};

/// A descriptor that becomes readable when its time has come, and stays so until it is set anew.
#[derive(Debug)]
pub struct Timer {
    descriptor: OwnedFd,
}

impl Timer {
    /// A timer that is not set.
    pub fn new() -> Result<Self, OsError> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: creates a descriptor that we then own.
        let descriptor = unsafe {
            let raw = libc::timerfd_create(libc::CLOCK_MONOTONIC, flags);
            OwnedFd::from_raw_fd(check("timerfd_create", raw)?)
        };
        Ok(Self { descriptor })
    }

    /// Its time is `at_ns` from now on (absolute, of [`clock::now_ns`]; none: never).
    pub fn set(&self, at_ns: Option<u64>) {
        let setting = libc::itimerspec {
            it_interval: clock::timespec(0),
            // A time of zero disarms the timer (timerfd_settime(2)).
            it_value: clock::timespec(at_ns.map_or(0, |at| at.max(1))),
        };
        // SAFETY: an open timerfd and a valid setting; the old one is not asked for. It fails for
        // impossible times only, which `timespec` does not make.
        unsafe {
            libc::timerfd_settime(
                self.descriptor.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const setting,
                std::ptr::null_mut(),
            );
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Poller;

    #[test]
    fn a_timer_is_readable_once_its_time_has_come_and_until_it_is_set_anew() {
        let timer = Timer::new().unwrap();
        let mut poller = Poller::new(1).unwrap();
        poller.add(timer.as_fd(), 7).unwrap();
        assert_eq!(poller.wait(Some(0)).count(), 0, "not set");
        let at = clock::now_ns() + 1_000_000;
        timer.set(Some(at));
        assert_eq!(poller.wait(Some(at + 20_000_000_000)).count(), 1);
        assert!(clock::now_ns() >= at);
        assert_eq!(poller.wait(Some(0)).count(), 1, "still");
        timer.set(None);
        assert_eq!(poller.wait(Some(0)).count(), 0);
        timer.set(Some(0));
        assert_eq!(poller.wait(None).count(), 1, "long past");
    }

    #[test]
    fn a_set_within_a_set_reports_that_it_would_report() {
        let timer = Timer::new().unwrap();
        let inner = Poller::new(1).unwrap();
        let mut outer = Poller::new(1).unwrap();
        inner.add(timer.as_fd(), 1).unwrap();
        outer.add(inner.as_fd(), 2).unwrap();
        assert_eq!(outer.wait(Some(0)).count(), 0);
        timer.set(Some(0));
        let tokens: Vec<u64> = outer.wait(None).map(|ready| ready.token).collect();
        assert_eq!(tokens, [2]);
    }
}
