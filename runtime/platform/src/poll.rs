//! Waiting on many file descriptors at once (epoll), with a way for other threads to interrupt.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::clock;
use crate::error::{OsError, check};
use crate::event::Event;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// The number that the descriptor was [added](Poller::add) with.
    pub token: u64,
    pub readable: bool,
    /// The other side is gone (or the descriptor is in error): nothing more will come after what can still be read.
    pub hung_up: bool,
}

/// A set of descriptors to wait on. One thread waits; the set may be changed from others.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    waker: Waker,
    events: Box<[libc::epoll_event]>,
}

/// Interrupts a [`Poller::wait`] from any thread. Cheap to clone; never blocks.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<Event>,
}

/// The token of the poller's own waker, which is never reported.
const WAKER: u64 = u64::MAX;

impl Poller {
    /// An empty set that reports at most `capacity` descriptors at a time.
    ///
    /// # Panics
    /// If `capacity` is zero.
    pub fn new(capacity: usize) -> Result<Self, OsError> {
        assert!(capacity > 0, "a poller that can report nothing");
        // SAFETY: creates a descriptor that we then own.
        let epoll = unsafe {
            let raw = check("epoll_create1", libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            OwnedFd::from_raw_fd(raw)
        };
        let poller = Self {
            epoll,
            waker: Waker {
                event: Arc::new(Event::new()?),
            },
            // One more, so that the waker never takes a descriptor's place.
            events: vec![libc::epoll_event { events: 0, u64: 0 }; capacity + 1].into(),
        };
        let event = poller.waker.event.as_fd();
        // By edges: each signal is one, and none has to be read.
        let events = libc::EPOLLIN | libc::EPOLLET;
        poller.control(libc::EPOLL_CTL_ADD, event, events, WAKER)?;
        Ok(poller)
    }

    /// Watches `descriptor` for input and hang-up, level-triggered, to be reported as `token`.
    ///
    /// # Panics
    /// If `token` is `u64::MAX`.
    pub fn add(&self, descriptor: BorrowedFd<'_>, token: u64) -> Result<(), OsError> {
        let events = libc::EPOLLIN | libc::EPOLLRDHUP;
        self.start(descriptor, events, token)
    }

    /// As [`add`](Self::add), but edge-triggered: each time that something comes is reported once,
    /// whether or not it is read.
    ///
    /// # Panics
    /// If `token` is `u64::MAX`.
    pub fn add_edge(&self, descriptor: BorrowedFd<'_>, token: u64) -> Result<(), OsError> {
        self.start(descriptor, libc::EPOLLIN | libc::EPOLLET, token)
    }

    /// Watches a socket for its hang-up only, not for input. Shutting down our own reading side is no hang-up.
    ///
    /// # Panics
    /// If `token` is `u64::MAX`.
    pub fn add_hang_up(&self, descriptor: BorrowedFd<'_>, token: u64) -> Result<(), OsError> {
        // EPOLLHUP and EPOLLERR are always reported.
        self.start(descriptor, 0, token)
    }

    fn start(
        &self,
        descriptor: BorrowedFd<'_>,
        events: libc::c_int,
        token: u64,
    ) -> Result<(), OsError> {
        assert_ne!(token, WAKER, "this token is the waker's");
        self.control(libc::EPOLL_CTL_ADD, descriptor, events, token)
    }

    pub fn remove(&self, descriptor: BorrowedFd<'_>) -> Result<(), OsError> {
        self.control(libc::EPOLL_CTL_DEL, descriptor, 0, 0)
    }

    /// What interrupts [`wait`](Self::wait).
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits until a descriptor is ready, the waker was used, or `until_ns` (absolute; none: no
    /// limit) has come. Reports what is ready; nothing if woken, timed out or interrupted by a signal. Does not
    /// allocate.
    pub fn wait(&mut self, until_ns: Option<u64>) -> impl Iterator<Item = Readiness> + '_ {
        let timeout = milliseconds_until(until_ns);
        // SAFETY: `events` is valid for writes of its own length.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as libc::c_int,
                timeout,
            )
        };
        // An error can only be EINTR here: the same as nothing ready.
        let ready = &self.events[..usize::try_from(count).unwrap_or(0)];
        ready.iter().filter_map(|event| {
            let (token, bits) = (event.u64, event.events as libc::c_int);
            (token != WAKER).then_some(Readiness {
                token,
                readable: bits & libc::EPOLLIN != 0,
                hung_up: bits & (libc::EPOLLHUP | libc::EPOLLRDHUP | libc::EPOLLERR) != 0,
            })
        })
    }

    fn control(
        &self,
        operation: i32,
        fd: BorrowedFd<'_>,
        events: libc::c_int,
        token: u64,
    ) -> Result<(), OsError> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: both descriptors are open; `event` is valid for reads.
        check("epoll_ctl", unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                operation,
                fd.as_raw_fd(),
                &raw mut event,
            )
        })
        .map(drop)
    }
}

