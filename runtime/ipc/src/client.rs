//! The client's side of the channel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

use punctual_platform::futex::{self, Scope};
use punctual_platform::shared_memory::{Access, MemoryFile, Seals};
use punctual_platform::{OsError, clock, poll};

use crate::descriptor::{Crop, Descriptor};
use crate::handshake::{
    Hello, MessageError, Refusal, Reply, StreamTerms, TermsError, decode, encode,
};
use crate::layout::{RequestLayout, ResultLayout};
use crate::region::Region;
use crate::result::{RecordError, ResultRecord};
use crate::ring::{PositionError, RingReader, RingWriter};
use crate::slots::FIRST_GENERATION;
use crate::socket::{self, HungUp, MESSAGE_MAX, Received};

/// How long the daemon may take to answer the handshake, in ns.
const HANDSHAKE_NS: u64 = 5_000_000_000;
/// A killed daemon rings no bell: a sleeper looks after it this often, in ns.
const LOOK_NS: u64 = 100_000_000;

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens there, or not to us.
    #[error("cannot connect ({0}): is punctuald running, and may this user open its socket?")]
    Connect(OsError),
    /// The daemon said no.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// The daemon speaks something else.
    #[error("the daemon's answer: {0}")]
    Message(#[from] MessageError),
    /// The daemon offers what cannot be.
    #[error("the daemon's terms: {0}")]
    Terms(#[from] TermsError),
    /// The shared memory is not what the terms say.
    #[error("the daemon's shared memory: {0}")]
    Memory(&'static str),
    /// The daemon hung up, or said nothing for five seconds.
    #[error("the daemon did not answer")]
    NoAnswer,
    /// The system refused.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// The daemon is gone, or thinks that this client is broken: connect anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disconnected {
    /// It hung up.
    #[error("the daemon hung up")]
    HungUp,
    /// Its result ring makes no sense.
    #[error("the daemon's result ring: {0}")]
    Ring(#[from] PositionError),
    /// A result makes no sense.
    #[error("the daemon's result: {0}")]
    Record(#[from] RecordError),
}

/// Why a frame was not submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The crop leaves the frame.
    #[error("a crop at ({}, {}): at most ({}, {})", crop.x, crop.y, max.x, max.y)]
    Crop {
        /// What was asked for.
        crop: Crop,
        /// The furthest possible.
        max: Crop,
    },
    /// So many results are to be read first.
    #[error("{0} submissions have no result that was read: read results first")]
    ResultsUnread(u32),
    /// The daemon is gone.
    #[error(transparent)]
    Disconnected(#[from] Disconnected),
}

/// The channel as a sensor process has it. One thread's; waiting and pacing are its user's.
#[derive(Debug)]
pub struct ClientChannel {
    terms: StreamTerms,
    socket: OwnedFd,
    requests: Region,
    request_layout: RequestLayout,
    results: Region,
    result_layout: ResultLayout,
    submission_ring: RingWriter,
    result_ring: RingReader,
    /// One entry a slot: its present generation.
    generations: Box<[u32]>,
    /// Slots that may be written, the last released on top: its lines are still warm.
    free: Vec<u16>,
    /// Slots that were submitted and not released yet.
    submitted: Vec<u16>,
    /// How many were ever submitted; the last one's sequence.
    sequence: u64,
    /// How many results were ever read.
    taken: u64,
}

impl ClientChannel {
    /// Connects to the daemon at `path`. Waits up to five seconds for its answer.
    ///
    /// # Errors
    /// If there is none, or it is no.
    pub fn connect(path: &Path, hello: &Hello) -> Result<Self, ConnectError> {
        let (terms, socket, files) = be_welcomed(path, hello)?;
        Self::over(terms, socket, files)
    }

    fn over(
        terms: StreamTerms,
        socket: OwnedFd,
        files: Vec<OwnedFd>,
    ) -> Result<Self, ConnectError> {
        terms.check()?;
        let request_layout = RequestLayout::new(terms.slots, &terms.frame);
        let result_layout = ResultLayout::new(terms.slots, terms.results);
        let [requests, results] = <[OwnedFd; 2]>::try_from(files)
            .map_err(|_| ConnectError::Memory("there must be two files"))?;
        let requests = map(requests, request_layout.bytes, Access::ReadWrite)?;
        let results = map(results, result_layout.bytes, Access::Read)?;
        Ok(Self::new(terms, socket, requests, results))
    }

    /// Over memory that has the layout of these (checked) terms.
    pub(crate) fn new(
        terms: StreamTerms,
        socket: OwnedFd,
        requests: Region,
        results: Region,
    ) -> Self {
        let request_layout = RequestLayout::new(terms.slots, &terms.frame);
        let result_layout = ResultLayout::new(terms.slots, terms.results);
        Self {
            submission_ring: RingWriter::new(requests.clone(), request_layout.submissions),
            result_ring: RingReader::new(results.clone(), result_layout.results),
            generations: vec![FIRST_GENERATION; usize::from(terms.slots)].into(),
            free: (0..terms.slots).rev().collect(),
            submitted: Vec::with_capacity(usize::from(terms.slots)),
            sequence: 0,
            taken: 0,
            terms,
            socket,
            requests,
            request_layout,
            results,
            result_layout,
        }
    }

    pub(crate) fn requests(&self) -> (&Region, &RequestLayout) {
        (&self.requests, &self.request_layout)
    }

    /// What was agreed.
    #[must_use]
    pub fn terms(&self) -> &StreamTerms {
        &self.terms
    }

    /// How many submissions have no result that was read.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.sequence - self.taken
    }

    /// A slot to write a frame into; none if all are submitted. Dropped without a submission, it
    /// stays free; the next one that is given out may be another.
    pub fn slot(&mut self) -> Option<Slot<'_>> {
        if !self.has_slot() {
            return None;
        }
        let index = *self.free.last()?;
        Some(Slot {
            channel: self,
            index,
        })
    }

    /// Whether [`slot`](Self::slot) would give one.
    #[must_use]
    pub fn has_slot(&mut self) -> bool {
        self.reclaim();
        !self.free.is_empty()
    }

    /// How many results can be taken.
    ///
    /// # Errors
    /// If the daemon's count makes no sense.
    pub fn waiting(&self) -> Result<u32, Disconnected> {
        Ok(self.result_ring.waiting()?)
    }

    /// The next result; none if there is none yet.
    ///
    /// # Errors
    /// If there will be none any more.
    pub fn take(&mut self) -> Result<Option<ResultRecord>, Disconnected> {
        let Some(cell) = self.result_ring.pop()? else {
            return Ok(None);
        };
        self.taken += 1;
        let word = self.requests.word32(self.request_layout.results_taken);
        // Release pairs with the Acquire in `Results::push`: the cell was read.
        word.store(self.result_ring.head(), Ordering::Release);
        Ok(Some(ResultRecord::decode(&cell)?))
    }

    /// How often the daemon rang, modulo 2^32. To be read before [`take`](Self::take), and then
    /// given to [`wait`](Self::wait), which so misses nothing.
    #[must_use]
    pub fn bell(&self) -> u32 {
        // Acquire pairs with the store in `Results::ring_bell`: the result is there.
        let bell = self.results.word32(self.result_layout.bell);
        bell.load(Ordering::Acquire)
    }

    /// Sleeps until the daemon has rung since `seen`, or `until_ns` (absolute; none: no limit) has
    /// come; false in the latter case.
    ///
    /// # Errors
    /// If the daemon is gone. Results that it pushed before can still be taken.
    pub fn wait(&self, seen: u32, until_ns: Option<u64>) -> Result<bool, Disconnected> {
        let sleeping = self.requests.word32(self.request_layout.sleeping);
        let bell = self.results.word32(self.result_layout.bell);
        // SeqCst pairs with `Results::ring_bell`.
        sleeping.store(1, Ordering::SeqCst);
        let result = loop {
            if bell.load(Ordering::SeqCst) != seen {
                break Ok(true);
            }
            if poll::is_hung_up(self.socket.as_fd()) {
                break Err(Disconnected::HungUp);
            }
            let now = clock::now_ns();
            if until_ns.is_some_and(|until| now >= until) {
                break Ok(false);
            }
            let look = now.saturating_add(LOOK_NS);
            let slice = until_ns.map_or(look, |until| until.min(look));
            futex::wait(std::ptr::from_ref(bell), seen, Some(slice), Scope::Machine);
        };
        sleeping.store(0, Ordering::Relaxed);
        result
    }

    /// Whether the daemon is gone.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        poll::is_hung_up(self.socket.as_fd())
    }

    /// Takes back the slots that the daemon has released.
    fn reclaim(&mut self) {
        let mut at = 0;
        while at < self.submitted.len() {
            let slot = self.submitted[at];
            let word = self.results.word32(self.result_layout.generation(slot));
            // Acquire pairs with the Release in the daemon's `publish`.
            let generation = word.load(Ordering::Acquire);
            let known = &mut self.generations[usize::from(slot)];
            if generation == *known {
                at += 1;
            } else {
                *known = generation;
                self.submitted.swap_remove(at);
                self.free.push(slot);
            }
        }
    }

    fn submit(
        &mut self,
        slot: u16,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        let max = self.terms.crop_max();
        if crop.x > max.x || crop.y > max.y {
            return Err(SubmitError::Crop { crop, max });
        }
        if self.unanswered() >= u64::from(self.terms.results) {
            return Err(SubmitError::ResultsUnread(self.terms.results));
        }
        let descriptor = Descriptor {
            sequence: self.sequence + 1,
            captured_ns,
            deadline_ns,
            slot,
            crop,
        };
        let generation = self.generations[usize::from(slot)];
        let format = self.terms.frame.format.code();
        let cell = descriptor.encode(generation, self.terms.stream, format);
        // The daemon has read at least those whose slot it released.
        let read = (self.sequence as u32).wrapping_sub(self.submitted.len() as u32);
        let pushed = self.submission_ring.push(&cell, read);
        debug_assert_eq!(pushed, Ok(true), "the ring has a cell for every slot");
        self.sequence += 1;
        self.free.pop();
        self.submitted.push(slot);
        socket::ring(self.socket.as_fd())
            .map_err(|HungUp| SubmitError::Disconnected(Disconnected::HungUp))?;
        Ok(self.sequence)
    }
}

/// Shakes hands: what was agreed, the socket, the memory files.
pub(crate) fn be_welcomed(
    path: &Path,
    hello: &Hello,
) -> Result<(StreamTerms, OwnedFd, Vec<OwnedFd>), ConnectError> {
    let socket = socket::connected(path).map_err(ConnectError::Connect)?;
    socket::send_message(socket.as_fd(), &encode(hello), &[])?;
    let limit = Some(clock::now_ns() + HANDSHAKE_NS);
    if !poll::wait_readable(socket.as_fd(), limit) {
        return Err(ConnectError::NoAnswer);
    }
    let mut buffer = [0; MESSAGE_MAX];
    let (received, files) = socket::receive_with_files(socket.as_fd(), &mut buffer)?;
    let reply = match received {
        Received::Message(bytes) => decode(&buffer[..bytes])?,
        Received::TooLong => return Err(MessageError::Malformed.into()),
        Received::Nothing | Received::HungUp => return Err(ConnectError::NoAnswer),
    };
    match reply {
        Reply::Welcome(terms) => Ok((terms, socket, files)),
        Reply::Refused(refusal) => Err(refusal.into()),
    }
}

fn map(file: OwnedFd, bytes: usize, access: Access) -> Result<Region, ConnectError> {
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

impl AsFd for ClientChannel {
    /// Hung up when the daemon is gone; it says nothing else.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A slot to write a frame into.
#[derive(Debug)]
pub struct Slot<'c> {
    channel: &'c mut ClientChannel,
    index: u16,
}

impl Slot<'_> {
    /// The frame's bytes, laid out as the terms' [`FrameSpec`](crate::FrameSpec) says. What was
    /// there before is an earlier frame.
    #[must_use]
    pub fn pixels(&mut self) -> &mut [u8] {
        let layout = &self.channel.request_layout;
        let bytes = layout.slot_bytes;
        let start = self.channel.requests.span(layout.slot(self.index), bytes);
        // SAFETY: in bounds and mapped read-write as long as the channel lives. The slot is free:
        // the daemon's mapping is read-only and its reading of the last use is over, so nobody
        // else accesses these bytes while self, the only handle, is borrowed.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }

    /// Submits the frame: `captured_ns` and `deadline_ns` are monotonic ns, absolute (no deadline:
    /// the capture time and the task's own), `crop` is where the network is to look. Returns the
    /// submission's sequence number, which its result repeats.
    ///
    /// # Errors
    /// If it is not submitted; the slot stays free, unless the daemon is gone.
    pub fn submit(
        self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        self.channel
            .submit(self.index, captured_ns, deadline_ns, crop)
    }
}
