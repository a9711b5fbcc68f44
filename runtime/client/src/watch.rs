//! One descriptor for whatever a client waits for, the same for its whole life.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_ipc::BellWatch;
use punctual_platform::event::Event;
use punctual_platform::poll::{Poller, Waker};
use punctual_platform::thread::{ThreadError, spawn_ordinary};
use punctual_platform::timer::Timer;
use punctual_platform::{OsError, clock};

/// Readable when the client has something to do: the daemon rang or is gone, an attempt to connect
/// is due, or another thread asked for it.
///
/// The daemon rings by a futex only, since it must not depend on what a client can do to a descriptor
/// that both have. So there is a thread that sleeps on the futex of the present connection.
#[derive(Debug)]
pub(crate) struct Watch {
    poller: Poller,
    timer: Timer,
    /// Signalled for each ring of the daemon.
    rung: Arc<Event>,
}

const TIMER: u64 = 0;
const SOCKET: u64 = 1;
const RUNG: u64 = 2;

/// How soon the thread of a connection that has ended notices, in ns.
const LOOK_NS: u64 = 100_000_000;

impl Watch {
    pub(crate) fn new() -> Result<Self, OsError> {
        let poller = Poller::new(3)?;
        let (timer, rung) = (Timer::new()?, Event::new()?);
        poller.add(timer.as_fd(), TIMER)?;
        poller.add(rung.as_fd(), RUNG)?;
        Ok(Self {
            poller,
            timer,
            rung: Arc::new(rung),
        })
    }

    /// Watches a connection, from its handshake to its end; closing it ends the watch.
    pub(crate) fn add(&self, socket: BorrowedFd<'_>) -> Result<(), OsError> {
        self.poller.add(socket, SOCKET)
    }

    /// Listens to the bell of a connection that is there, as long as the result lives.
    pub(crate) fn listen(&self, bell: BellWatch) -> Result<Listening, ThreadError> {
        let listening = Listening(Arc::new(AtomicBool::new(true)));
        let (on, rung) = (Arc::clone(&listening.0), Arc::clone(&self.rung));
        let mut seen = bell.count();
        // For what was rung before `count`, which the thread does not report.
        rung.signal();
        // The thread is never joined: it may sleep for as long as `LOOK_NS` when it is to end.
        spawn_ordinary("bell", move || {
            // Relaxed: partner of the store in `Listening::drop`.
            while on.load(Ordering::Relaxed) {
                bell.wait(seen, clock::now_ns() + LOOK_NS);
                let count = bell.count();
                if count != seen {
                    seen = count;
                    rung.signal();
                }
            }
        })?;
        Ok(listening)
    }

    /// Rings from now on make it readable; to be called before looking for what was rung for.
    pub(crate) fn clear(&self) {
        self.rung.clear();
    }

    /// Is readable from then on (none: not because of the time).
    pub(crate) fn set(&self, due_ns: Option<u64>) {
        self.timer.set(due_ns);
    }

    /// Makes it permanently readable.
    pub(crate) fn waker(&self) -> Waker {
        self.poller.waker()
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// A thread that listens to the bell of one connection.
#[derive(Debug)]
pub(crate) struct Listening(Arc<AtomicBool>);

impl Drop for Listening {
    fn drop(&mut self) {
        // Relaxed: it hands nothing over.
        self.0.store(false, Ordering::Relaxed);
    }
}
