//! The client's half of the handshake.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use punctual_platform::shared_memory::{Access, MemoryFile, Seals};
use punctual_platform::{clock, poll};

use super::{ClientChannel, ConnectError};
use crate::handshake::{Hello, MessageError, Reply, StreamTerms, decode, encode};
use crate::region::Region;
use crate::socket::{self, MESSAGE_MAX, Received};

/// How long the daemon may take to answer the handshake, in ns.
const HANDSHAKE_NS: u64 = 5_000_000_000;

/// Shakes hands: what was agreed, the socket, the memory files.
pub(crate) fn be_welcomed(
    path: &Path,
    hello: &Hello,
) -> Result<(StreamTerms, OwnedFd, Vec<OwnedFd>), ConnectError> {
    let socket = socket::connected(path).map_err(ConnectError::Connect)?;
    socket::send_message(socket.as_fd(), &encode(hello), &[])?;
    let limit = Some(clock::now_ns() + HANDSHAKE_NS);
    if !poll::wait_readable(socket.as_fd(), limit) {
        return Err(ConnectError::NoAnswer);
    }
    match answer(socket.as_fd())? {
        Some((terms, files)) => Ok((terms, socket, files)),
        None => Err(ConnectError::NoAnswer),
    }
}

/// What the daemon says to the opening; none if it has not said anything yet.
fn answer(socket: BorrowedFd<'_>) -> Result<Option<(StreamTerms, Vec<OwnedFd>)>, ConnectError> {
    let mut buffer = [0; MESSAGE_MAX];
    let (received, files) = socket::receive_with_files(socket, &mut buffer)?;
    let reply = match received {
        Received::Message(bytes) => decode(&buffer[..bytes])?,
        Received::TooLong => return Err(MessageError::Malformed.into()),
        Received::HungUp => return Err(ConnectError::NoAnswer),
        Received::Nothing => return Ok(None),
    };
    match reply {
        Reply::Welcome(terms) => Ok(Some((terms, files))),
        Reply::Refused(refusal) => Err(refusal.into()),
    }
}

/// How far an [`Opening`] has come.
#[derive(Debug)]
pub enum Progress {
    /// The daemon has not answered yet.
    Waiting(Opening),
    /// It has let the client in.
    Open(Box<ClientChannel>),
}

/// A connection whose handshake is under way, for a client that has other things to wait for.
/// Nothing in here blocks.
#[derive(Debug)]
pub struct Opening {
    socket: OwnedFd,
    /// When the daemon's answer is no longer waited for.
    limit_ns: u64,
}

impl Opening {
    /// Says to the daemon at `path` what the client wants.
    ///
    /// # Errors
    /// If it takes nobody in at this moment.
    pub fn begin(path: &Path, hello: &Hello) -> Result<Self, ConnectError> {
        let socket = socket::connected_at_once(path).map_err(ConnectError::Connect)?;
        socket::send_message(socket.as_fd(), &encode(hello), &[])?;
        Ok(Self {
            socket,
            limit_ns: clock::now_ns() + HANDSHAKE_NS,
        })
    }

    /// Goes on if the daemon has answered; its descriptor becomes readable then.
    ///
    /// # Errors
    /// If the answer is no, or none came within five seconds.
    pub fn go_on(self) -> Result<Progress, ConnectError> {
        match answer(self.socket.as_fd())? {
            Some((terms, files)) => {
                let channel = ClientChannel::over(terms, self.socket, files)?;
                Ok(Progress::Open(Box::new(channel)))
            }
            None if clock::now_ns() >= self.limit_ns => Err(ConnectError::NoAnswer),
            None => Ok(Progress::Waiting(self)),
        }
    }

    /// When the daemon's answer is no longer waited for, in monotonic ns.
    #[must_use]
    pub fn limit_ns(&self) -> u64 {
        self.limit_ns
    }
}

impl AsFd for Opening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Maps a file of the daemon's, if it is as large as it must be and stays so.
pub(super) fn map(file: OwnedFd, bytes: usize, access: Access) -> Result<Region, ConnectError> {
    let file = MemoryFile::received(file)?;
    if file.bytes() != bytes {
        return Err(ConnectError::Memory(
            "a file has another size than the terms say",
        ));
    }
    if !file.seals()?.contain(Seals::SIZE) {
        return Err(ConnectError::Memory("the size of a file is not sealed"));
    }
    Ok(Region::of(file.map(access)?))
}
