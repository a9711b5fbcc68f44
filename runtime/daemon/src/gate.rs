//! Whether the poller watches a listening socket. It does not while there is no room for another connection, and
//! for a while after descriptors have run out. A socket with a connection that is not accepted stays readable, so
//! that every wait would end at once.

use std::os::fd::BorrowedFd;

use punctual_platform::poll::Poller;

/// How long no connection is accepted after descriptors have run out, in ns.
const PAUSE_NS: u64 = 100_000_000;

#[derive(Debug)]
pub struct Gate {
    token: u64,
    watched: bool,
    /// Descriptors had run out; to be tried again then.
    retry_ns: Option<u64>,
}

impl Gate {
    /// Not waited for yet; reported as `token` when it is.
    pub fn new(token: u64) -> Self {
        Self {
            token,
            watched: false,
            retry_ns: None,
        }
    }

    /// Watches the listener if there is `room` for another connection and descriptors have not just run out.
    pub fn attend(&mut self, poller: &Poller, listener: BorrowedFd<'_>, room: bool, now_ns: u64) {
        let wanted = room && self.retry_ns.is_none_or(|retry_ns| now_ns >= retry_ns);
        if wanted == self.watched {
            return;
        }
        let changed = if wanted {
            poller.add(listener, self.token)
        } else {
            poller.remove(listener)
        };
        // Out of kernel memory: it is tried again the next time.
        if changed.is_ok() {
            self.watched = wanted;
        }
    }

    /// A connection could not be accepted. Whether this is the first failure in a row.
    pub fn failed(&mut self, now_ns: u64) -> bool {
        self.retry_ns.replace(now_ns + PAUSE_NS).is_none()
    }

    /// A connection was accepted. Whether this is the first one after a failure.
    pub fn succeeded(&mut self) -> bool {
        self.retry_ns.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_listener_without_room_or_descriptors_is_not_reported() {
        let path = std::env::temp_dir().join(format!("punctual-gate-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a path");
        let _waiting = UnixStream::connect(&path).expect("a listener");
        let mut poller = Poller::new(1).expect("descriptors");
        let mut gate = Gate::new(1);
        let mut reported = |gate: &mut Gate, room, now_ns| {
            gate.attend(&poller, listener.as_fd(), room, now_ns);
            poller.wait(Some(0)).count() > 0
        };
        assert!(!reported(&mut gate, false, 0));
        assert!(reported(&mut gate, true, 0));
        assert!(gate.failed(5), "news");
        assert!(!reported(&mut gate, true, 5));
        assert!(reported(&mut gate, true, 5 + PAUSE_NS));
        assert!(!gate.failed(5 + PAUSE_NS), "as before");
        assert!(!reported(&mut gate, true, 6 + PAUSE_NS));
        assert!(gate.succeeded() && !gate.succeeded());
        assert!(reported(&mut gate, true, 7 + PAUSE_NS));
        assert!(!reported(&mut gate, false, 7 + PAUSE_NS));
        std::fs::remove_file(&path).expect("it is there");
    }
}
