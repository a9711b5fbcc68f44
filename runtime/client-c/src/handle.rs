//! What a `punctual_client *` points to.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_client::{
    Claim, Client, Crop, ResultRecord, SlotMemory, Stream, StreamSlot, StreamTerms,
};

use crate::abi::{Outcome, Request, SlotView};
use crate::status::Error;

/// A client of C's.
#[derive(Debug)]
pub struct Handle {
    kind: Kind,
    held: Mutex<HeldSlots>,
}

#[derive(Debug)]
enum Kind {
    /// Asked for its verdicts. The lock is free unless two threads use one client, which the header
    /// forbids: that is slow then, and not undefined.
    Asked(Box<Mutex<Client>>),
    /// Told its verdicts.
    Told(Stream, CallbackTarget),
}

/// The program's callback with its context.
#[derive(Clone, Copy)]
pub struct CallbackTarget {
    /// The callback.
    pub callback: unsafe extern "C" fn(*const Outcome, *mut std::ffi::c_void),
    /// Its context.
    pub context: *mut std::ffi::c_void,
}

// SAFETY: the header says that the callback runs on the client's own thread; what the context
// points to is the program's to keep fit for that.
unsafe impl Send for CallbackTarget {}
// SAFETY: as above; nothing in here is written.
unsafe impl Sync for CallbackTarget {}

impl std::fmt::Debug for CallbackTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tell").finish_non_exhaustive()
    }
}

impl CallbackTarget {
    fn tell(self, record: &ResultRecord) {
        let outcome = Outcome::from(record);
        // SAFETY: the program gave a callback with this signature; the result lives until it
        // returns.
        unsafe { (self.callback)(&raw const outcome, self.context) }
    }
}

/// Slots in the program's hands. Each use has a token of its own, so that a second submission of one slot is noticed.
#[derive(Debug, Default)]
struct HeldSlots {
    slots: Vec<(u64, HeldSlot)>,
    last: u64,
}

#[derive(Debug)]
enum HeldSlot {
    Claim(Claim),
    Slot(StreamSlot),
}

impl HeldSlots {
    fn hold(&mut self, mut slot: HeldSlot) -> SlotView {
        self.last += 1;
        let (pixels, index) = match &mut slot {
            HeldSlot::Claim(claim) => {
                let index = claim.index();
                (claim.pixels(), index)
            }
            HeldSlot::Slot(slot) => {
                let index = slot.index();
                (slot.pixels(), index)
            }
        };
        let view = SlotView {
            pixels: pixels.as_mut_ptr(),
            bytes: pixels.len(),
            token: self.last,
            index: u32::from(index),
            reserved: 0,
        };
        self.slots.push((self.last, slot));
        view
    }

    fn memory(&self, token: u64) -> Result<SlotMemory, Error> {
        let held = self.slots.iter().find(|(held, _)| *held == token);
        let memory = held.and_then(|(_, slot)| match slot {
            HeldSlot::Claim(claim) => Some(claim.memory()),
            HeldSlot::Slot(slot) => slot.memory(),
        });
        memory.ok_or(Error::Slot(token))
    }

    fn release(&mut self, token: u64) -> Result<HeldSlot, Error> {
        let at = self.slots.iter().position(|(held, _)| *held == token);
        let at = at.ok_or(Error::Slot(token))?;
        Ok(self.slots.swap_remove(at).1)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// A client that is asked for its verdicts.
    pub fn asked(client: Client) -> Self {
        Self::new(Kind::Asked(Box::new(Mutex::new(client))))
    }

    /// A client that is told its verdicts.
    pub fn told(stream: Stream, tell: CallbackTarget) -> Self {
        Self::new(Kind::Told(stream, tell))
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            held: Mutex::default(),
        }
    }

