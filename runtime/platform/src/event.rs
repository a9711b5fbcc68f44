//! An event as a descriptor (eventfd): signalled by one side, waited for by the other.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{OsError, check};

/// Readable from the first [`signal`](Self::signal) on until it is [cleared](Self::clear); each signal is an edge.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// An event that was not signalled.
    pub fn new() -> Result<Self, OsError> {
        // SAFETY: creates a descriptor that we then own.
        let event = unsafe {
            let raw = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            OwnedFd::from_raw_fd(check("eventfd", raw)?)
        };
        Ok(Self(event))
    }

    /// Takes over an event of another process's. That process can make it blocking, and then
    /// [`signal`](Self::signal) can block.
    #[must_use]
    pub fn received(file: OwnedFd) -> Self {
        Self(file)
    }

    pub fn signal(&self) {
        let one = 1_u64;
        // SAFETY: reads 8 bytes of `one`. A full counter (EAGAIN) is readable as well.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    pub fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: writes 8 bytes to `count`.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An event that an untrusted process signals, and that this one waits for without trusting it.
///
/// The other process has the same open file as we: it may read it, fill it, make it blocking and
/// have thousands of waiters on it. So we neither read nor write it. It is watched through an epoll
/// instance that no other process has. So a thread that adds this to its [`Poller`](crate::poll::Poller),
/// or takes it out, never contends for the wait queue that the other process can make long. Only
/// making and dropping this do: leave both to a thread that no other thread waits for.
#[derive(Debug)]
pub struct PeerEvent {
    event: Event,
    epoll: OwnedFd,
}

impl PeerEvent {
    /// An event that was not signalled.
    pub fn new() -> Result<Self, OsError> {
        let event = Event::new()?;
        // SAFETY: creates a descriptor that we then own.
        let epoll = unsafe {
            let raw = check("epoll_create1", libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            OwnedFd::from_raw_fd(raw)
        };
        let mut watched = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        // SAFETY: both descriptors are open; `watched` is valid for reads.
        check("epoll_ctl", unsafe {
            let (epoll, event) = (epoll.as_raw_fd(), event.as_fd().as_raw_fd());
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, event, &raw mut watched)
        })?;
        Ok(Self { event, epoll })
    }

    /// The descriptor to send to the other process.
    #[must_use]
    pub fn for_peer(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl AsFd for PeerEvent {
    /// To be waited for with [`Poller::add_edge`](crate::poll::Poller::add_edge): it stays readable
    /// for good, and each signal is an edge.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::Poller;

    /// How often `poller` reports something before it has nothing.
    fn reports(poller: &mut Poller) -> usize {
        std::iter::from_fn(|| (poller.wait(Some(0)).count() > 0).then_some(())).count()
    }

    #[test]
    fn each_signal_is_reported_at_most_once_and_the_last_one_always() {
        let event = PeerEvent::new().unwrap();
        let peer = Event::received(event.for_peer().try_clone_to_owned().unwrap());
        let mut poller = Poller::new(1).unwrap();
        peer.signal();
        poller.add_edge(event.as_fd(), 1).unwrap();
        assert_eq!(reports(&mut poller), 1, "signalled before it was watched");
        for signals in [1, 1, 5] {
            for _ in 0..signals {
                peer.signal();
            }
            assert_eq!(reports(&mut poller), 1);
        }
        poller.remove(event.as_fd()).unwrap();
        peer.signal();
        assert_eq!(reports(&mut poller), 0);
    }

    #[test]
    fn a_peer_that_drains_fills_and_blocks_the_event_only_silences_itself() {
        let event = PeerEvent::new().unwrap();
        let raw = event.for_peer().as_raw_fd();
        let peer = Event::received(event.for_peer().try_clone_to_owned().unwrap());
        let mut poller = Poller::new(1).unwrap();
        poller.add_edge(event.as_fd(), 1).unwrap();
        peer.signal();
        peer.clear();
        assert_eq!(reports(&mut poller), 0, "drained before it was heard");
        // SAFETY: plain numbers, an open descriptor.
        assert_eq!(unsafe { libc::fcntl(raw, libc::F_SETFL, 0) }, 0);
        let most = u64::MAX - 1;
        // SAFETY: reads 8 bytes of `most`; the counter is empty, so it does not block.
        assert_eq!(unsafe { libc::write(raw, (&raw const most).cast(), 8) }, 8);
        assert_eq!(reports(&mut poller), 1);
        peer.clear();
        peer.signal();
        assert_eq!(reports(&mut poller), 1);
    }
}
