//! The channel as `docs/channel.md` tells it, from the side of a client that keeps to it only as far as it likes.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use nix::cmsg_space;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    connect, recvmsg, send, sendmsg, socket,
};

use super::own;

/// The versions of the protocol that the attackers speak. From version 3 on a client rings by an
/// eventfd that comes with the welcome, its last descriptor; before, by a byte on the socket.
const VERSIONS: [u16; 2] = [2, 5];

/// From this version on a client signals once when it has mapped its memory.
const SIGNALS_MAPPED: u16 = 5;

/// Where an answer says which version was agreed on.
const AGREED: usize = 16;

/// `layouts` and `buffers`.
const FEATURES: u64 = 0b11;

/// The longest message of the handshake.
const MESSAGE_MAX: usize = 1024;

/// Where what both sides always understand ends.
const HEADER: usize = 24;

/// Descriptors that the kernel takes in one message.
pub const DESCRIPTORS_MAX: usize = 253;

/// How long the daemon may take to answer an opening.
const ANSWER_MS: u16 = 2500;

/// A connection on which nothing was said yet. A full queue of the listener is an error, not a wait.
pub fn connected(path: &Path, kind: SockType) -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, kind, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket)
}

/// An opening for RGB frames of `task`, which announces this number of buffers.
pub fn opening(task: &str, buffers: u16) -> Vec<u8> {
    let mut message = b"PNCT".to_vec();
    message.extend(VERSIONS.iter().flat_map(|version| version.to_le_bytes()));
    message.extend(FEATURES.to_le_bytes());
    message.resize(HEADER, 0);
    push_varint(&mut message, task.len() as u64);
    message.extend(task.bytes());
    // RGB8, no layout.
    message.extend([0, 0]);
    push_varint(&mut message, buffers.into());
    message
}

fn push_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// Sends a message with these descriptors; whether it could be sent.
pub fn say(socket: &OwnedFd, message: &[u8], descriptors: &[RawFd]) -> bool {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    if descriptors.is_empty() {
        return send(socket.as_raw_fd(), message, flags).is_ok();
    }
    let rights = [ControlMessage::ScmRights(descriptors)];
    let parts = [IoSlice::new(message)];
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, &rights, flags, None).is_ok()
}

/// Whether the other side has closed the connection, or does within `within_ms` milliseconds.
pub fn is_closed(socket: &OwnedFd, within_ms: u16) -> bool {
    let mut waiting = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    matches!(poll(&mut waiting, PollTimeout::from(within_ms)), Ok(1))
}

/// A client that the daemon admitted.
pub struct Welcomed {
    pub socket: OwnedFd,
    /// Its memory files, and the doorbell where the protocol has one.
    pub files: Vec<OwnedFd>,
    /// Whether the daemon waits for it to say that it has mapped them.
    is_awaited: bool,
}

impl Welcomed {
    /// Goes in as any client; none if it is refused, or not answered.
    pub fn by(path: &Path, task: &str) -> Option<Self> {
        let client = Self::unmapped(path, task)?;
        client.say_mapped();
        Some(client)
    }

    /// The same, without a word about its having mapped anything.
    pub fn unmapped(path: &Path, task: &str) -> Option<Self> {
        let socket = connected(path, SockType::SeqPacket).ok()?;
        say(&socket, &opening(task, 0), &[])
            .then(|| Self::on(socket))
            .flatten()
    }

    /// Waits for the answer to an opening; none if it is a refusal, or none comes.
    pub fn on(socket: OwnedFd) -> Option<Self> {
        let mut waiting = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut waiting, PollTimeout::from(ANSWER_MS)).ok()?;
        let (mut bytes, mut files) = ([0; MESSAGE_MAX], Vec::new());
        let mut space = cmsg_space!([RawFd; 8]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
        let answer =
            recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
        let length = answer.bytes;
        for message in answer.cmsgs().ok()? {
            if let ControlMessageOwned::ScmRights(raw) = message {
                files.extend(own::received(raw));
            }
        }
        // What follows the header begins with 0 in a welcome.
        let is_welcome = length > HEADER && bytes.starts_with(b"PNCT") && bytes[HEADER] == 0;
        let agreed = u16::from_le_bytes([bytes[AGREED], bytes[AGREED + 1]]);
        (is_welcome && files.len() >= 2).then_some(Self {
            socket,
            files,
            is_awaited: agreed >= SIGNALS_MAPPED,
        })
    }

    /// Says that it has mapped its memory, where the protocol has that.
    pub fn say_mapped(&self) {
        if self.is_awaited {
            self.ring();
        }
    }

    /// The file that the client writes.
    pub fn requests(&self) -> &OwnedFd {
        &self.files[0]
    }

    /// The eventfd that the client rings, where the protocol has one.
    pub fn doorbell(&self) -> Option<&OwnedFd> {
        self.files.get(2..)?.last()
    }

    /// Rings the daemon; whether that could be done.
    pub fn ring(&self) -> bool {
        match self.doorbell() {
            Some(bell) => nix::unistd::write(bell, &1_u64.to_le_bytes()).is_ok(),
            None => say(&self.socket, &[1], &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_is_what_the_channels_description_says() {
        let opening = opening("watch", 300);
        assert_eq!(opening[..4], *b"PNCT");
        assert_eq!(opening[4..8], [2, 0, 5, 0]);
        assert_eq!(
            opening[8..HEADER],
            [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(opening[HEADER..], *b"\x05watch\x00\x00\xac\x02");
    }
}
