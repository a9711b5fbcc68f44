//! Serves the live report: one JSON object to each connection.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::report::Report;

/// A reader that does not read within this time gets half a report.
const WRITE_TIMEOUT: Duration = Duration::from_millis(100);

/// The listening socket. Its path is removed when it is dropped.
pub struct MetricsSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl MetricsSocket {
    /// Listens at `path`, in place of what a daemon that is gone left there. (That it is gone is
    /// known: the clients' socket beside it could be had.)
    ///
    /// # Errors
    /// If the path cannot be made.
    pub fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Answers everybody who waits.
    pub fn answer(&self, report: impl Fn() -> Report) {
        while let Ok((stream, _)) = self.listener.accept() {
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
