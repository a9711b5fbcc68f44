//! Sockets whose last close blocks the thread that closes them: TCP over loopback with unsent bytes that
//! the other end does not take, and `SO_LINGER`.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use nix::sys::socket::{setsockopt, sockopt};

use super::{AgentError, wire};

/// How long such a close blocks. It ends earlier when the attacker does: so do its other ends.
const LINGER_S: i32 = 20;

/// More than both sides' buffers hold, as these are set.
const UNSENT: usize = 256 * 1024;

pub struct Lingering {
    listener: TcpListener,
    address: SocketAddr,
    /// The other ends, which take nothing.
    ends: Vec<TcpStream>,
}

impl Lingering {
    pub fn new() -> Result<Self, AgentError> {
        let failed = AgentError::io("a TCP listener on loopback");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(&failed)?;
        // What the other ends take without being asked shall be little.
        setsockopt(&listener, sockopt::RcvBuf, &4096)
            .map_err(AgentError::os("a TCP listener on loopback"))?;
        let address = listener.local_addr().map_err(&failed)?;
        Ok(Self {
            listener,
            address,
            ends: Vec::new(),
        })
    }

    /// `count` sockets; fewer when descriptors run out.
    pub fn sockets(&mut self, count: usize) -> Vec<TcpStream> {
        (0..count).map_while(|_| self.socket().ok()).collect()
    }

    fn socket(&mut self) -> std::io::Result<TcpStream> {
        let socket = TcpStream::connect(self.address)?;
        self.ends.push(self.listener.accept()?.0);
        setsockopt(&socket, sockopt::SndBuf, &4096)?;
        socket.set_nonblocking(true)?;
        // Whatever of it goes in: what matters is that the buffers are full.
        let mut into = &socket;
        while into.write(&[0; UNSENT]).is_ok() {}
        lingers(&socket, LINGER_S)?;
        Ok(socket)
    }
}

fn lingers(socket: &TcpStream, seconds: i32) -> nix::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: seconds,
    };
    setsockopt(socket, sockopt::Linger, &linger)
}

/// Sends them away with a message and closes them here; how many went.
pub fn hand_over(to: &OwnedFd, message: &[u8], sockets: Vec<TcpStream>) -> usize {
    let carried: Vec<RawFd> = sockets.iter().map(|socket| socket.as_raw_fd()).collect();
    if wire::say(to, message, &carried) {
        return sockets.len();
    }
    for socket in &sockets {
        // No other process has them: it would be this process that waits for their close.
        let _ = lingers(socket, 0);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::child::pause;
    use punctual_client::now_ns;

    #[test]
    fn the_close_of_such_a_socket_blocks_until_its_other_end_is_gone() {
        let mut lingering = Lingering::new().expect("loopback");
        let sockets = lingering.sockets(1);
        assert_eq!(sockets.len(), 1);
        let began_ns = now_ns();
        let until_ns = began_ns + 300_000_000;
        let closed_ns = std::thread::scope(|scope| {
            let closing = scope.spawn(move || {
                drop(sockets);
                now_ns()
            });
            while now_ns() < until_ns {
                assert!(!closing.is_finished(), "the close did not block");
                pause(10);
            }
            drop(lingering);
            closing.join().expect("it closes")
        });
        let limit_ns = began_ns + LINGER_S as u64 * 1_000_000_000;
        assert!((until_ns..limit_ns).contains(&closed_ns));
    }
}