    fn client(&self) -> Result<MutexGuard<'_, Client>, Error> {
        match &self.kind {
            Kind::Asked(client) => Ok(lock(client)),
            Kind::Told(..) => Err(Error::HasCallback),
        }
    }

    /// What was agreed.
    pub fn terms(&self) -> StreamTerms {
        match &self.kind {
            Kind::Asked(client) => *lock(client).terms(),
            Kind::Told(stream, _) => stream.terms(),
        }
    }

    /// The application accepts new terms.
    pub fn accept_terms(&self) {
        match &self.kind {
            Kind::Asked(client) => lock(client).accept_terms(),
            Kind::Told(stream, _) => stream.accept_terms(),
        }
    }

    /// How many submissions have no verdict that was read.
    pub fn unanswered(&self) -> u64 {
        self.client().map_or(0, |client| client.unanswered())
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        match &self.kind {
            Kind::Asked(client) => lock(client).connections(),
            Kind::Told(stream, _) => stream.connections(),
        }
    }

    /// Whether there is a daemon.
    pub fn is_connected(&self) -> bool {
        match &self.kind {
            Kind::Asked(client) => lock(client).is_connected(),
            Kind::Told(stream, _) => stream.is_connected(),
        }
    }

    /// A slot for the program.
    pub fn slot(&self, until_ns: Option<u64>) -> Result<Option<SlotView>, Error> {
        let slot = match &self.kind {
            Kind::Asked(client) => lock(client).claim(until_ns)?.map(HeldSlot::Claim),
            Kind::Told(stream, _) => stream.slot(until_ns)?.map(HeldSlot::Slot),
        };
        Ok(slot.map(|slot| lock(&self.held).hold(slot)))
    }

    /// The slot of this number, if it is free.
    pub fn slot_at(&self, index: u16) -> Result<Option<SlotView>, Error> {
        let claim = self.client()?.claim_at(index);
        Ok(claim.map(|claim| lock(&self.held).hold(HeldSlot::Claim(claim))))
    }

    /// Submits a slot that the program holds.
    pub fn submit(&self, token: u64, request: Request) -> Result<u64, Error> {
        let Request {
            captured_ns,
            deadline_ns,
            crop_x: x,
            crop_y: y,
        } = request;
        let deadline_ns = (deadline_ns != 0).then_some(deadline_ns);
        let crop = Crop { x, y };
        let held = lock(&self.held).release(token)?;
        Ok(match (&self.kind, held) {
            (Kind::Asked(client), HeldSlot::Claim(claim)) => {
                lock(client).submit(claim, captured_ns, deadline_ns, crop)?
            }
            (Kind::Told(_, tell), HeldSlot::Slot(slot)) => {
                let tell = *tell;
                let callback = move |record: ResultRecord| tell.tell(&record);
                slot.submit_then(captured_ns, deadline_ns, crop, callback)?
            }
            _ => return Err(Error::Slot(token)),
        })
    }

    /// Keeps the memory of a slot that the program holds.
    pub fn memory(&self, token: u64) -> Result<SlotMemory, Error> {
        lock(&self.held).memory(token)
    }

    /// Takes a slot back.
    pub fn give_back(&self, token: u64) -> Result<(), Error> {
        let held = lock(&self.held).release(token)?;
        if let (Kind::Asked(client), HeldSlot::Claim(claim)) = (&self.kind, held) {
            lock(client).give_back(claim);
        }
        Ok(())
    }

    /// The next verdict.
    pub fn verdict(&self, until_ns: Option<u64>) -> Result<Option<ResultRecord>, Error> {
        Ok(self.client()?.verdict(until_ns)?)
    }

    /// The next verdict if it is there.
    pub fn try_verdict(&self) -> Result<Option<ResultRecord>, Error> {
        Ok(self.client()?.try_verdict()?)
    }

    /// What to wait for in an event loop.
    pub fn descriptor(&self) -> Result<RawFd, Error> {
        Ok(self.client()?.descriptor()?.as_raw_fd())
    }
}
