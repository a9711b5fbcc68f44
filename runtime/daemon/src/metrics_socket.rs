//! Serves the live report: one JSON object to each connection.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use punctual_platform::socket_path::{SocketPath, SocketPathError};

use crate::report::Report;

/// A reader that does not read within this time gets half a report.
const WRITE_TIMEOUT: Duration = Duration::from_millis(100);

/// Who may read: the daemon's user and its group, as for the clients' socket.
const MODE: u32 = 0o660;

/// Readers answered in one turn.
const AT_ONCE: usize = 4;

/// The listening socket. Its path is removed when it is dropped, if it is still this one's.
pub struct MetricsSocket {
    /// Dropped before the socket.
    _path: SocketPath,
    listener: UnixListener,
}

impl MetricsSocket {
    /// Listens at `path` for the user and the group, in place of the socket that a daemon left
    /// there that is gone.
    ///
    /// # Errors
    /// If the path is taken or cannot be made.
    pub fn bind(path: &Path) -> Result<Self, SocketPathError> {
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
        })
    }

    /// Answers who waits, a few at a time: clients wait for the same thread.
    pub fn answer(&self, report: impl Fn() -> Report) {
        for _ in 0..AT_ONCE {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            // A reader that went away or does not read is its own loss.
            let _ = write(stream, &report());
        }
    }
}

fn write(mut stream: UnixStream, report: &Report) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut text = serde_json::to_vec(report)?;
    text.push(b'\n');
    stream.write_all(&text)
}

impl AsFd for MetricsSocket {
    /// Readable when somebody waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
