//! How a client rings the daemon: an event that the daemon makes and the client gets with its
//! welcome. Nothing is ever sent over the socket for it: a message can carry descriptors, and the thread that
//! receives it may have to close them.

use std::os::fd::OwnedFd;

use punctual_platform::OsError;
use punctual_platform::event::{Event, PeerEvent};

pub(crate) type ServerBell = PeerEvent;

#[derive(Debug)]
pub(crate) struct ClientBell(Event);

impl ClientBell {
    /// As it came with the welcome.
    pub(crate) fn received(file: OwnedFd) -> Self {
        Self(Event::received(file))
    }

    /// Rings the daemon.
    pub(crate) fn ring(&self) {
        self.0.signal();
    }
}

pub(crate) fn pair() -> Result<(ServerBell, ClientBell), OsError> {
    let server = PeerEvent::new()?;
    let file = server.for_peer().try_clone_to_owned();
    let file = file.map_err(|source| OsError {
        call: "fcntl",
        source,
    })?;
    Ok((server, ClientBell::received(file)))
}
