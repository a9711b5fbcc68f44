//! The handshake, over real sockets: who is admitted, who is told why not, and that strangers, mutes and
//! chatterboxes cost nothing but their own connection.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept, bind, connect, listen,
    recv, send, socket,
};
use punctual_ipc::internals::small_terms;
use punctual_ipc::{
    AdmitError, BufferRefusal, ClientChannel, ConnectError, Connection, Features, FrameError,
    FrameSpec, Hello, HelloError, ListenError, Listener, MessageError, PROTOCOL_VERSIONS,
    PixelFormat, Refusal, ServerChannel, StreamTerms, TermsError, VersionRange,
};
use punctual_platform::poll::wait_readable;

/// A path of this test's own, removed by the listener.
fn path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("punctual-handshake-{}-{count}", std::process::id()))
}

fn hello() -> Hello {
    Hello::new("signs", PixelFormat::Rgb8)
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

/// Connects a client while `answer` handles its handshake.
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
fn a_client_keeps_the_layout_that_it_asked_for_or_does_not_stay() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let strided = FrameSpec::strided(PixelFormat::Rgb8, 8, 4, 64);
    let wish = hello().with_layout(strided.layout());
    for granted in [true, false] {
        let client = std::thread::scope(|scope| {
            let client = scope.spawn(|| ClientChannel::connect(&path, &wish));
            let (connection, said) = opening(&listener);
            assert_eq!(said.unwrap(), wish);
            let mut terms = small_terms();
            if granted {
                terms.frame = strided;
            }
            match connection.admit(&terms) {
                Ok(server) if granted => assert_eq!(server.terms(), &terms),
                Err(AdmitError::NotMapped) if !granted => {}
                other => panic!("{other:?}"),
            }
            client.join().unwrap()
        });
        match client {
            Ok(mut client) if granted => {
                assert_eq!(client.terms().frame, strided);
                assert_eq!(client.slot().unwrap().pixels().len(), 3 * 64 + 24);
            }
            Err(ConnectError::Memory(_)) if !granted => {}
            other => panic!("{other:?}"),
        }
    }
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
        Refusal::Layout(FrameError::Stride { stride: 1, row: 24 }),
        Refusal::LayoutTooLarge {
            bytes: 4097,
            limit: 4096,
        },
        Refusal::Buffers(BufferRefusal::NotWanted),
        Refusal::NotAllowed { uid: 1000, gid: 7 },
        Refusal::StreamsOfProcess { limit: 2 },
        Refusal::Full { clients: 3 },
        Refusal::Draining,
        Refusal::Resources,
        Refusal::Unfinished {
            uid: 7,
            limit_mib: 256,
        },
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

/// A header by hand: what a peer of another release would send.
fn header(lowest: u16, highest: u16, features: u64, agreed: u16) -> Vec<u8> {
    let mut bytes = b"PNCT".to_vec();
    bytes.extend(lowest.to_le_bytes());
    bytes.extend(highest.to_le_bytes());
    bytes.extend(features.to_le_bytes());
    bytes.extend(agreed.to_le_bytes());
    bytes.extend([0; 6]);
    bytes
}

/// The daemon's answer to this opening.
fn answer_to(listener: &Listener, path: &Path, says: &[u8]) -> (Vec<u8>, HelloError) {
    let socket = stranger(path, says);
    let (connection, said) = opening(listener);
    let error = said.unwrap_err();
    connection.refuse(Refusal::Malformed);
    let mut answer = [0; 64];
    let bytes = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).unwrap();
    (answer[..bytes].to_vec(), error)
}

fn apart(lowest: u16, highest: u16) -> MessageError {
    MessageError::Version {
        theirs: VersionRange { lowest, highest },
        ours: PROTOCOL_VERSIONS,
    }
}

const OURS: u16 = PROTOCOL_VERSIONS.highest;

