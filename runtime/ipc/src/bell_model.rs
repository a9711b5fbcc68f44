//! The bell as the model checker sees it: rings that are not handled yet become one, as an edge-triggered wait has it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use loom::sync::{Arc, Condvar, Mutex};
use punctual_platform::OsError;

#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

#[derive(Debug)]
pub(crate) struct ServerBell(Arc<Bell>);

#[derive(Debug)]
pub(crate) struct ClientBell(Arc<Bell>);

impl ServerBell {
    /// Only over the sockets, which models do not have.
    pub(crate) fn new() -> Result<Self, OsError> {
        Ok(pair()?.0)
    }

    pub(crate) fn for_peer(&self) -> BorrowedFd<'_> {
        unreachable!("models send no descriptors")
    }

    /// Sleeps until it rings, as a poller does: a ring that is lost is a deadlock, which the checker reports.
    #[cfg(test)]
    pub(crate) fn wait(&self) {
        let mut rung = self.0.rung.lock().expect("no panic");
        while !*rung {
            rung = self.0.changed.wait(rung).expect("no panic");
        }
        *rung = false;
    }
}

impl AsFd for ServerBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.for_peer()
    }
}

impl ClientBell {
    pub(crate) fn received(_: OwnedFd) -> Self {
        unreachable!("models receive no descriptors")
    }

    /// Rings the daemon.
    pub(crate) fn ring(&self) {
        *self.0.rung.lock().expect("no panic") = true;
        self.0.changed.notify_all();
    }
}

pub(crate) fn pair() -> Result<(ServerBell, ClientBell), OsError> {
    let bell = Arc::new(Bell::default());
    Ok((ServerBell(Arc::clone(&bell)), ClientBell(bell)))
}
