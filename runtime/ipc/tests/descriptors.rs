//! Unwanted descriptors of a client. To close one can take as long as its owner likes,
//! so nothing that the daemon does in a thread that others wait for may close one.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, sendmsg,
    socket, socketpair,
};
use punctual_ipc::internals::{files, small_terms};
use punctual_ipc::{
    AdmitError, Connection, Hello, HelloError, Listener, PROTOCOL_VERSIONS, PixelFormat, Refusal,
    ServerChannel,
};
use punctual_platform::poll::{is_hung_up, wait_readable};
use punctual_platform::shared_memory::MemoryFile;

fn listener() -> Listener {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("punctual-descriptors-{}-{count}", std::process::id());
    Listener::bind(&std::env::temp_dir().join(name)).unwrap()
}

/// A descriptor to send, and what tells whether all copies of it were closed.
struct Probe {
    sent: Option<OwnedFd>,
    other: OwnedFd,
}

impl Probe {
    fn new() -> Self {
        let (family, kind) = (AddressFamily::Unix, SockType::Stream);
        let (sent, other) = socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
        Self {
            sent: Some(sent),
            other,
        }
    }

    fn raw(&self) -> RawFd {
        self.sent.as_ref().unwrap().as_raw_fd()
    }

    fn is_closed(&mut self) -> bool {
        self.sent = None;
        is_hung_up(self.other.as_fd())
    }
}

/// An opening for "signs", RGB, no layout, with `buffers` buffers.
fn opening(buffers: u8) -> Vec<u8> {
    let version = PROTOCOL_VERSIONS.highest.to_le_bytes();
    let mut bytes = b"PNCT".to_vec();
    bytes.extend([version, version].concat());
    bytes.extend(3_u64.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend([&[5][..], b"signs", &[0, 0, buffers]].concat());
    bytes
}

fn say(socket: &OwnedFd, message: &[u8], files: &[RawFd]) -> nix::Result<usize> {
    let parts = [IoSlice::new(message)];
    let rights = [ControlMessage::ScmRights(files)];
    let control = if files.is_empty() { &[][..] } else { &rights };
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, control, flags, None)
}

/// A client that has sent these messages, as the daemon has it.
fn connected(listener: &Listener, messages: &[(&[u8], &[RawFd])]) -> (OwnedFd, Connection) {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    let client = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let address = UnixAddr::new(listener.path()).unwrap();
    connect(client.as_raw_fd(), &address).unwrap();
    for (message, files) in messages {
        say(&client, message, files).unwrap();
    }
    let connection = listener.accept().unwrap().unwrap();
    assert!(wait_readable(connection.as_fd(), None));
    (client, connection)
}

#[test]
fn looking_at_what_a_client_says_closes_nothing_wherever_its_descriptors_are() {
    let listener = listener();
    let open = opening(0);
    let mut damaged = opening(0);
    damaged.push(0);
    for before in [
        // With the opening, with what is none, and with an empty message.
        vec![],
        // In the second message, and behind messages that look like the end of the queue.
        vec![&open[..]],
        vec![&open[..], b"", b"", b""],
        vec![&open[..], b"more"],
        vec![&damaged[..]],
    ] {
        for with in [&open[..], b"GET /", b"", &[1; 5000]] {
            let mut probe = Probe::new();
            let files = [probe.raw(); 200];
            let mut messages: Vec<(&[u8], &[RawFd])> =
                before.iter().map(|m| (*m, &[][..])).collect();
            messages.push((with, &files));
            let (_client, connection) = connected(&listener, &messages);
            let said = connection.hello();
            let kept = matches!(said, Err(HelloError::Unasked | HelloError::HungUp));
            assert!(kept, "{said:?} of {} messages", messages.len());
            assert!(!connection.is_clean());
            assert!(!probe.is_closed(), "closed by looking");
            connection.refuse(Refusal::Malformed);
            assert!(probe.is_closed(), "for a thread that may block");
        }
    }
}

/// A client without buffers that was admitted: the daemon's side, its socket, and what it was sent.
fn admitted(listener: &Listener) -> (ServerChannel, OwnedFd, Vec<OwnedFd>) {
    let hello = Hello::new("signs", PixelFormat::Rgb8);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| files(listener.path(), &hello));
        assert!(wait_readable(listener.as_fd(), None));
        let connection = listener.accept().unwrap().unwrap();
        assert!(wait_readable(connection.as_fd(), None));
        assert_eq!(connection.hello().unwrap().as_ref(), Some(&hello));
        let server = connection.admit(&small_terms()).unwrap();
        let (socket, files) = client.join().unwrap().unwrap();
        (server, socket, files)
    })
}

#[test]
fn nothing_can_be_sent_once_a_client_is_clean() {
    let listener = listener();
    let probe = Probe::new();
    let (client, connection) = connected(&listener, &[(&opening(0), &[])]);
    assert!(connection.hello().unwrap().is_some());
    assert!(connection.is_clean());
    assert_eq!(say(&client, b"x", &[]), Err(Errno::EPIPE));
    assert_eq!(say(&client, b"x", &[probe.raw()]), Err(Errno::EPIPE));
    drop((client, connection));
    let (server, client, _files) = admitted(&listener);
    assert_eq!(say(&client, b"x", &[probe.raw()]), Err(Errno::EPIPE));
    assert!(!is_hung_up(client.as_fd()), "it may go on");
    drop(server);
    assert!(is_hung_up(client.as_fd()));
}

#[test]
fn refused_with_its_buffers_unwanted_a_client_still_reads_why() {
    let listener = listener();
    let mut probe = Probe::new();
    let (client, connection) = connected(&listener, &[(&opening(1), &[probe.raw()])]);
    assert_eq!(connection.hello().unwrap().unwrap().buffers, 1);
    assert!(!connection.is_clean() && !probe.is_closed());
    connection.refuse(Refusal::Draining);
    assert!(probe.is_closed());
    let mut answer = [0; 64];
    let flags = MsgFlags::MSG_DONTWAIT;
    let bytes = nix::sys::socket::recv(client.as_raw_fd(), &mut answer, flags).unwrap();
    assert!(bytes > 24);
}

#[test]
fn buffers_come_with_the_opening_and_nothing_comes_behind_them() {
    let listener = listener();
    let memory: OwnedFd = MemoryFile::create(c"test", 4096).unwrap().into();
    let mut probe = Probe::new();
    let good = opening(4);
    let buffers = [memory.as_raw_fd(); 4];
    let behind = [(&good[..], &buffers[..]), (b"", &[probe.raw()][..])];
    let (_client, connection) = connected(&listener, &behind);
    assert_eq!(connection.hello().unwrap().unwrap().buffers, 4);
    let admitted = connection.admit(&small_terms());
    assert!(matches!(admitted, Err(AdmitError::Unasked)), "{admitted:?}");
    assert!(probe.is_closed(), "for a thread that may block");
}

#[test]
fn a_client_gets_its_bell_with_the_three_memory_files() {
    let (_server, _client, files) = admitted(&listener());
    assert_eq!(files.len(), 4);
}