#[test]
fn strangers_are_told_the_versions_and_refused() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    let newer = [header(77, 78, 0, 0).as_slice(), &[0xFF; 90]].concat();
    let older = header(1, 1, 0, 0);
    let damaged = [header(1, OURS, 0, 0).as_slice(), &[0xFF; 90]].concat();
    for (says, expected, agreed) in [
        (&b"GET / HTTP/1.1"[..], MessageError::Foreign, 0),
        (&newer, apart(77, 78), 0),
        (&older, apart(1, 1), 0),
        (&damaged, MessageError::Malformed, OURS),
        (&[b'P'; 5000], MessageError::Malformed, OURS),
    ] {
        let (answer, error) = answer_to(&listener, &path, says);
        let is_expected = matches!(error, HelloError::Message(error) if error == expected);
        assert!(is_expected, "{error} instead of {expected}");
        assert_eq!(
            answer[..8],
            header(PROTOCOL_VERSIONS.lowest, OURS, 0, 0)[..8]
        );
        assert_eq!(answer[16..18], agreed.to_le_bytes());
        assert_eq!(answer.len() == 24, agreed == 0, "a body only in a version");
    }
}

#[test]
fn a_newer_client_that_also_speaks_this_version_is_let_in() {
    let path = path();
    let listener = Listener::bind(&path).unwrap();
    // "signs", RGB, no layout, no buffers; then what a version to come has added.
    let body = [&[5][..], b"signs", &[0, 0, 0], b"more"].concat();
    let says = [header(OURS, OURS + 7, u64::MAX, 0), body].concat();
    let socket = stranger(&path, &says);
    let (connection, said) = opening(&listener);
    assert_eq!(said.unwrap(), hello());
    let mut answer = [0; 128];
    std::thread::scope(|scope| {
        let server = scope.spawn(|| connection.admit(&small_terms()));
        assert!(wait_readable(socket.as_fd(), None));
        recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).unwrap();
        drop(socket);
        // It goes before it has mapped anything.
        let admitted = server.join().unwrap();
        assert!(
            matches!(admitted, Err(AdmitError::NotMapped)),
            "{admitted:?}"
        );
    });
    assert_eq!(
        answer[..24],
        header(PROTOCOL_VERSIONS.lowest, OURS, Features::ALL.bits(), OURS)
    );
    assert_eq!(answer[24], 0, "welcome");
}

/// What a client makes of a daemon that answers this.
fn met_with(answer: &[u8]) -> ConnectError {
    let path = path();
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    let listener = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    listen(&listener, Backlog::new(1).unwrap()).unwrap();
    let error = std::thread::scope(|scope| {
        let client = scope.spawn(|| ClientChannel::connect(&path, &hello()));
        let socket = accept(listener.as_raw_fd()).unwrap();
        send(socket, answer, MsgFlags::MSG_NOSIGNAL).unwrap();
        let error = client.join().unwrap().unwrap_err();
        nix::unistd::close(socket).unwrap();
        error
    });
    std::fs::remove_file(&path).unwrap();
    error
}

#[test]
fn a_client_names_both_ranges_when_the_daemon_has_no_version_in_common() {
    for (lowest, highest) in [(1, 1), (OURS + 1, OURS + 1), (OURS + 1, 900)] {
        match met_with(&header(lowest, highest, 0, 0)) {
            ConnectError::Message(error) => {
                assert_eq!(error, apart(lowest, highest));
                let words = error.to_string();
                assert!(words.contains(&highest.to_string()), "{words}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_client_believes_no_daemon_that_agrees_on_what_was_not_offered() {
    for answer in [
        header(OURS, OURS, 0, OURS + 1),
        header(OURS, OURS, 1 << 40, OURS),
        header(OURS, OURS, 0, OURS),
        b"PNCT\x02\x00".to_vec(),
    ] {
        let error = met_with(&answer);
        let malformed = matches!(error, ConnectError::Message(MessageError::Malformed));
        assert!(malformed, "{error}");
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
    let expected = "exists and is not a socket";
    assert!(taken.unwrap_err().to_string().contains(expected));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();

    let living = Listener::bind(&path).unwrap();
    let taken = Listener::bind(&path);
    let expected = "another daemon is listening";
    assert!(taken.unwrap_err().to_string().contains(expected));
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
    assert!(matches!(error, ListenError::Path(_)), "{error}");
    let error = ClientChannel::connect(&long, &hello()).unwrap_err();
    assert!(matches!(error, ConnectError::Connect(_)), "{error}");
}
