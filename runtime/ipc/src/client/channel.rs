//! The channel as one thread of a sensor process has it.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use punctual_platform::atomics::{Ordering, fence};
use punctual_platform::clock;
use punctual_platform::shared_memory::Access;

use super::connect::{Welcome, be_welcomed, map};
use super::doorbell::{ASLEEP, ASLEEP_FOR_VERDICTS, AWAKE, BellWatch};
use super::error::{ConnectError, Disconnected, SubmitError};
use super::outputs::{Holds, OutputMemory, Outputs};
use super::slot::{Claim, VectorError};
use crate::bell::ClientBell;
use crate::description::Description;
use crate::descriptor::{Crop, Descriptor};
use crate::handshake::{Agreement, Hello, StreamTerms};
use crate::layout::{OutputLayout, RequestLayout, ResultLayout};
use crate::region::Region;
use crate::result::{Answer, RecordError, ResultRecord};
use crate::ring::{RingReader, RingWriter};
use crate::slots::FIRST_GENERATION;
use crate::socket;

/// A killed daemon rings no bell. So a sleeping client checks this often, in ns, whether the daemon is gone.
const LOOK_NS: u64 = 20_000_000;

/// Tells the channels of this process apart.
static CHANNELS: AtomicU64 = AtomicU64::new(0);

/// The channel as a sensor process has it. One thread's; waiting and pacing are its user's.
#[derive(Debug)]
pub struct ClientChannel {
    /// Which one it is: a slot of another channel is none of this one's.
    number: u64,
    agreement: Agreement,
    terms: StreamTerms,
    /// Carried the handshake; now it only tells that the daemon is gone.
    socket: OwnedFd,
    bell: ClientBell,
    /// What the daemon rings.
    watch: BellWatch,
    /// Whether another thread sleeps on the bell all the time.
    watched: bool,
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
    /// How many verdicts were ever read.
    taken: u64,
    /// Since when it has waited for a record, until it reads one.
    waits_since_ns: Cell<Option<u64>>,
    /// The slowest of the records that were read since the last submission.
    egress_ns: u64,
    outputs: Arc<OutputMemory>,
    /// One entry an area: the answer that it was handed over with, until its [`Outputs`] are taken.
    handed: Box<[Option<Answer>]>,
}

/// What a channel's daemon and client have in common, and how its requests are laid out.
pub(crate) struct SharedMemory {
    pub(crate) requests: Region,
    pub(crate) results: Region,
    pub(crate) outputs: Region,
    pub(crate) import_buffers: bool,
}

impl ClientChannel {
    /// Connects to the daemon at `path`. Waits up to five seconds for its answer.
    ///
    /// # Errors
    /// If there is none, or it is no.
    pub fn connect(path: &Path, hello: &Hello) -> Result<Self, ConnectError> {
        Self::connect_with_buffers(path, hello, &[])
    }

