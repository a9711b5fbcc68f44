//! Serves the live report: one JSON object to each connection.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual_plan::Access;
use punctual_platform::peer::{self, PeerCredentials};
use punctual_platform::poll::Poller;
use punctual_platform::socket_path::{SocketPath, SocketPathError};
use punctual_platform::{clock, socket_path};

use crate::admission;
use crate::gate::Gate;
use crate::pools::Pools;
use crate::report::Report;

/// A reader that does not read within this time gets half a report.
const WRITE_NS: u64 = 100_000_000;

/// Who may read: the daemon's user and its group, as for the clients' socket.
const MODE: u32 = 0o660;

const AT_ONCE: usize = 4;

const SUPERUSER: u32 = 0;

/// The listening socket. Its path is removed when it is dropped, if it is still this one's.
pub struct MetricsSocket {
    /// Dropped before the socket.
    _path: SocketPath,
    listener: UnixListener,
    gate: Gate,
    /// Who may read in addition to the superuser and the daemon's own user; none: any process that can open the socket.
    allow: Option<Access>,
}

impl MetricsSocket {
    /// Listens at `path` for the user and the group, as far as `allow` admits them, to be reported as `token`, in place of
    /// the socket that a daemon left there that is gone.
    pub fn bind(path: &Path, allow: Option<Access>, token: u64) -> Result<Self, SocketPathError> {
        let (bound, socket) = SocketPath::bind(path, socket_path::bound_stream)?;
        let failed = |call, source| SocketPathError::Os {
            path: path.to_owned(),
            call,
            source,
        };
        // Before it listens: until then no process can connect with the mode that the umask left.
        let mode = std::fs::Permissions::from_mode(MODE);
        std::fs::set_permissions(path, mode).map_err(|source| failed("chmod", source))?;
        let listener = socket_path::listening(socket).map_err(|source| failed("listen", source))?;
        Ok(Self {
            _path: bound,
            listener,
            gate: Gate::new(token),
            allow,
        })
    }

    /// Whether this reader may know of all tasks.
    fn admits(&self, reader: &UnixStream) -> bool {
        let Some(access) = &self.allow else {
            return true;
        };
        let Ok(reading) = peer::credentials(reader.as_fd()) else {
            return false;
        };
        let groups = peer::supplementary_groups(reader.as_fd()).unwrap_or_default();
        may_read(access, reading, &groups)
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
            if !self.admits(&reader) {
                // On a pool, since it may have sent descriptors.
                pools.strangers.run(move || {
                    drop(reader);
                    None
                });
                continue;
            }
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

fn may_read(allow: &Access, reading: PeerCredentials, groups: &[u32]) -> bool {
    let is_operator = [SUPERUSER, peer::own_user()].contains(&reading.uid);
    is_operator || admission::admits(allow, reading, groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_the_manifest_may_read_and_so_may_the_superuser_and_the_daemons_own_user() {
        let allow = Access {
            users: vec![4_000_001],
            groups: vec![4_000_002],
        };
        let reads = |uid, gid, groups: &[u32]| {
            may_read(&allow, PeerCredentials { pid: 1, uid, gid }, groups)
        };
        assert!(reads(4_000_001, 7, &[]));
        assert!(reads(4_000_009, 7, &[4_000_002]) && reads(4_000_009, 4_000_002, &[]));
        assert!(!reads(4_000_009, 4_000_001, &[4_000_001]));
        assert!(reads(SUPERUSER, 7, &[]) && reads(peer::own_user(), 7, &[]));
    }

    #[test]
    fn the_socket_listens_with_its_mode_and_knows_who_connects() {
        let path = std::env::temp_dir().join(format!("punctual-metrics-{}", std::process::id()));
        let allow = Some(Access {
            users: vec![],
            groups: vec![],
        });
        let socket = MetricsSocket::bind(&path, allow, 1).expect("a path");
        let mode = std::fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, MODE);
        let _reader = UnixStream::connect(&path).expect("it listens");
        let (connection, _) = socket.listener.accept().expect("a reader");
        assert!(socket.admits(&connection), "a reader of our own user");
    }
}
