//! The path of a listening Unix socket: made where no other process listens, and removed only while it is ours.
//! Its file stays behind when a process dies, and another process may have replaced it.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::check;

#[derive(Debug, thiserror::Error)]
pub enum SocketPathError {
    #[error("{path}: another daemon is listening on this socket")]
    InUse { path: PathBuf },
    /// Something that is not a socket is there, and is left alone.
    #[error("{path} exists and is not a socket: remove it or choose another path")]
    NotASocket { path: PathBuf },
    #[error("{path}: {call} failed: {source}; check that the folder exists and is writable")]
    Os {
        path: PathBuf,
        /// Which call, as in section 2 of the manual.
        call: &'static str,
        source: io::Error,
    },
}

/// A path that a socket of ours was bound to. Dropped, it removes the path, unless something else is there
/// by then. To be dropped before the socket: only while that is open, no other file gets its inode's number.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    file: Identity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    fn is_at(self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| Self::of(&found) == self)
    }
}

impl SocketPath {
    /// Binds a socket to `path` with `bind`, in place of one that a dead process left there.
    pub fn bind<S>(
        path: &Path,
        bind: impl FnOnce(&Path) -> io::Result<S>,
    ) -> Result<(Self, S), SocketPathError> {
        let failed = |call, source| SocketPathError::Os {
            path: path.to_owned(),
            call,
            source,
        };
        remove_stale(path)?;
        let socket = bind(path).map_err(|source| failed("bind", source))?;
        let found = fs::symlink_metadata(path).map_err(|source| failed("lstat", source))?;
        let bound = Self {
            path: path.to_owned(),
            file: Identity::of(&found),
        };
        Ok((bound, socket))
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        if self.file.is_at(&self.path) {
            // The folder may have been made read-only: the next daemon finds a stale socket.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A stream socket bound to `path`, not yet [listening](listening): no process can connect before its mode is set.
pub fn bound_stream(path: &Path) -> io::Result<OwnedFd> {
    let (socket, address) = (new_stream()?, address_of(path)?);
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of that length.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    check("bind", bound).map_err(|error| error.source)?;
    Ok(socket)
}

/// A connection to the process that listens at `path`, non-blocking; `WouldBlock` if as many wait there as may.
pub fn connected_stream(path: &Path) -> io::Result<UnixStream> {
    let (socket, address) = (new_stream()?, address_of(path)?);
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of that length.
    let connected =
        unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    check("connect", connected).map_err(|error| error.source)?;
    Ok(socket.into())
}

fn address_of(path: &Path) -> io::Result<libc::sockaddr_un> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: all zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // With the zero behind it.
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::from(ErrorKind::InvalidInput));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(address)
}

fn new_stream() -> io::Result<OwnedFd> {
    let flags = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: creates a descriptor that we then own.
    unsafe {
        let raw = check("socket", libc::socket(libc::AF_UNIX, flags, 0));
        Ok(OwnedFd::from_raw_fd(raw.map_err(|error| error.source)?))
    }
}

/// Lets others connect from now on.
pub fn listening(socket: OwnedFd) -> io::Result<UnixListener> {
    // SAFETY: an open descriptor.
    let listens = unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) };
    check("listen", listens).map_err(|error| error.source)?;
    Ok(socket.into())
}

/// Connections that wait to be accepted: as many as the kernel allows.
const BACKLOG: libc::c_int = libc::SOMAXCONN;

/// Removes a socket that no process has any more.
fn remove_stale(path: &Path) -> Result<(), SocketPathError> {
    let failed = |call, source| SocketPathError::Os {
        path: path.to_owned(),
        call,
        source,
    };
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|source| failed("lstat", source))?,
    };
    let at = path.to_owned();
    if !found.file_type().is_socket() {
        return Err(SocketPathError::NotASocket { path: at });
    }
    let probe = UnixDatagram::unbound().map_err(|source| failed("socket", source))?;
    // A datagram socket cannot connect to one that listens. The kernel answers all the same whether a process has
    // it: EPROTOTYPE if so, ECONNREFUSED if not. The other process gets no connection.
    let Err(error) = probe.connect(path) else {
        return Err(SocketPathError::InUse { path: at });
    };
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) if Identity::of(&found).is_at(path) => {
            fs::remove_file(path).map_err(|source| failed("unlink", source))
        }
        // Removed or replaced since: `bind` will say.
        Some(libc::ECONNREFUSED | libc::ENOENT) => Ok(()),
        Some(libc::EPROTOTYPE | libc::EPERM) => Err(SocketPathError::InUse { path: at }),
        _ => Err(failed("connect", error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A path in a folder of its own, gone with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("punctual-path-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).unwrap();
            Self(folder.join("socket"))
        }

        fn bind(&self) -> Result<(SocketPath, UnixListener), SocketPathError> {
            SocketPath::bind(&self.0, |path| UnixListener::bind(path))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0.parent().unwrap());
        }
    }

    #[test]
    fn a_path_goes_with_its_socket_and_a_stale_one_is_replaced() {
        let place = Place::new("stale");
        drop(place.bind().unwrap());
        assert!(!place.0.exists());
        drop(UnixListener::bind(&place.0).unwrap());
        assert!(place.0.exists());
        drop(place.bind().unwrap());
        assert!(!place.0.exists());
    }

    #[test]
    fn whoever_has_a_socket_there_keeps_it_whatever_its_type() {
        let place = Place::new("live");
        let (_path, listener) = place.bind().unwrap();
        listener.set_nonblocking(true).unwrap();
        let error = place.bind().unwrap_err();
        assert!(matches!(error, SocketPathError::InUse { .. }), "{error}");
        // Asking made no connection.
        let nobody = listener.accept().unwrap_err();
        assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
        let place = Place::new("datagram");
        let _socket = UnixDatagram::bind(&place.0).unwrap();
        let error = place.bind().unwrap_err();
        assert!(matches!(error, SocketPathError::InUse { .. }), "{error}");
    }

    #[test]
    fn a_successors_socket_is_left_alone() {
        let place = Place::new("successor");
        let (path, _listener) = place.bind().unwrap();
        // A user removed the socket by hand, and another daemon made its own.
        fs::remove_file(&place.0).unwrap();
        let (successors, _second) = place.bind().unwrap();
        drop(path);
        assert!(place.0.exists());
        drop(successors);
        assert!(!place.0.exists());
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let place = Place::new("file");
        fs::write(&place.0, b"precious").unwrap();
        let error = place.bind().unwrap_err();
        assert!(
            matches!(error, SocketPathError::NotASocket { .. }),
            "{error}"
        );
        assert_eq!(fs::read(&place.0).unwrap(), b"precious");
    }

    #[test]
    fn a_connection_is_made_at_once_or_not_at_all() {
        let place = Place::new("connected");
        let absent = connected_stream(&place.0).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
        let stale = bound_stream(&place.0).unwrap();
        // SAFETY: an open descriptor.
        assert_eq!(unsafe { libc::listen(stale.as_raw_fd(), 1) }, 0);
        let full = std::iter::repeat_with(|| connected_stream(&place.0));
        let waiting: Vec<UnixStream> = full.map_while(Result::ok).take(9).collect();
        assert!(!waiting.is_empty() && waiting.len() < 9, "{waiting:?}");
        let error = connected_stream(&place.0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}
