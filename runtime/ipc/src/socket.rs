//! The channel's socket: SEQPACKET, so that messages keep their borders. It carries the handshake and
//! nothing else; its hang-up reports either side's death.
//!
//! Every call has MSG_DONTWAIT. That is not enough to make a call that takes a message off the queue
//! safe from the peer: the kernel closes descriptors that came with the message and were not asked
//! for, in the thread that receives, and the peer decides how long that takes. So messages are looked
//! at first ([`peek`], which closes nothing); those with descriptors, and sockets in whose queue there
//! may be some, are for threads that may block.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, accept4, bind, connect, listen, recv, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use punctual_platform::OsError;

#[cfg(not(loom))]
pub(crate) use punctual_platform::poll::is_hung_up;

#[cfg(loom)]
pub(crate) use crate::socket_model::{hang_up, is_hung_up};

/// The longest message that is read.
pub(crate) const MESSAGE_MAX: usize = 1024;
/// Descriptors that one message can carry (`SCM_MAX_FD`).
const FILES_MAX: usize = 253;
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 64;
/// How long a connection may wait for its place in the backlog.
const CONNECT_TIMEOUT: TimeVal = TimeVal::new(5, 0);

const SEND: MsgFlags = MsgFlags::MSG_DONTWAIT.union(MsgFlags::MSG_NOSIGNAL);

pub(crate) fn os_error(call: &'static str) -> impl FnOnce(Errno) -> OsError {
    move |errno| OsError {
        call,
        source: errno.into(),
    }
}

fn new_socket(flags: SockFlag) -> Result<OwnedFd, OsError> {
    let flags = flags | SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(os_error("socket"))
}

fn address(path: &Path) -> Result<UnixAddr, OsError> {
    UnixAddr::new(path).map_err(os_error("bind"))
}

/// A socket bound to `path`, not yet listening: no client can connect before its mode is set.
pub(crate) fn bound(path: &Path) -> Result<OwnedFd, OsError> {
    let socket = new_socket(SockFlag::SOCK_NONBLOCK)?;
    bind(socket.as_raw_fd(), &address(path)?).map_err(os_error("bind"))?;
    Ok(socket)
}

pub(crate) fn start_listening(socket: BorrowedFd<'_>) -> Result<(), OsError> {
    let backlog = Backlog::new(BACKLOG).map_err(os_error("listen"))?;
    listen(&socket, backlog).map_err(os_error("listen"))
}

/// The next connection; none if none waits.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>, OsError> {
    loop {
        match accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) {
            // SAFETY: a new descriptor, owned here alone.
            Ok(raw) => return Ok(Some(unsafe { OwnedFd::from_raw_fd(raw) })),
            Err(Errno::EAGAIN) => return Ok(None),
            // ECONNABORTED: the client closed the connection before it was accepted; others may wait behind it.
            Err(Errno::EINTR | Errno::ECONNABORTED) => {}
            Err(errno) => return Err(os_error("accept4")(errno)),
        }
    }
}

/// A connection to the daemon at `path`. `EAGAIN` if it accepts no connection for a while.
pub(crate) fn connected(path: &Path) -> Result<OwnedFd, OsError> {
    let socket = new_socket(SockFlag::empty())?;
    // On a Unix socket the send timeout also limits `connect`, which otherwise waits without limit while the
    // backlog is full.
    setsockopt(&socket, sockopt::SendTimeout, &CONNECT_TIMEOUT).map_err(os_error("setsockopt"))?;
    connect(socket.as_raw_fd(), &address(path)?).map_err(os_error("connect"))?;
    Ok(socket)
}

/// As [`connected`]; `EAGAIN` at once if it accepts no connection at this moment.
pub(crate) fn connected_at_once(path: &Path) -> Result<OwnedFd, OsError> {
    let socket = new_socket(SockFlag::SOCK_NONBLOCK)?;
    connect(socket.as_raw_fd(), &address(path)?).map_err(os_error("connect"))?;
    Ok(socket)
}

