//! The client's half of the handshake.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use punctual_platform::shared_memory::{Access, MemoryFile, Seals};
use punctual_platform::{clock, poll};

use super::ConnectError;
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
    let mut buffer = [0; MESSAGE_MAX];
    let (received, files) = socket::receive_with_files(socket.as_fd(), &mut buffer)?;
    let reply = match received {
        Received::Message(bytes) => decode(&buffer[..bytes])?,
        Received::TooLong => return Err(MessageError::Malformed.into()),
        Received::Nothing | Received::HungUp => return Err(ConnectError::NoAnswer),
    };
    match reply {
        Reply::Welcome(terms) => Ok((terms, socket, files)),
        Reply::Refused(refusal) => Err(refusal.into()),
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
