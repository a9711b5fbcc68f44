//! A bound on how long system calls of a thread may sleep.
//!
//! Closing a descriptor may wait for another process. A TCP socket with `SO_LINGER` waits for its peer, for as
//! long as the process that set the option chose. No flag of `close` helps. Most such waits end early when the
//! thread has a signal to handle; the kernel closes the descriptor all the same. So a timer signals the thread.
//!
//! Waits that only the end of the process interrupts are not bounded by this (`flush` of a file
//! system in user space, which `close` of an installed descriptor calls).

use std::ptr;
use std::sync::Once;

use crate::clock;
use crate::error::{OsError, check};
use crate::thread::current_tid;

/// A timer of one thread, which signals it again and again while it is on.
#[derive(Debug)]
pub struct Interrupter {
    timer: libc::timer_t,
    /// A timer signals the thread that made it, so it must not move to another.
    _thread: std::marker::PhantomData<*const ()>,
}

/// The signal does nothing but end a wait. Real-time signals are the program's own; the first ones
/// are the C library's, which `SIGRTMIN` accounts for.
fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// Installs the handler, once. It is never taken away, so that no late signal ends the process.
fn handle_signal() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        // SAFETY: a zeroed sigaction is one without flags (no SA_RESTART: calls are to end) and with
        // an empty mask; the handler does nothing, so it may run at any point.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(signal(), &raw const action, ptr::null_mut());
        }
    });
}

impl Interrupter {
    /// Of the calling thread; off.
    pub fn of_this_thread() -> Result<Self, OsError> {
        handle_signal();
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: a zeroed sigevent is a valid one; what is asked for is filled in; `timer` is valid
        // for writes.
        let made = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal();
            event.sigev_notify_thread_id = current_tid();
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
        };
        check("timer_create", made)?;
        Ok(Self {
            timer,
            _thread: std::marker::PhantomData,
        })
    }

    /// Runs `body`; none of its calls that signals interrupt sleeps longer than `limit_ns`.
    pub fn limit<T>(&self, limit_ns: u64, body: impl FnOnce() -> T) -> T {
        // 0 would turn the timer off.
        self.set(limit_ns.max(1));
        let result = body();
        self.set(0);
        result
    }

    /// Signals every `period_ns`; 0: never. Again and again, since a signal that comes before a call sleeps
    /// does not interrupt it.
    fn set(&self, period_ns: u64) {
        let setting = libc::itimerspec {
            it_interval: clock::timespec(period_ns),
            it_value: clock::timespec(period_ns),
        };
        // SAFETY: our own timer and a valid setting; the old one is not asked for. It fails for
        // impossible times only, which `timespec` does not make.
        unsafe { libc::timer_settime(self.timer, 0, &raw const setting, ptr::null_mut()) };
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        // SAFETY: our own timer, not used afterwards.
        unsafe { libc::timer_delete(self.timer) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::poll::wait_readable;

    /// A socket whose close waits for a minute, and what must live on for that.
    pub(crate) fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (silent, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 65536]).is_ok() {}
        socket.set_nonblocking(false).unwrap();
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 60,
        };
        // SAFETY: an open socket, and an option of the size that is said.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const linger).cast(),
                size_of_val(&linger) as libc::socklen_t,
            )
        };
        check("setsockopt", set).unwrap();
        (socket, silent)
    }

    #[test]
    fn closing_a_socket_that_lingers_takes_no_longer_than_the_limit_allows() {
        let interrupter = Interrupter::of_this_thread().unwrap();
        let (socket, _silent) = lingering();
        let began = clock::now_ns();
        interrupter.limit(5_000_000, || drop(socket));
        let took = clock::now_ns() - began;
        assert!(took < 10_000_000_000, "{took} ns: as long as it lingers");
    }

    #[test]
    fn a_call_outside_of_the_limit_is_not_interrupted() {
        let interrupter = Interrupter::of_this_thread().unwrap();
        let (event, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        interrupter.limit(100_000, || {
            let until = clock::now_ns() + 1_000_000;
            assert!(!wait_readable(
                std::os::fd::AsFd::as_fd(&event),
                Some(until)
            ));
        });
        // SAFETY: no descriptors; sleeps for 5 ms, or until a signal comes.
        let woken = unsafe { libc::poll(ptr::null_mut(), 0, 5) };
        assert_eq!(woken, 0, "interrupted");
    }
}