    /// As [`connect`](Self::connect), with frames in buffers that the client has already: one for
    /// each slot, memory files with `F_SEAL_SHRINK` or DMA-BUFs, in which frames lie as
    /// [`Hello::layout`] says. The daemon keeps them until the channel ends. A slot is claimed by the
    /// number of its buffer ([`claim_at`](Self::claim_at)), and [`Claim::pixels`] is empty.
    ///
    /// # Errors
    /// If there is no daemon, or it refuses: the manifest must allow it (`import_buffers`).
    pub fn connect_with_buffers(
        path: &Path,
        hello: &Hello,
        buffers: &[BorrowedFd<'_>],
    ) -> Result<Self, ConnectError> {
        Self::over(be_welcomed(path, hello, buffers)?)
    }

    pub(crate) fn over(welcome: Welcome) -> Result<Self, ConnectError> {
        let Welcome {
            agreement,
            terms,
            socket,
            files,
            import_buffers,
        } = welcome;
        let request_layout = RequestLayout::of(&terms, import_buffers);
        let result_layout = ResultLayout::of(&terms);
        let [requests, results, outputs, bell] = <[OwnedFd; 4]>::try_from(files)
            .map_err(|_| ConnectError::Memory("there must be four files"))?;
        let requests = map(requests, request_layout.bytes, Access::ReadWrite)?;
        let results = map(results, result_layout.bytes, Access::Read)?;
        let outputs = map(outputs, OutputLayout::of(&terms).bytes, Access::Read)?;
        let mut description = vec![0; terms.outputs.description_bytes as usize];
        outputs.copy_out(0, &mut description);
        let description = Description::decode(&description, &terms)?;
        let bell = ClientBell::received(bell);
        let memory = SharedMemory {
            requests,
            results,
            outputs,
            import_buffers,
        };
        let channel = Self::new(agreement, terms, description, socket, bell, memory);
        // The daemon touches the memory that we write from now on.
        channel.bell.ring();
        Ok(channel)
    }

    /// Over memory that has the layout of these (checked) terms.
    pub(crate) fn new(
        agreement: Agreement,
        terms: StreamTerms,
        description: Description,
        socket: OwnedFd,
        bell: ClientBell,
        memory: SharedMemory,
    ) -> Self {
        let SharedMemory {
            requests,
            results,
            outputs,
            import_buffers,
        } = memory;
        let request_layout = RequestLayout::of(&terms, import_buffers);
        let result_layout = ResultLayout::of(&terms);
        let watch = BellWatch::new(results.clone(), result_layout.bell);
        let outputs = OutputMemory {
            description: Arc::new(description),
            layout: OutputLayout::of(&terms),
            outputs,
            requests: requests.clone(),
            request_layout,
            holds: (0..terms.outputs.areas).map(|_| Holds::default()).collect(),
        };
        Self {
            outputs: Arc::new(outputs),
            handed: vec![None; usize::from(terms.outputs.areas)].into(),
            // Relaxed: nothing but its being another each time is asked for.
            number: CHANNELS.fetch_add(1, Ordering::Relaxed),
            submission_ring: RingWriter::new(requests.clone(), request_layout.submissions),
            result_ring: RingReader::new(results.clone(), result_layout.results),
            generations: vec![FIRST_GENERATION; usize::from(terms.slots)].into(),
            free: (0..terms.slots).rev().collect(),
            submitted: Vec::with_capacity(usize::from(terms.slots)),
            sequence: 0,
            taken: 0,
            waits_since_ns: Cell::new(None),
            egress_ns: 0,
            agreement,
            terms,
            socket,
            bell,
            watch,
            watched: false,
            requests,
            request_layout,
            results,
            result_layout,
        }
    }

    pub(crate) fn requests(&self) -> (&Region, &RequestLayout) {
        (&self.requests, &self.request_layout)
    }

    /// The protocol's version and features that both sides use.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// What was agreed about the stream.
    #[must_use]
    pub fn terms(&self) -> &StreamTerms {
        &self.terms
    }

    /// What its answers consist of, and what comes with its frames.
    #[must_use]
    pub fn description(&self) -> &Arc<Description> {
        &self.outputs.description
    }

    /// How many submissions have no verdict that was read.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        // A faulty daemon may give more results than there were submissions.
        self.sequence.saturating_sub(self.taken)
    }