impl AsFd for Poller {
    /// Readable when a [`wait`](Poller::wait) would report something: for a set within a set, or
    /// for another event loop.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Waker {
    /// Makes the poller's current or next wait return.
    pub fn wake(&self) {
        self.event.signal();
    }
}

/// Waits until `descriptor` has something to read or its other side is gone; false if `until_ns`
/// (absolute; none: no limit) came first.
#[must_use]
pub fn wait_readable(descriptor: BorrowedFd<'_>, until_ns: Option<u64>) -> bool {
    wait_for(descriptor, libc::POLLIN, until_ns)
}

/// As [`wait_readable`], until `descriptor` takes something (a pipe: `PIPE_BUF` bytes) or its reader is gone.
#[must_use]
pub fn wait_writable(descriptor: BorrowedFd<'_>, until_ns: Option<u64>) -> bool {
    wait_for(descriptor, libc::POLLOUT, until_ns)
}

fn wait_for(descriptor: BorrowedFd<'_>, events: libc::c_short, until_ns: Option<u64>) -> bool {
    loop {
        let seen = look(descriptor, events, milliseconds_until(until_ns));
        let interrupted = match seen {
            Ok(0) => false,
            Ok(_) => return true,
            Err(error) => error.code() == Some(libc::EINTR),
        };
        // A signal ends a wait that saw nothing so far. While its handler ran, the descriptor may have become ready and
        // the time may have passed, so only a look that was not interrupted says that it is not ready.
        if !interrupted && until_ns.is_some_and(|until| clock::now_ns() >= until) {
            return false;
        }
    }
}

/// What of `events` there is, once there is any or `timeout_ms` is over: 0 then.
fn look(
    descriptor: BorrowedFd<'_>,
    events: libc::c_short,
    timeout_ms: libc::c_int,
) -> Result<libc::c_short, OsError> {
    let mut poll = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    check("poll", unsafe { libc::poll(&raw mut poll, 1, timeout_ms) })?;
    Ok(poll.revents)
}

