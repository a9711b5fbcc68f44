//! Accepts connections, carries out the handshake, makes the shared memory. For an ordinary
//! thread. Nothing in here waits, but for what is said to be for a thread that may block: closing a
//! socket closes the descriptors in its queue, which may be the client's and slow.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::socket::{SockType, UnixAddr, getsockname, getsockopt, sockopt};
pub use punctual_platform::peer::PeerCredentials;
use punctual_platform::poll::Poller;
use punctual_platform::socket_path::{SocketPath, SocketPathError};
use punctual_platform::{OsError, clock, peer, poll};

use crate::bell::ServerBell;
use crate::description::{Description, DescriptionError};
use crate::handshake::{
    Agreement, BufferRefusal, Features, Hello, MessageError, OutputTerms, Refusal, Reply,
    StreamTerms, TermsError, decode_opening, encode_answer,
};
use crate::memory::{self, Memory};
use crate::server::{Buffer, ServerChannel, free_slots};
use crate::socket::{self, MESSAGE_MAX, Received};

/// Who may connect: the daemon's user and its group.
const MODE: u32 = 0o660;

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(transparent)]
    Path(#[from] SocketPathError),
    #[error("{path}: {source}")]
    Os { path: PathBuf, source: OsError },
    /// The service manager passed something else.
    #[error(
        "the socket that the service manager passed is not a listening SEQPACKET socket with a path: \
         its unit needs `ListenSequentialPacket=` with a path, and `Accept=no`"
    )]
    Passed,
}

