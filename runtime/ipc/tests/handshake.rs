//! The door, over real sockets: who is let in, who is told why not, and that strangers, mutes and
//! chatterboxes cost nothing but their own connection.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
};
use punctual_ipc::internals::small_terms;
use punctual_ipc::{
    AdmitError, ClientChannel, ConnectError, Connection, FrameSpec, Hello, HelloError, ListenError,
    Listener, MessageError, PROTOCOL_VERSION, PixelFormat, Refusal, ServerChannel, StreamTerms,
    TermsError,
};
use punctual_platform::poll::wait_readable;

/// A path of this test's own, removed by the listener.
fn path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("punctual-handshake-{}-{count}", std::process::id()))
}

fn hello() -> Hello {
    Hello {
        task: "signs".to_owned(),
        format: PixelFormat::Rgb8,
    }
}

/// A connection that says what it is told to, and nothing else.
fn stranger(path: &Path, says: &[u8]) -> OwnedFd {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    connect(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    send(socket.as_raw_fd(), says, MsgFlags::MSG_NOSIGNAL).unwrap();
    socket
}

/// Waits for the next connection and its opening.
fn opening(listener: &Listener) -> (Connection, Result<Hello, HelloError>) {
    assert!(wait_readable(listener.as_fd(), None));
    let connection = listener.accept().unwrap().unwrap();
    assert!(wait_readable(connection.as_fd(), None));
    let hello = connection.hello().transpose().unwrap();
    (connection, hello)
}

/// Connects a client while `answer` treats it at the door.
fn shake<T>(
    listener: &Listener,
    path: &Path,
    answer: impl FnOnce(Connection) -> T,
) -> (Result<ClientChannel, ConnectError>, T) {
    std::thread::scope(|scope| {
        let client = scope.spawn(|| ClientChannel::connect(path, &hello()));
        let (connection, said) = opening(listener);
        assert_eq!(said.unwrap(), hello());
        let answered = answer(connection);
        (client.join().unwrap(), answered)
    })
}

#[test]
fn a_client_is_let_in_on_the_daemons_terms() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let (client, server) = shake(&listener, &path, |connection| {
        assert_eq!(connection.peer().pid, std::process::id() as i32);
        connection.admit(&small_terms()).unwrap()
    });
    assert_eq!(client.unwrap().terms(), &small_terms());
    assert_eq!(server.terms(), &small_terms());
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn the_largest_of_streams_fits() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let terms = StreamTerms {
        slots: 256,
        results: 4096,
        frame: FrameSpec::strided(PixelFormat::Nv12, 64, 48, 128),
        crop_width: 64,
        crop_height: 48,
        ..small_terms()
    };
    let (client, server) = shake(&listener, &path, |c| c.admit(&terms).unwrap());
    let mut client = client.unwrap();
    assert_eq!(client.slot().unwrap().pixels().len(), 128 * 71 + 64);
    drop::<ServerChannel>(server);
    assert!(client.is_hung_up());
}

#[test]
fn refusals_reach_the_client_with_their_reason() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    for refusal in [
        Refusal::UnknownTask {
            task: "signs".to_owned(),
        },
        Refusal::Format {
            expected: PixelFormat::Nv12,
        },
        Refusal::Full { clients: 3 },
        Refusal::Draining,
        Refusal::Resources,
    ] {
        let (client, ()) = shake(&listener, &path, |c| c.refuse(refusal.clone()));
        match client {
            Err(ConnectError::Refused(reason)) => assert_eq!(reason, refusal),
            other => panic!("{other:?} instead of {refusal}"),
        }
    }
}

#[test]
fn impossible_terms_are_the_daemons_error_and_the_client_is_told() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let terms = StreamTerms {
        slots: 0,
        ..small_terms()
    };
    let (client, admitted) = shake(&listener, &path, |c| c.admit(&terms));
    let error = admitted.unwrap_err();
    assert!(
        matches!(error, AdmitError::Terms(TermsError::Slots(0))),
        "{error}"
    );
    assert!(matches!(
        client,
        Err(ConnectError::Refused(Refusal::Resources))
    ));
}

#[test]
fn a_daemon_that_hangs_up_instead_of_answering_is_no_answer() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let (client, ()) = shake(&listener, &path, drop);
    assert!(matches!(client, Err(ConnectError::NoAnswer)), "{client:?}");
}

#[test]
fn strangers_are_told_the_version_and_refused() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let newer = [b"PNCT\x4d\x00".as_slice(), &[0xFF; 90]].concat();
    let damaged = [b"PNCT\x01\x00".as_slice(), &[0xFF; 90]].concat();
    for (says, expected) in [
        (b"GET / HTTP/1.1".as_slice(), MessageError::Foreign),
        (&newer, MessageError::Version { theirs: 0x4d }),
        (&damaged, MessageError::Malformed),
        (&[b'P'; 5000], MessageError::Malformed),
    ] {
        let socket = stranger(&path, says);
        match opening(&listener).1 {
            Err(HelloError::Message(error)) => assert_eq!(error, expected),
            other => panic!("{other:?} instead of {expected}"),
        }
        let mut answer = [0; 64];
        let bytes = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).unwrap();
        assert!(bytes > 6);
        let version = PROTOCOL_VERSION.to_le_bytes();
        assert_eq!(answer[..6], *[b"PNCT".as_slice(), &version].concat());
    }
}

#[test]
fn whoever_says_nothing_makes_nobody_wait() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    assert!(listener.accept().unwrap().is_none());
    let family = AddressFamily::Unix;
    let mute = socket(family, SockType::SeqPacket, SockFlag::empty(), None).unwrap();
    connect(mute.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    let connection = listener.accept().unwrap().unwrap();
    assert!(connection.hello().unwrap().is_none());
    let (client, _server) = shake(&listener, &path, |c| c.admit(&small_terms()).unwrap());
    client.unwrap();
    drop(mute);
    assert!(matches!(connection.hello(), Err(HelloError::HungUp)));
}

#[test]
fn a_path_that_is_taken_is_left_alone_and_a_dead_daemons_is_replaced() {
    let path = path();
    std::fs::write(&path, "precious").unwrap();
    let taken = Listener::bind(&path);
    assert!(
        matches!(taken, Err(ListenError::NotASocket { .. })),
        "{taken:?}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();

    let living = Listener::bind(&path).unwrap();
    let taken = Listener::bind(&path);
    assert!(matches!(taken, Err(ListenError::InUse { .. })), "{taken:?}");
    drop(living);

    // A file that outlived its socket, as after SIGKILL.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Listener::bind(&path).unwrap());
}

#[test]
fn a_path_beyond_what_a_socket_can_have_is_an_error() {
    let long = std::env::temp_dir().join("x".repeat(200));
    let error = Listener::bind(&long).unwrap_err();
    assert!(matches!(error, ListenError::Os { .. }), "{error}");
    let error = ClientChannel::connect(&long, &hello()).unwrap_err();
    assert!(matches!(error, ConnectError::Connect(_)), "{error}");
}