pub(crate) fn send_message(
    socket: BorrowedFd<'_>,
    message: &[u8],
    files: &[RawFd],
) -> Result<(), OsError> {
    let parts = [IoSlice::new(message)];
    let rights = [ControlMessage::ScmRights(files)];
    let control = if files.is_empty() { &[][..] } else { &rights };
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, control, SEND, None)
        .map(drop)
        .map_err(os_error("sendmsg"))
}

#[derive(Debug)]
pub(crate) enum Received {
    Nothing,
    /// The other side is gone, or sent an empty message, which looks the same.
    HungUp,
    /// A message longer than [`MESSAGE_MAX`], which is none of the protocol's.
    TooLong,
    /// A message of this many bytes.
    Message(usize),
}

/// Looks at the next message, which stays in the queue, and tells whether descriptors came with it. Closes nothing.
pub(crate) fn peek(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8; MESSAGE_MAX],
) -> Result<(Received, bool), OsError> {
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_PEEK;
    // Without room for control data the kernel only says that there was some (MSG_CTRUNC): of
    // the descriptors it makes none ours, and the message keeps them.
    match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, None, flags) {
        Ok(received) => {
            let files = received.flags.contains(MsgFlags::MSG_CTRUNC);
            Ok((what(received.bytes, received.flags), files))
        }
        Err(Errno::ECONNRESET) => Ok((Received::HungUp, false)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok((Received::Nothing, false)),
        Err(errno) => Err(os_error("recvmsg")(errno)),
    }
}

/// Takes the next message off the queue. Closes the descriptors that came with it: for a thread that
/// may block, or after [`peek`] has found none.
pub(crate) fn discard(socket: BorrowedFd<'_>) {
    // The outcome does not matter: the other side may be gone.
    let _ = recv(socket.as_raw_fd(), &mut [0; 1], MsgFlags::MSG_DONTWAIT);
}

/// Nothing can be sent to this end from now on. Whether its queue is empty, now and for good.
pub(crate) fn stop_receiving(socket: BorrowedFd<'_>) -> bool {
    use nix::sys::socket::{Shutdown, shutdown};
    // The end of the queue looks like an empty message. But with credentials asked for, each message
    // has control data to cut off, and the end has none.
    let tells_apart = setsockopt(&socket, sockopt::PassCred, &true).is_ok();
    // It fails only if the other side is gone, and then sends nothing either.
    let _ = shutdown(socket.as_raw_fd(), Shutdown::Read);
    let next = peek(socket, &mut [0; MESSAGE_MAX]);
    tells_apart && matches!(next, Ok((Received::HungUp, false)))
}

fn what(bytes: usize, flags: MsgFlags) -> Received {
    match bytes {
        0 => Received::HungUp,
        _ if flags.contains(MsgFlags::MSG_TRUNC) => Received::TooLong,
        bytes => Received::Message(bytes),
    }
}

/// Receives one message with its descriptors, up to as many as a message can have. They are the
/// peer's: for a thread that may block, or a peer that is trusted.
pub(crate) fn receive_with_files(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8; MESSAGE_MAX],
) -> Result<(Received, Vec<OwnedFd>), OsError> {
    let mut control = cmsg_space!([RawFd; FILES_MAX]);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let received =
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok((Received::Nothing, Vec::new())),
            Err(Errno::ECONNRESET) => return Ok((Received::HungUp, Vec::new())),
            Err(errno) => return Err(os_error("recvmsg")(errno)),
        };
    let mut files = Vec::new();
    for message in received.cmsgs().map_err(os_error("recvmsg"))? {
        if let ControlMessageOwned::ScmRights(raw) = message {
            // SAFETY: new descriptors, made for us by the kernel.
            files.extend(
                raw.into_iter()
                    .map(|raw| unsafe { OwnedFd::from_raw_fd(raw) }),
            );
        }
    }
    Ok((what(received.bytes, received.flags), files))
}

/// Shuts the connection down, which both ends notice. It wakes all threads that wait for the other end, of which
/// the peer can have made any number: not for a real-time thread.
#[cfg(not(loom))]
pub(crate) fn hang_up(socket: BorrowedFd<'_>) {
    // It fails only if the other side was first.
    let _ = nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
}

/// Two connected ends in this process.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), OsError> {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    nix::sys::socket::socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC)
        .map_err(os_error("socketpair"))
}
