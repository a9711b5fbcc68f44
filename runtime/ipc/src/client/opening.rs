//! A connection that is being made, for a client that has other things to wait for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use punctual_platform::clock;

use super::channel::ClientChannel;
use super::connect::{HANDSHAKE_NS, answer, raw, with_buffers};
use super::error::ConnectError;
use crate::handshake::{Hello, encode_opening};
use crate::socket;

/// How far an [`Opening`] has come.
#[derive(Debug)]
pub enum Progress {
    /// The daemon has not answered yet.
    Waiting(Opening),
    /// It has admitted the client.
    Open(Box<ClientChannel>),
}

/// A connection whose handshake is under way, for a client that has other things to wait for. Nothing in here blocks.
#[derive(Debug)]
pub struct Opening {
    socket: OwnedFd,
    hello: Hello,
    /// When the daemon's answer is no longer waited for.
    limit_ns: u64,
}

impl Opening {
    /// Says to the daemon at `path` what the client wants.
    ///
    /// # Errors
    /// If it accepts no connection at this moment.
    pub fn begin(path: &Path, hello: &Hello) -> Result<Self, ConnectError> {
        Self::begin_with_buffers(path, hello, &[])
    }

    /// As [`begin`](Self::begin), with buffers of the client's own, as in
    /// [`ClientChannel::connect_with_buffers`].
    ///
    /// # Errors
    /// As there.
    pub fn begin_with_buffers(
        path: &Path,
        hello: &Hello,
        buffers: &[BorrowedFd<'_>],
    ) -> Result<Self, ConnectError> {
        let hello = with_buffers(hello, buffers);
        let socket = socket::connected_at_once(path).map_err(ConnectError::Connect)?;
        socket::send_message(socket.as_fd(), &encode_opening(&hello), &raw(buffers))?;
        Ok(Self {
            socket,
            hello,
            limit_ns: clock::now_ns() + HANDSHAKE_NS,
        })
    }

    /// Goes on if the daemon has answered; its descriptor becomes readable then.
    ///
    /// # Errors
    /// If the daemon refuses, or no answer came within five seconds.
    pub fn go_on(self) -> Result<Progress, ConnectError> {
        match answer(self.socket, &self.hello)? {
            Ok(welcome) => {
                let channel = ClientChannel::over(welcome)?;
                Ok(Progress::Open(Box::new(channel)))
            }
            Err(_) if clock::now_ns() >= self.limit_ns => Err(ConnectError::NoAnswer),
            Err(socket) => Ok(Progress::Waiting(Self { socket, ..self })),
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
