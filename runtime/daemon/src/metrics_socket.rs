//! Serves the live report: one JSON object to each connection.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual_platform::clock;
use punctual_platform::poll::Poller;
use punctual_platform::socket_path::{SocketPath, SocketPathError};

use crate::gate::Gate;
use crate::pools::Pools;
use crate::report::Report;

/// A reader that does not read within this time gets half a report.
const WRITE_NS: u64 = 100_000_000;

/// Who may read: the daemon's user and its group, as for the clients' socket.
const MODE: u32 = 0o660;

const AT_ONCE: usize = 4;

/// The listening socket. Its path is removed when it is dropped, if it is still this one's.
pub struct MetricsSocket {
    /// Dropped before the socket.
    _path: SocketPath,
    listener: UnixListener,
    gate: Gate,
}

impl MetricsSocket {
    /// Listens at `path` for the user and the group, to be reported as `token`, in place of the socket
    /// that a daemon left there that is gone.
    pub fn bind(path: &Path, token: u64) -> Result<Self, SocketPathError> {
        let bind = |path: &Path| UnixListener::bind(path);
        let (bound, listener) = SocketPath::bind(path, bind)?;
        let failed = |call, source| SocketPathError::Os {
            path: path.to_owned(),
            call,
            source,
        };
        let mode = std::fs::Permissions::from_mode(MODE);
        std::fs::set_permissions(path, mode).map_err(|source| failed("chmod", source))?;
        let nonblocking = listener.set_nonblocking(true);
        nonblocking.map_err(|source| failed("fcntl", source))?;
        Ok(Self {
            _path: bound,
            listener,
            gate: Gate::new(token),
        })
    }

    /// Answers waiting readers, a few at a time: clients wait for the same thread. The pools write the rest to slow
    /// readers, and close the connections, with whatever readers have sent.
    pub fn answer(&mut self, pools: &mut Pools, report: impl FnOnce() -> Report) {
        let readers: Vec<UnixStream> = std::iter::from_fn(|| self.accept(pools))
            .take(AT_ONCE)
            .collect();
        if readers.is_empty() {
            return;
        }
        let Ok(mut text) = serde_json::to_vec(&report()) else {
            return;
        };
        text.push(b'\n');
        let text: Arc<[u8]> = text.into();
        for mut reader in readers {
            // It fits into the socket's buffer, as a rule.
            let written = reader.set_nonblocking(true);
            let written = written.and_then(|()| reader.write(&text)).unwrap_or(0);
            let text = Arc::clone(&text);
            pools.strangers.run(move || {
                write_rest(reader, &text[written..]);
                None
            });
        }
    }

    fn accept(&mut self, pools: &Pools) -> Option<UnixStream> {
        if !pools.strangers.has_room() {
            return None;
        }
        match self.listener.accept() {
            Ok((stream, _)) => {
                self.gate.succeeded();
                Some(stream)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => {
                self.gate.failed(clock::now_ns());
                None
            }
        }
    }

    /// Waits for readers as long as they can be answered.
    pub fn attend(&mut self, poller: &Poller, pools: &Pools) {
        let room = pools.strangers.has_room();
        let now_ns = clock::now_ns();
        self.gate
            .attend(poller, self.listener.as_fd(), room, now_ns);
    }
}

/// Writes as much as the reader takes within the time, and closes. A reader that closed the connection or does
/// not read gets less.
fn write_rest(mut reader: UnixStream, mut text: &[u8]) {
    let limit_ns = clock::now_ns() + WRITE_NS;
    let timeout = Some(Duration::from_nanos(WRITE_NS));
    if text.is_empty()
        || reader.set_nonblocking(false).is_err()
        || reader.set_write_timeout(timeout).is_err()
    {
        return;
    }
    while !text.is_empty() && clock::now_ns() < limit_ns {
        match reader.write(text) {
            Ok(written) => text = &text[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

impl AsFd for MetricsSocket {
    /// Readable when a connection waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
