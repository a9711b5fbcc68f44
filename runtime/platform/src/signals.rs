//! SIGTERM and SIGINT as something to wait for, without a handler that could interrupt anything.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{OsError, check};
use crate::poll;

/// A request to terminate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, from a service manager.
    Terminate,
    /// SIGINT, from a terminal.
    Interrupt,
}

/// Receives SIGTERM and SIGINT of this process.
#[derive(Debug)]
pub struct TerminationSignals {
    descriptor: OwnedFd,
}

impl TerminationSignals {
    /// Blocks both signals on the calling thread and those that it starts from now on: call it
    /// before starting any thread.
    ///
    /// # Errors
    /// When out of file descriptors.
    pub fn take_over() -> Result<Self, OsError> {
        // SAFETY: a sigset_t is a bit mask that sigemptyset initialises.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            set
        };
        // SAFETY: `set` is initialised; the old mask is not asked for.
        let code =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if code != 0 {
            return Err(OsError::from_code("pthread_sigmask", code));
        }
        // SAFETY: `set` is initialised; -1 asks for a new descriptor, which we own.
        let descriptor = unsafe {
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            OwnedFd::from_raw_fd(check(
                "signalfd",
                libc::signalfd(-1, &raw const set, flags),
            )?)
        };
        Ok(Self { descriptor })
    }

    /// The next signal, waiting for it until `until_ns` (absolute; none: no limit).
    #[must_use]
    pub fn next(&self, until_ns: Option<u64>) -> Option<Signal> {
        loop {
            // SAFETY: a signalfd_siginfo is plain integers.
            let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
            let size = size_of_val(&info);
            // SAFETY: `info` is valid for writes of `size` bytes.
            let read =
                unsafe { libc::read(self.descriptor.as_raw_fd(), (&raw mut info).cast(), size) };
            if read == size as isize {
                return Some(match info.ssi_signo as i32 {
                    libc::SIGTERM => Signal::Terminate,
                    _ => Signal::Interrupt,
                });
            }
            if !poll::wait_readable(self.as_fd(), until_ns) {
                return None;
            }
        }
    }
}

impl AsFd for TerminationSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