/// The listening socket. Its path is removed when it is dropped, unless the service manager made
/// it, or another process's socket is there by then. Connections that were not accepted are closed
/// then: for a thread that may block.
#[derive(Debug)]
pub struct Listener {
    /// If the path is ours to remove; dropped before the socket.
    _bound: Option<SocketPath>,
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path`, for the user and the group (mode 0660). A socket that a dead daemon left there is replaced.
    ///
    /// # Errors
    /// If the path is taken or cannot be made.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Os {
            path: path.to_owned(),
            source,
        };
        let (bound, socket) = SocketPath::bind(path, |path| {
            socket::bound(path).map_err(|error| error.source)
        })?;
        let listener = Self {
            _bound: Some(bound),
            socket,
            path: path.to_owned(),
        };
        // Before it listens: until then no client can connect with the mode that the umask left.
        let mode = std::fs::Permissions::from_mode(MODE);
        std::fs::set_permissions(path, mode).map_err(|source| {
            failed(OsError {
                call: "chmod",
                source,
            })
        })?;
        socket::start_listening(listener.socket.as_fd()).map_err(failed)?;
        Ok(listener)
    }

    /// Listens on a socket that the service manager made and keeps: its path stays when this is
    /// dropped, and clients that come then wait for the next daemon.
    ///
    /// # Errors
    /// If it is not a listening SEQPACKET socket with a path.
    pub fn passed(socket: OwnedFd) -> Result<Self, ListenError> {
        let listening = getsockopt(&socket, sockopt::AcceptConn).unwrap_or(false);
        let kind = getsockopt(&socket, sockopt::SockType);
        let name = getsockname::<UnixAddr>(socket.as_raw_fd());
        let path = name.ok().and_then(|name| Some(name.path()?.to_owned()));
        match (listening, kind, path) {
            (true, Ok(SockType::SeqPacket), Some(path)) => Ok(Self {
                _bound: None,
                socket,
                path,
            }),
            _ => Err(ListenError::Passed),
        }
    }

    /// Where clients connect.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection; none if none waits (any more).
    ///
    /// # Errors
    /// When out of descriptors or memory: the connection goes on waiting.
    pub fn accept(&self) -> Result<Option<Connection>, OsError> {
        // A socket from the service manager may be a blocking one.
        if !punctual_platform::poll::wait_readable(self.socket.as_fd(), Some(0)) {
            return Ok(None);
        }
        let Some(socket) = socket::accept(self.socket.as_fd())? else {
            return Ok(None);
        };
        let peer = peer::credentials(socket.as_fd())?;
        Ok(Some(Connection {
            socket,
            peer,
            since_ns: clock::now_ns(),
            agreement: Cell::new(None),
            announced: Cell::new(0),
            clean: Cell::new(false),
        }))
    }
}

impl AsFd for Listener {
    /// Readable when a connection waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A connection that has not been admitted yet. Dropping, refusing and admitting it is for a
/// thread that may block, unless it [is clean](Self::is_clean).
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    peer: PeerCredentials,
    since_ns: u64,
    /// Once its opening was read, if there is a version in common.
    agreement: Cell<Option<Agreement>>,
    /// Buffers that its opening announces, which is in the queue until its admission.
    announced: Cell<u16>,
    /// Nothing is in its queue, nor can anything come.
    clean: Cell<bool>,
}

/// Why a client's opening is invalid. Refuse the client.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// It closed the connection.
    #[error("the client closed the connection before it sent its opening")]
    HungUp,
    /// It speaks something else.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// It sent more than an opening.
    #[error("the client sent descriptors that its opening does not announce, or further messages")]
    Unasked,
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Why a client that should have been admitted is not.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// There can be no such stream.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// There can be no such answers.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// Its buffers cannot be imported.
    #[error(transparent)]
    Buffers(#[from] BufferRefusal),
    /// It sent something after its opening.
    #[error("the client sent more messages before the answer to its opening")]
    Unasked,
    /// It did not wait for the answer.
    #[error("the client closed the connection before the answer to its opening")]
    Gone,
    /// It has not mapped what it was sent, or has gone instead.
    #[error("the client has not mapped its memory {} s after it got it", MAPPING_NS / 1_000_000_000)]
    NotMapped,
    /// The file that it writes cannot be sealed any more.
    #[error(
        "the client has put seals of its own on the file of requests, which cannot be protected from holes any more"
    )]
    Sealed,
    /// Memory or descriptors are unavailable.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// How long a client may take to map what it was sent, in ns.
const MAPPING_NS: u64 = 2_000_000_000;

/// What is waited for meanwhile.
const BELL: u64 = 0;
const SOCKET: u64 = 1;

impl Connection {
    /// The process that connected.
    #[must_use]
    pub fn peer(&self) -> PeerCredentials {
        self.peer
    }

    /// Its groups in addition to the one of [`peer`](Self::peer); none if the kernel does not tell.
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        peer::supplementary_groups(self.socket.as_fd()).unwrap_or_default()
    }

    /// When it connected, in monotonic ns. One that says nothing for long should be dropped.
    #[must_use]
    pub fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Whether no descriptor of the client's can come out of it, so that nothing that is done with it takes long.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.clean.get()
    }

    /// What it wants; none if it has not said so yet. Whatever the client has sent, this closes none
    /// of its descriptors. After an opening without buffers the connection is clean.
    ///
    /// # Errors
    /// If it never will say anything that makes sense: [refuse](Self::refuse) it.
    pub fn hello(&self) -> Result<Option<Hello>, HelloError> {
        let mut buffer = [0; MESSAGE_MAX];
        let (received, files) = socket::peek(self.socket.as_fd(), &mut buffer)?;
        let opening = match received {
            Received::Nothing => return Ok(None),
            Received::HungUp => return Err(HelloError::HungUp),
            Received::TooLong => Err(MessageError::Malformed),
            Received::Message(bytes) => decode_opening(&buffer[..bytes]),
        };
        // Without a version in common, the answer is a header without a body.
        self.agreement.set(match &opening {
            Ok((agreement, _)) => Some(*agreement),
            Err(MessageError::Malformed) => Some(Agreement::newest()),
            Err(MessageError::Foreign | MessageError::Version { .. }) => None,
        });
        let hello = opening.map(|(_, hello)| hello);
        match hello {
            Ok(hello) if hello.buffers > 0 => {
                self.announced.set(hello.buffers);
                Ok(Some(hello))
            }
            _ if files => Err(HelloError::Unasked),
            hello => {
                // Looked at above: no descriptors came with it. It is taken off the queue, since closing a socket
                // with unread data resets the connection. Then the peer's next receive fails with ECONNRESET and does
                // not give our last message.
                socket::discard(self.socket.as_fd());
                self.clean.set(socket::stop_receiving(self.socket.as_fd()));
                if self.clean.get() {
                    Ok(Some(hello?))
                } else {
                    Err(HelloError::Unasked)
                }
            }
        }
    }

    /// Tells the client why it is refused.
    pub fn refuse(self, refusal: Refusal) {
        if !self.clean.get() {
            socket::discard(self.socket.as_fd());
        }
        self.reply(&Reply::Refused(refusal));
    }

    /// Admits it, with the buffers that it announced or with slots of ours: makes the shared memory, sends it, with the bell,
    /// and waits until the client has mapped it. Large memory takes a while to make, even if no one waits for it any more,
    /// and a client decides when it maps: for a thread that serves this client alone.
    ///
    /// # Errors
    /// If there can be no such stream, or memory is unavailable (of which the client is told), or the client is gone, or does
    /// not map its memory.
    pub fn admit(self, terms: &StreamTerms) -> Result<ServerChannel, AdmitError> {
        self.admit_with(terms, &Description::default())
    }

    /// As [`admit`](Self::admit), for a stream whose answers have classes or outputs, or whose frames come with vectors.
    /// What the terms hold about the description and about vectors need not be filled in.
    ///
    /// # Errors
    /// As for [`admit`](Self::admit).
    pub fn admit_with(
        self,
        terms: &StreamTerms,
        description: &Description,
    ) -> Result<ServerChannel, AdmitError> {
        if poll::is_closed(self.socket.as_fd()) {
            return Err(AdmitError::Gone);
        }
        let agreed = self.agreement.get();
        let knows_tasks = agreed.is_some_and(|it| it.features.contain(Features::TASKS));
        let described;
        let description = if knows_tasks || description.tasks.is_none() {
            description
        } else {
            described = description.of_one_task();
            &described
        };
        let encoded = description.encode();
        let terms = &with_description(terms, description, &encoded);
        let made = terms.check().map_err(AdmitError::from);
        let made = made.and_then(|()| {
            description.check(terms)?;
            let buffers = self.buffers(terms)?;
            let memory = Memory::create(terms, &encoded, buffers.is_some())?;
            Ok((memory, ServerBell::new()?, buffers))
        });
        let (memory, bell, buffers) = match made {
            Ok(made) => made,
            Err(error) => {
                self.refuse(match error {
                    AdmitError::Buffers(refusal) => Refusal::Buffers(refusal),
                    AdmitError::Unasked => Refusal::Malformed,
                    _ => Refusal::Resources,
                });
                return Err(error);
            }
        };
        // Before the client can submit.
        free_slots(terms, &memory.results);
        self.welcome(terms, &memory, &bell)?;
        let requests = memory::sealed(&memory.request_file).map_err(|_| AdmitError::Sealed)?;
        let (socket, results, areas) = (self.socket, memory.results, memory.areas);
        let channel = ServerChannel::new(*terms, socket, bell, requests, results, buffers, areas);
        Ok(channel.for_tasks(description.task_count()))
    }

    /// Sends the client its memory, and waits until it has mapped it and rings for the first time.
    fn welcome(
        &self,
        terms: &StreamTerms,
        memory: &Memory,
        bell: &ServerBell,
    ) -> Result<(), AdmitError> {
        let welcome = encode_answer(self.agreement.get(), &Reply::Welcome(*terms));
        let files = [
            memory.request_file.as_fd(),
            memory.result_file.as_fd(),
            memory.output_file.as_fd(),
            bell.for_peer(),
        ];
        let files = files.map(|file| file.as_raw_fd());
        let sent = socket::send_message(self.socket.as_fd(), &welcome, &files);
        sent.map_err(|_| AdmitError::NotMapped)?;
        let mut poller = Poller::new(2)?;
        poller.add(bell.as_fd(), BELL)?;
        poller.add_hang_up(self.socket.as_fd(), SOCKET)?;
        let until_ns = clock::now_ns() + MAPPING_NS;
        while clock::now_ns() < until_ns {
            let seen: Vec<u64> = poller.wait(Some(until_ns)).map(|r| r.token).collect();
            if seen.contains(&BELL) {
                return Ok(());
            }
            if seen.contains(&SOCKET) {
                break;
            }
        }
        Err(AdmitError::NotMapped)
    }

    /// The client's own buffers, if it announced some: one a slot. The connection is clean afterwards.
    fn buffers(&self, terms: &StreamTerms) -> Result<Option<Box<[Buffer]>>, AdmitError> {
        let announced = self.announced.get();
        if announced == 0 {
            return Ok(None);
        }
        let mut message = [0; MESSAGE_MAX];
        let (_, files) = socket::receive_with_files(self.socket.as_fd(), &mut message)?;
        self.clean.set(socket::stop_receiving(self.socket.as_fd()));
        if !self.clean.get() {
            return Err(AdmitError::Unasked);
        }
        let attached = files.len() as u16;
        if attached != announced || announced != terms.slots {
            let count = BufferRefusal::Count {
                announced,
                attached,
            };
            return Err(count.into());
        }
        let needed = usize::try_from(terms.frame.bytes()).expect("checked terms");
        let received = (0..).zip(files);
        let received = received.map(|(number, file)| Buffer::received(number, file, needed));
        Ok(Some(received.collect::<Result<_, _>>()?))
    }

    fn reply(&self, reply: &Reply) {
        // It may be gone already, which is as good.
        let _ = socket::send_message(
            self.socket.as_fd(),
            &encode_answer(self.agreement.get(), reply),
            &[],
        );
    }
}

/// The terms with what follows from the description.
fn with_description(terms: &StreamTerms, description: &Description, encoded: &[u8]) -> StreamTerms {
    let saturated = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    StreamTerms {
        outputs: OutputTerms {
            description_bytes: saturated(encoded.len()),
            ..terms.outputs
        },
        vectors: u16::try_from(description.vector_floats()).unwrap_or(u16::MAX),
        ..*terms
    }
}

impl AsFd for Connection {
    /// Readable when the client has said what it wants.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
