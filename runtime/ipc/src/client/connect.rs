//! The client's half of the handshake.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use punctual_platform::shared_memory::{Access, MemoryFile, Seals};
use punctual_platform::{clock, poll};

use super::error::ConnectError;
use crate::handshake::{
    Agreement, Hello, MessageError, Reply, StreamTerms, decode_answer, encode_opening,
};
use crate::region::Region;
use crate::socket::{self, MESSAGE_MAX, Received};

/// How long the daemon may take to answer the handshake, in ns.
pub(super) const HANDSHAKE_NS: u64 = 5_000_000_000;

/// What an admitted client has.
pub(crate) struct Welcome {
    pub(crate) agreement: Agreement,
    pub(crate) terms: StreamTerms,
    pub(crate) socket: OwnedFd,
    /// Requests, results, as far as the daemon keeps its word.
    pub(crate) files: Vec<OwnedFd>,
    /// Whether its frames are in buffers of its own.
    pub(crate) import_buffers: bool,
}

/// Carries out the handshake.
pub(crate) fn be_welcomed(
    path: &Path,
    hello: &Hello,
    buffers: &[BorrowedFd<'_>],
) -> Result<Welcome, ConnectError> {
    let hello = &with_buffers(hello, buffers);
    let socket = socket::connected(path).map_err(ConnectError::Connect)?;
    socket::send_message(socket.as_fd(), &encode_opening(hello), &raw(buffers))?;
    let limit = Some(clock::now_ns() + HANDSHAKE_NS);
    if !poll::wait_readable(socket.as_fd(), limit) {
        return Err(ConnectError::NoAnswer);
    }
    answer(socket, hello)?.map_err(|_| ConnectError::NoAnswer)
}

/// The opening of a client that brings these along.
pub(super) fn with_buffers(hello: &Hello, buffers: &[BorrowedFd<'_>]) -> Hello {
    Hello {
        // A message takes 253 at most: more fail to be sent.
        buffers: buffers.len().try_into().unwrap_or(u16::MAX),
        ..hello.clone()
    }
}

pub(super) fn raw(buffers: &[BorrowedFd<'_>]) -> Vec<RawFd> {
    buffers.iter().map(AsRawFd::as_raw_fd).collect()
}

/// What the daemon says to the opening; the socket again if it has not said anything yet.
pub(super) fn answer(
    socket: OwnedFd,
    hello: &Hello,
) -> Result<Result<Welcome, OwnedFd>, ConnectError> {
    let mut buffer = [0; MESSAGE_MAX];
    let (received, files) = socket::receive_with_files(socket.as_fd(), &mut buffer)?;
    let (agreement, reply) = match received {
        Received::Message(bytes) => decode_answer(&buffer[..bytes])?,
        Received::TooLong => return Err(MessageError::Malformed.into()),
        Received::HungUp => return Err(ConnectError::NoAnswer),
        Received::Nothing => return Ok(Err(socket)),
    };
    let terms = match reply {
        Reply::Welcome(terms) => terms,
        Reply::Refused(refusal) => return Err(refusal.into()),
    };
    if !agreement.features.contain(hello.needs()) {
        return Err(ConnectError::NotOffered);
    }
    terms.check()?;
    let granted = terms.frame.layout();
    if hello.layout.is_some_and(|wanted| wanted != granted) {
        return Err(ConnectError::Memory("its layout is not the one asked for"));
    }
    if hello.buffers > 0 && hello.buffers != terms.slots {
        return Err(ConnectError::Memory("there is not a slot for each buffer"));
    }
    Ok(Ok(Welcome {
        import_buffers: hello.buffers > 0,
        agreement,
        terms,
        socket,
        files,
    }))
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