    /// A slot to write a frame into; none if all are submitted. Dropped without a submission, it
    /// stays free; the next one that is given out may be another.
    pub fn slot(&mut self) -> Option<Slot<'_>> {
        let claim = self.claim()?;
        Some(Slot::new(self, claim))
    }

    /// Takes a slot out of the channel's hands until it is [submitted](Self::submit) or
    /// [given back](Self::give_back); none if all are taken. Several can be held at once.
    pub fn claim(&mut self) -> Option<Claim> {
        self.reclaim();
        let index = self.free.pop()?;
        Some(self.claimed(index))
    }

    /// Takes this very slot, for a frame that lies in the buffer of the same number already.
    pub fn claim_at(&mut self, index: u16) -> Option<Claim> {
        self.reclaim();
        let at = self.free.iter().position(|&free| free == index)?;
        self.free.swap_remove(at);
        Some(self.claimed(index))
    }

    fn claimed(&self, index: u16) -> Claim {
        let layout = &self.request_layout;
        Claim {
            channel: self.number,
            index,
            memory: self.requests.clone(),
            start: layout.slot(index),
            bytes: layout.slot_bytes,
            vectors: layout.vectors(index),
            written: 0,
            task: 0,
            description: Arc::clone(&self.outputs.description),
        }
    }

    /// A slot that is not to be submitted after all.
    ///
    /// # Errors
    /// If it is another channel's.
    pub fn give_back(&mut self, claim: Claim) -> Result<(), SubmitError> {
        self.own(&claim)?;
        self.free.push(claim.index);
        Ok(())
    }

    fn own(&self, claim: &Claim) -> Result<(), SubmitError> {
        if claim.channel == self.number {
            return Ok(());
        }
        Err(SubmitError::ForeignSlot)
    }

    /// Whether [`slot`](Self::slot) would give one.
    #[must_use]
    pub fn has_slot(&mut self) -> bool {
        self.reclaim();
        !self.free.is_empty()
    }

    /// How many records can be taken.
    ///
    /// # Errors
    /// If the daemon's count is impossible.
    pub fn waiting(&self) -> Result<u32, Disconnected> {
        Ok(self.result_ring.waiting()?)
    }

    /// The next record: a verdict, or an answer before it; none if there is none yet.
    ///
    /// # Errors
    /// If there will be none any more.
    pub fn take(&mut self) -> Result<Option<ResultRecord>, Disconnected> {
        let Some(cell) = self.result_ring.pop()? else {
            return Ok(None);
        };
        let word = self.requests.word32(self.request_layout.results_taken);
        // Release pairs with the Acquire in `Results::push`: the cell was read.
        word.store(self.result_ring.head(), Ordering::Release);
        let record = ResultRecord::decode(&cell)?;
        self.note_egress(record.sent_ns);
        if record.is_final {
            self.taken += 1;
            let word = self.requests.word32(self.request_layout.verdicts_taken);
            // Relaxed: a number that `Submissions::check_results_read` checks.
            word.store(self.taken as u32, Ordering::Relaxed);
        }
        self.note_outputs(&record)?;
        Ok(Some(record))
    }

    /// How long a record took that this thread waited for. What comes while it does something else says nothing.
    fn note_egress(&mut self, sent_ns: u64) {
        let waited = self.waits_since_ns.take();
        if waited.is_some_and(|since| since <= sent_ns) {
            let took_ns = clock::now_ns().saturating_sub(sent_ns);
            self.egress_ns = self.egress_ns.max(took_ns);
        }
    }

    /// The outputs of a record that was [taken](Self::take), once; none if it has none. A caller that takes verdicts must
    /// take their outputs as well, and let go of them: otherwise their areas are never free again.
    pub fn outputs(&mut self, record: &ResultRecord) -> Option<Outputs> {
        self.outputs_of(record, 0)
    }

    /// As [`outputs`](Self::outputs), of a submission for the task of this number.
    pub fn outputs_of(&mut self, record: &ResultRecord, task: u16) -> Option<Outputs> {
        let answer = record.answer?;
        let handed = answer.outputs?;
        let noted = self.handed.get_mut(usize::from(handed.area))?;
        noted.take_if(|noted| noted.outputs == Some(handed))?;
        let memory = Arc::clone(&self.outputs);
        let outputs = Outputs::new(memory, task, answer.exit, handed, answer.not_finite);
        if record.is_final || record.part.is_some() {
            // No deeper answer comes to this area: it goes back with the last of its outputs.
            self.outputs.let_go(handed);
        }
        Some(outputs)
    }

    fn note_outputs(&mut self, record: &ResultRecord) -> Result<(), RecordError> {
        let Some((answer, handed)) = record.answer.and_then(|a| Some((a, a.outputs?))) else {
            return Ok(());
        };
        let areas = self.terms.outputs.areas;
        let Some(noted) = self.handed.get_mut(usize::from(handed.area)) else {
            let area = handed.area;
            return Err(RecordError::Area { area, areas });
        };
        *noted = Some(answer);
        self.outputs.hold_until_verdict(handed);
        Ok(())
    }

    /// How often the daemon rang, modulo 2^32. To be read before [`take`](Self::take), and then
    /// given to [`wait`](Self::wait), which so misses nothing.
    #[must_use]
    pub fn bell(&self) -> u32 {
        self.watch.count()
    }

    /// Sleeps until the daemon has rung since `seen`, or `until_ns` (absolute; none: no limit) has
    /// come; false in the latter case.
    ///
    /// # Errors
    /// If the daemon is gone. Records that it pushed before can still be taken.
    pub fn wait(&self, seen: u32, until_ns: Option<u64>) -> Result<bool, Disconnected> {
        self.wait_as(ASLEEP, seen, until_ns)
    }

    /// As [`wait`](Self::wait), but answers before their verdicts need not end it.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn wait_for_verdict(&self, seen: u32, until_ns: Option<u64>) -> Result<bool, Disconnected> {
        // The thread behind a descriptor is to hear of all.
        let asleep = if self.watched {
            ASLEEP
        } else {
            ASLEEP_FOR_VERDICTS
        };
        self.wait_as(asleep, seen, until_ns)
    }

    /// This thread looks for records from now on, and for nothing else.
    pub fn begin_to_wait(&self) {
        self.waits_since_ns.set(Some(clock::now_ns()));
    }

    fn wait_as(&self, asleep: u32, seen: u32, until_ns: Option<u64>) -> Result<bool, Disconnected> {
        if self.waits_since_ns.get().is_none() {
            self.begin_to_wait();
        }
        self.set_asleep(asleep);
        let result = loop {
            if self.bell() != seen {
                break Ok(true);
            }
            if self.is_hung_up() {
                break Err(Disconnected::HungUp);
            }
            let now = clock::now_ns();
            if until_ns.is_some_and(|until| now >= until) {
                break Ok(false);
            }
            let look = now.saturating_add(LOOK_NS);
            let slice = until_ns.map_or(look, |until| until.min(look));
            self.watch.wait(seen, slice);
        };
        self.set_asleep(if self.watched { ASLEEP } else { AWAKE });
        if !matches!(result, Ok(true)) {
            self.waits_since_ns.set(None);
        }
        result
    }

    /// The bell for another thread to wait for, from now on to the channel's end: one thread
    /// besides the one that calls [`wait`](Self::wait), for a client that waits for a descriptor.
    /// The daemon wakes two at a time.
    pub fn watch(&mut self) -> BellWatch {
        self.watched = true;
        self.set_asleep(ASLEEP);
        self.watch.clone()
    }

    /// Whether a thread sleeps on the bell, and for what the daemon must wake it.
    fn set_asleep(&self, asleep: u32) {
        let word = self.requests.word32(self.request_layout.sleeping);
        // Relaxed: a wake-up too many does no harm, and for going to sleep there is the fence.
        word.store(asleep, Ordering::Relaxed);
        // Pairs with the fence in `Results::ring_bell`: either that sees the sleeper, or the
        // sleeper (or the kernel) sees the new count.
        fence(Ordering::SeqCst);
    }

    /// Whether the daemon is gone.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        socket::is_hung_up(self.socket.as_fd())
    }

    /// Takes back the slots that the daemon has released.
    fn reclaim(&mut self) {
        let mut at = 0;
        while at < self.submitted.len() {
            let slot = self.submitted[at];
            let word = self.results.word32(self.result_layout.generation(slot));
            // Acquire pairs with the Release in `Shared::publish`: the daemon no longer reads the payload.
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

    /// Submits the frame in `claim`: `captured_ns` and `deadline_ns` are monotonic ns, absolute (no
    /// deadline: the capture time and the task's own), `crop` is where the network is to look.
    /// Returns the submission's sequence number, which its result repeats.
    ///
    /// # Errors
    /// If it is not submitted: the slot is free again, unless it was another channel's. A daemon
    /// that is gone is noticed here too; the submission counts then, and gets no result.
    pub fn submit(
        &mut self,
        claim: Claim,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        self.own(&claim)?;
        let slot = claim.index;
        let may = claim.check_vectors().and_then(|()| self.may_submit(crop));
        if let Err(refused) = may {
            self.free.push(slot);
            return Err(refused);
        }
        let descriptor = Descriptor {
            sequence: self.sequence + 1,
            captured_ns,
            deadline_ns,
            slot,
            crop,
            egress_ns: std::mem::take(&mut self.egress_ns),
            task: claim.task,
        };
        let generation = self.generations[usize::from(slot)];
        let format = self.terms.frame.format.code();
        let cell = descriptor.encode(generation, self.terms.stream, format);
        // The daemon has read at least those whose slot it released.
        let read = (self.sequence as u32).wrapping_sub(self.submitted.len() as u32);
        let pushed = self.submission_ring.push(&cell, read);
        debug_assert_eq!(pushed, Ok(true), "the ring has a cell for every slot");
        self.sequence += 1;
        self.submitted.push(slot);
        if !self.is_daemon_attentive() {
            if self.is_hung_up() {
                return Err(SubmitError::Disconnected(Disconnected::HungUp));
            }
            self.ring();
        }
        Ok(self.sequence)
    }

    /// Has the daemon look for submissions.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// Whether the daemon will see what was just pushed without being rung.
    fn is_daemon_attentive(&self) -> bool {
        // Pairs with the fence in `Submissions::attend`.
        fence(Ordering::SeqCst);
        let word = self.results.word32(self.result_layout.attentive);
        // Relaxed: partner of the store in `Submissions::attend`; the fences order both.
        word.load(Ordering::Relaxed) != 0
    }

    fn may_submit(&self, crop: Crop) -> Result<(), SubmitError> {
        let max = self.terms.crop_max();
        if crop.x > max.x || crop.y > max.y {
            return Err(SubmitError::Crop { crop, max });
        }
        if self.unanswered() >= u64::from(self.terms.results) {
            return Err(SubmitError::ResultsUnread(self.terms.results));
        }
        Ok(())
    }
}

impl AsFd for ClientChannel {
    /// Reports a hang-up (EPOLLHUP) when the daemon is gone; never readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A slot to write a frame into, while the channel waits.
#[derive(Debug)]
pub struct Slot<'c> {
    channel: &'c mut ClientChannel,
    /// There until it is submitted.
    claim: Option<Claim>,
}

impl<'c> Slot<'c> {
    pub(super) fn new(channel: &'c mut ClientChannel, claim: Claim) -> Self {
        Self {
            channel,
            claim: Some(claim),
        }
    }

    /// As [`Claim::pixels`].
    #[must_use]
    pub fn pixels(&mut self) -> &mut [u8] {
        self.claim.as_mut().map_or(&mut [], Claim::pixels)
    }

    /// As [`Claim::set_vector`].
    ///
    /// # Errors
    /// As there.
    pub fn set_vector(&mut self, name: &str, values: &[f32]) -> Result<(), VectorError> {
        let claim = self.claim.as_mut().expect("there until it is submitted");
        claim.set_vector(name, values)
    }

    /// As [`ClientChannel::submit`].
    ///
    /// # Errors
    /// If it is not submitted; the slot stays free, unless the daemon is gone.
    pub fn submit(
        mut self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        match self.claim.take() {
            Some(claim) => self.channel.submit(claim, captured_ns, deadline_ns, crop),
            None => Err(SubmitError::ForeignSlot),
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            // It is this channel's own, so it is taken back.
            let _ = self.channel.give_back(claim);
        }
    }
}