/// Whether the other side of a socket has gone; looks only, reads nothing, never blocks.
#[must_use]
pub fn is_hung_up(descriptor: BorrowedFd<'_>) -> bool {
    loop {
        match look(descriptor, libc::POLLRDHUP, 0) {
            Ok(seen) => return seen & (libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR) != 0,
            Err(error) if error.code() == Some(libc::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Whether the other side has closed its socket, whatever of ours is shut down; looks only, reads nothing, never blocks.
#[must_use]
pub fn is_closed(descriptor: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ready > 0 && poll.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Rounded up, so that a wait does not end before its time. (`epoll_pwait2` with nanoseconds came
/// with Linux 5.11; the floor is 5.10.)
fn milliseconds_until(until_ns: Option<u64>) -> libc::c_int {
    until_ns.map_or(-1, |until| {
        let ms = until.saturating_sub(clock::now_ns()).div_ceil(1_000_000);
        libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

    use super::*;

    fn soon() -> Option<u64> {
        Some(clock::now_ns() + 20_000_000_000)
    }

    #[test]
    fn readable_and_hung_up_descriptors_are_told_apart() {
        let mut poller = Poller::new(4).unwrap();
        let (mut a, b) = UnixStream::pair().unwrap();
        let (c, d) = UnixStream::pair().unwrap();
        poller.add(b.as_fd(), 1).unwrap();
        poller.add(d.as_fd(), 2).unwrap();
        a.write_all(b"x").unwrap();
        assert!(!is_hung_up(d.as_fd()));
        drop(c);
        let mut seen: Vec<Readiness> = poller.wait(soon()).collect();
        seen.sort_by_key(|ready| ready.token);
        assert_eq!(seen.len(), 2);
        assert!(seen[0].readable && !seen[0].hung_up);
        assert!(seen[1].hung_up);
        assert!(is_hung_up(d.as_fd()) && !is_hung_up(b.as_fd()));
    }

    #[test]
    fn a_waker_interrupts_a_wait_that_has_no_limit() {
        let mut poller = Poller::new(1).unwrap();
        let waker = poller.waker();
        std::thread::scope(|scope| {
            scope.spawn(move || waker.wake());
            assert_eq!(poller.wait(None).count(), 0);
        });
        // It counts once: the next wait runs into its limit.
        let limit = clock::now_ns() + 1_000_000;
        assert_eq!(poller.wait(Some(limit)).count(), 0);
        assert!(clock::now_ns() >= limit);
    }

    #[test]
    fn a_socket_that_is_watched_for_its_end_reports_no_input_and_no_shutdown_of_our_own() {
        let mut poller = Poller::new(2).unwrap();
        let (mut a, b) = UnixStream::pair().unwrap();
        poller.add_hang_up(b.as_fd(), 1).unwrap();
        a.write_all(b"x").unwrap();
        assert_eq!(poller.wait(Some(0)).count(), 0);
        b.shutdown(std::net::Shutdown::Read).unwrap();
        assert_eq!(poller.wait(Some(0)).count(), 0);
        assert!(!is_hung_up(a.as_fd()), "the other end may go on reading");
        drop(a);
        let seen: Vec<Readiness> = poller.wait(soon()).collect();
        assert!(seen.len() == 1 && seen[0].hung_up, "{seen:?}");
    }

    /// What the handler below works with: the end to write to, the waiting thread, and the time that it waits until.
    static WRITTEN: AtomicI32 = AtomicI32::new(-1);
    static WAITER: AtomicI32 = AtomicI32::new(0);
    static LIMIT_NS: AtomicU64 = AtomicU64::new(0);

    /// Makes the descriptor readable that the interrupted thread waits for, and returns only after its limit.
    extern "C" fn write_and_outlast(_signal: libc::c_int) {
        // SAFETY: one byte that is there; write(2) may be called in a handler.
        unsafe { libc::write(WRITTEN.load(Ordering::SeqCst), [1_u8].as_ptr().cast(), 1) };
        while clock::now_ns() < LIMIT_NS.load(Ordering::SeqCst) {}
    }

    /// Whether a thread of this process sleeps, as one does in a wait.
    fn sleeps(thread: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        stat.is_ok_and(|stat| {
            stat.rsplit_once(") ")
                .is_some_and(|(_, state)| state.starts_with('S'))
        })
    }

    #[test]
    fn what_became_ready_while_a_signal_was_handled_is_seen_though_the_limit_has_passed() {
        let handler: extern "C" fn(libc::c_int) = write_and_outlast;
        // SAFETY: a handler that only makes calls that a handler may make; no other test uses this signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
        }
        let (a, b) = UnixStream::pair().unwrap();
        WRITTEN.store(a.as_raw_fd(), Ordering::SeqCst);
        let until_ns = clock::now_ns() + 300_000_000;
        LIMIT_NS.store(until_ns, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                // SAFETY: no arguments.
                WAITER.store(unsafe { libc::gettid() }, Ordering::SeqCst);
                wait_readable(b.as_fd(), Some(until_ns))
            });
            while WAITER.load(Ordering::SeqCst) == 0 || !sleeps(WAITER.load(Ordering::SeqCst)) {
                assert!(!waiting.is_finished(), "the machine is too slow for this");
                std::thread::yield_now();
            }
            // SAFETY: a thread of ours, which is joined below.
            unsafe {
                let (process, thread) = (libc::getpid(), WAITER.load(Ordering::SeqCst));
                libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR2);
            }
            assert!(waiting.join().unwrap(), "it is readable");
        });
    }

    #[test]
    fn removed_descriptors_are_not_reported() {
        let mut poller = Poller::new(1).unwrap();
        let (mut a, b) = UnixStream::pair().unwrap();
        poller.add(b.as_fd(), 1).unwrap();
        a.write_all(b"x").unwrap();
        poller.remove(b.as_fd()).unwrap();
        assert_eq!(poller.wait(Some(0)).count(), 0);
        assert!(poller.remove(b.as_fd()).is_err());
    }
}
