//! One descriptor for whatever a client waits for, the same for its whole life.

use std::os::fd::{AsFd, BorrowedFd};

use punctual_platform::OsError;
use punctual_platform::poll::{Poller, Waker};
use punctual_platform::timer::Timer;

/// Readable when the client has something to do: the daemon rang or is gone, an attempt to connect
/// is due, or another thread asked for it.
#[derive(Debug)]
pub(crate) struct Watch {
    poller: Poller,
    timer: Timer,
}

const TIMER: u64 = 0;
const SOCKET: u64 = 1;

impl Watch {
    pub(crate) fn new() -> Result<Self, OsError> {
        let poller = Poller::new(2)?;
        let timer = Timer::new()?;
        poller.add(timer.as_fd(), TIMER)?;
        Ok(Self { poller, timer })
    }

    /// Watches a connection, from its handshake to its end; closing it ends the watch.
    pub(crate) fn add(&self, socket: BorrowedFd<'_>) -> Result<(), OsError> {
        self.poller.add(socket, SOCKET)
    }

    /// Is readable from then on (none: not because of the time).
    pub(crate) fn set(&self, due_ns: Option<u64>) {
        self.timer.set(due_ns);
    }

    /// Makes it readable for good.
    pub(crate) fn waker(&self) -> Waker {
        self.poller.waker()
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
