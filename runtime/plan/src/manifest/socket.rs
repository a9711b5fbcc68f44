use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use punctual_diagnostics::Rule;
use thiserror::Error;

/// What the path of the metrics' socket has behind that of the clients'.
pub const METRICS_SUFFIX: &str = ".metrics";

/// A path's bytes in the kernel's `sockaddr_un`, without the zero behind them.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What is wrong with the path of the clients' socket.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SocketRule {
    /// A path that the kernel cannot hold, or not with the metrics' suffix.
    #[error("the socket path has {bytes} bytes, more than {limit}")]
    TooLong { bytes: usize, limit: usize },
    /// Not a path that a socket can have.
    #[error("{0:?} is not a valid socket path")]
    NoPath(String),
}

impl SocketRule {
    /// What is wrong with a path for the clients' socket.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let bytes = path.as_os_str().as_bytes();
        let limit = SOCKET_PATH_BYTES_MAX - METRICS_SUFFIX.len();
        if bytes.is_empty() || bytes.contains(&0) {
            return Some(Self::NoPath(path.display().to_string()));
        }
        let bytes = bytes.len();
        (bytes > limit).then_some(Self::TooLong { bytes, limit })
    }
}

impl Rule for SocketRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => {
                "a socket's path has at most 107 bytes, and the metrics' is the clients' with \
                 `.metrics` behind it"
            }
            Self::NoPath(_) => "a socket has a path of at least one byte, none of them zero",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::TooLong { .. } => "choose a shorter path, e.g. under /run".into(),
            Self::NoPath(_) => "name a file, e.g. /run/punctual/socket".into(),
        }
    }
}
