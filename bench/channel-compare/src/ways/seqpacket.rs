//! A Unix socket that keeps messages apart; the kernel copies them twice.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept, bind, connect as dial,
    listen, recv, send, setsockopt, socket, sockopt,
};
use punctual_platform::clock::now_ns;
use punctual_platform::poll::Poller;

use super::Client;
use crate::Result;
use crate::child::{Orders, Wait};

fn new_socket() -> Result<OwnedFd> {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    // A message must fit whole.
    setsockopt(&socket, sockopt::SndBufForce, &(4 << 20))?;
    Ok(socket)
}

fn time(message: &[u8]) -> Result<u64> {
    let first = message.first_chunk().ok_or("a short message")?;
    Ok(u64::from_le_bytes(*first))
}

/// One message; none if the socket is empty and must not be waited for.
fn receive(socket: &OwnedFd, buffer: &mut [u8], flags: MsgFlags) -> Result<Option<u64>> {
    match recv(socket.as_raw_fd(), buffer, flags) {
        Ok(0) => Err("the other process closed the connection".into()),
        Ok(_) => Ok(Some(time(buffer)?)),
        Err(Errno::EAGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

pub fn serve(orders: &Orders) -> Result<()> {
    let listener = new_socket()?;
    let address = UnixAddr::new(&orders.folder.join("seqpacket"))?;
    bind(listener.as_raw_fd(), &address)?;
    listen(&listener, Backlog::new(64)?)?;
    let mut poller = Poller::new(orders.clients + 1)?;
    let mut clients = Vec::new();
    for token in 0..orders.clients {
        // SAFETY: a new descriptor, owned here alone.
        let client = unsafe { OwnedFd::from_raw_fd(accept(listener.as_raw_fd())?) };
        poller.add(client.as_fd(), token as u64)?;
        clients.push(client);
    }
    let mut buffer = vec![0; orders.bytes];
    let mut answer = |client: &OwnedFd| -> Result<()> {
        if receive(client, &mut buffer, MsgFlags::MSG_DONTWAIT)?.is_some() {
            send(
                client.as_raw_fd(),
                &now_ns().to_le_bytes(),
                MsgFlags::empty(),
            )?;
        }
        Ok(())
    };
    loop {
        if orders.wait == Wait::Spin {
            clients.iter().try_for_each(&mut answer)?;
            continue;
        }
        for event in poller.wait(None) {
            answer(&clients[event.token as usize])?;
        }
    }
}

pub struct Socket {
    socket: OwnedFd,
    frame: Vec<u8>,
    wait: Wait,
}

pub fn connect(orders: &Orders) -> Result<Socket> {
    let socket = new_socket()?;
    let address = UnixAddr::new(&orders.folder.join("seqpacket"))?;
    dial(socket.as_raw_fd(), &address)?;
    Ok(Socket {
        socket,
        frame: vec![7; orders.bytes],
        wait: orders.wait,
    })
}

impl Client for Socket {
    fn exchange(&mut self, due_ns: u64) -> Result<u64> {
        self.frame[..8].copy_from_slice(&due_ns.to_le_bytes());
        send(self.socket.as_raw_fd(), &self.frame, MsgFlags::empty())?;
        let flags = match self.wait {
            Wait::Spin => MsgFlags::MSG_DONTWAIT,
            Wait::Sleep => MsgFlags::empty(),
        };
        let mut answer = [0; 8];
        loop {
            if let Some(there_ns) = receive(&self.socket, &mut answer, flags)? {
                return Ok(there_ns);
            }
        }
    }
}
