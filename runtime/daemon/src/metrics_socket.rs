//! Serves the live report: one JSON object to each connection.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::report::Report;

/// A reader that does not read within this time gets half a report.
const WRITE_TIMEOUT: Duration = Duration::from_millis(100);

/// Who may read: the daemon's user and its group, as for the clients' socket.
const MODE: u32 = 0o660;

/// Readers answered in one turn.
const AT_ONCE: usize = 4;

/// The listening socket. Its path is removed when it is dropped.
pub struct MetricsSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl MetricsSocket {
    /// Listens at `path` for the user and the group, in place of the socket that a daemon left
    /// there that is gone. (That it is gone is known: the clients' socket could be had.)
    ///
    /// # Errors
    /// If the path cannot be made, or something else is there.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let is_socket = |found: std::fs::Metadata| found.file_type().is_socket();
        if std::fs::symlink_metadata(path).is_ok_and(is_socket) {
            std::fs::remove_file(path)?;
        }
        let socket = Self {
            listener: UnixListener::bind(path)?,
            path: path.to_owned(),
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))?;
        socket.listener.set_nonblocking(true)?;
        Ok(socket)
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

impl Drop for MetricsSocket {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = std::fs::remove_file(&self.path);
    }
}
