//! What a `punctual_client *` points to.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_client::{
    Claim, Client, Crop, Description, Outputs, Response, SlotMemory, Stream, StreamSlot,
    StreamTerms, Tensor, View,
};

use crate::abi::{self, Outcome, RANK_MAX, Request, SlotView, TensorView};
use crate::status::Error;

/// A client of C's.
#[derive(Debug)]
pub struct Handle {
    kind: Kind,
    held: Mutex<HeldSlots>,
    /// Of the result that the program got last by a call, until it gets another.
    last: Mutex<Option<Last>>,
    /// Of the callback's result, until the callback returns.
    told: Arc<Mutex<Option<Last>>>,
}

/// What the program may ask for in addition to a result.
#[derive(Debug)]
struct Last {
    sequence: u64,
    /// Several answers of a submission may come, each from another.
    exit: u8,
    part: u8,
    view: Option<View>,
    /// Until the program takes them.
    outputs: Option<Outputs>,
}

impl Last {
    fn is(&self, result: &Outcome) -> bool {
        let own = (self.sequence, self.part, self.exit);
        own == (result.sequence, result.part, result.exit)
    }
}

/// `punctual_outputs`: what a program has taken.
#[derive(Debug)]
pub struct TakenOutputs {
    outputs: Outputs,
    /// As C has strings.
    names: Vec<CString>,
}

impl TakenOutputs {
    fn new(outputs: Outputs) -> Self {
        // A name with a zero in it ends there.
        let name = |tensor: Tensor<'_>| {
            let bytes = tensor.name().bytes().take_while(|&byte| byte != 0);
            CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
        };
        let names = outputs.iter().map(name).collect();
        Self { outputs, names }
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.outputs.len()
    }

    /// The position of the tensor of this name.
    #[must_use]
    pub fn named(&self, name: &CStr) -> Option<usize> {
        self.names.iter().position(|known| known.as_c_str() == name)
    }

    #[must_use]
    pub fn view(&self, position: usize) -> Option<TensorView> {
        let tensor = self.outputs.at(position)?;
        let (element, scale, zero) = abi::element(tensor.element());
        let mut shape = [0; RANK_MAX];
        let rank = tensor.shape().len();
        shape.get_mut(..rank)?.copy_from_slice(tensor.shape());
        Some(TensorView {
            name: self.names[position].as_ptr(),
            data: tensor.bytes().as_ptr().cast(),
            bytes: tensor.bytes().len(),
            element,
            rank: rank as u32,
            shape,
            scale,
            zero,
        })
    }
}

#[derive(Debug)]
enum Kind {
    /// Asked for its verdicts. The lock is free unless two threads use one client, which the header
    /// forbids: that is slow then, and not undefined.
    Asked(Box<Mutex<Client>>),
    Told(Stream, CallbackTarget),
}

/// The program's callback with its context.
#[derive(Clone, Copy)]
pub struct CallbackTarget {
    pub callback: unsafe extern "C" fn(*const Outcome, *mut std::ffi::c_void),
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
    fn tell(self, outcome: &Outcome) {
        // SAFETY: the program gave a callback with this signature; the result lives until it
        // returns.
        unsafe { (self.callback)(&raw const *outcome, self.context) }
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

    fn set_vector(&mut self, token: u64, name: &str, values: &[f32]) -> Result<(), Error> {
        let held = self.slots.iter_mut().find(|(held, _)| *held == token);
        match held {
            Some((_, HeldSlot::Claim(claim))) => claim.set_vector(name, values)?,
            Some((_, HeldSlot::Slot(slot))) => slot.set_vector(name, values)?,
            None => return Err(Error::Slot(token)),
        }
        Ok(())
    }

    fn set_task(&mut self, token: u64, name: &str) -> Result<(), Error> {
        let held = self.slots.iter_mut().find(|(held, _)| *held == token);
        match held {
            Some((_, HeldSlot::Claim(claim))) => claim.set_task(name)?,
            Some((_, HeldSlot::Slot(slot))) => slot.set_task(name)?,
            None => return Err(Error::Slot(token)),
        }
        Ok(())
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

/// The result for the program, whose outputs it may take until the next. Those of the result before are released.
fn remember(last: &Mutex<Option<Last>>, mut response: Response) -> Outcome {
    let outcome = Outcome::from(&response);
    let before = lock(last).replace(Last {
        sequence: outcome.sequence,
        exit: outcome.exit,
        part: outcome.part,
        view: response.view(),
        outputs: response.take_outputs(),
    });
    // Without the lock: this gives memory back.
    drop(before);
    outcome
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
            last: Mutex::default(),
            told: Arc::default(),
        }
    }

    fn client(&self) -> Result<MutexGuard<'_, Client>, Error> {
        match &self.kind {
            Kind::Asked(client) => Ok(lock(client)),
            Kind::Told(..) => Err(Error::HasCallback),
        }
    }

    pub fn terms(&self) -> StreamTerms {
        match &self.kind {
            Kind::Asked(client) => *lock(client).terms(),
            Kind::Told(stream, _) => stream.terms(),
        }
    }

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

    pub fn is_connected(&self) -> bool {
        match &self.kind {
            Kind::Asked(client) => lock(client).is_connected(),
            Kind::Told(stream, _) => stream.is_connected(),
        }
    }

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
                let told = Arc::clone(&self.told);
                let callback = move |response: Response| {
                    tell.tell(&remember(&told, response));
                    // Without the lock: the program has them by now, or does not want them.
                    let left = lock(&told).take();
                    drop(left);
                };
                slot.submit_then(captured_ns, deadline_ns, crop, callback)?
            }
            _ => return Err(Error::Slot(token)),
        })
    }

    /// Sets a vector of a slot that the program holds.
    pub fn set_vector(&self, token: u64, name: &str, values: &[f32]) -> Result<(), Error> {
        lock(&self.held).set_vector(token, name, values)
    }

    /// Says which task the frame in a slot that the program holds is for.
    pub fn set_task(&self, token: u64, name: &str) -> Result<(), Error> {
        lock(&self.held).set_task(token, name)
    }

    /// The outputs of the result that the program got last, or of the callback's, if it is this one.
    pub fn take_outputs(&self, of: &Outcome) -> Option<TakenOutputs> {
        let take = |last: &Mutex<Option<Last>>| {
            let mut last = lock(last);
            let last = last.as_mut().filter(|last| last.is(of))?;
            last.outputs.take()
        };
        let outputs = take(&self.last).or_else(|| take(&self.told))?;
        Some(TakenOutputs::new(outputs))
    }

    /// What the network saw of the frame of the result that the program got last, or of the callback's, if it is this
    /// one.
    pub fn view(&self, of: &Outcome) -> Option<View> {
        let view =
            |last: &Mutex<Option<Last>>| lock(last).as_ref().filter(|last| last.is(of))?.view;
        view(&self.last).or_else(|| view(&self.told))
    }

    fn description(&self) -> Arc<Description> {
        match &self.kind {
            Kind::Asked(client) => Arc::clone(lock(client).description()),
            Kind::Told(stream, _) => stream.description(),
        }
    }

    pub fn task_count(&self) -> u16 {
        self.description().task_count()
    }

    /// The name of a task of the connection, by its number from 1.
    pub fn task_name(&self, task: u32) -> Option<String> {
        let description = self.description();
        let tasks = &description.tasks.as_ref()?.tasks;
        let task = tasks.get((task as usize).checked_sub(1)?)?;
        Some(task.name.clone())
    }

    /// The name of a class of a task, by its number; 0: the one that the client asked for.
    pub fn class_name(&self, task: u32, class: usize) -> Option<String> {
        let description = self.description();
        let task = u16::try_from(task).ok()?;
        let is_known = task == 0 || description.task_name(task).is_some();
        let described = is_known.then(|| description.of_task(task))?;
        described.classes.get(class).cloned()
    }

    /// Keeps the memory of a slot that the program holds.
    pub fn memory(&self, token: u64) -> Result<SlotMemory, Error> {
        lock(&self.held).memory(token)
    }

    pub fn give_back(&self, token: u64) -> Result<(), Error> {
        let held = lock(&self.held).release(token)?;
        if let (Kind::Asked(client), HeldSlot::Claim(claim)) = (&self.kind, held) {
            lock(client).give_back(claim);
        }
        Ok(())
    }

    /// The next verdict.
    pub fn verdict(&self, until_ns: Option<u64>) -> Result<Option<Outcome>, Error> {
        let response = self.client()?.verdict(until_ns)?;
        Ok(response.map(|response| remember(&self.last, response)))
    }

    /// The next verdict if it is there.
    pub fn try_verdict(&self) -> Result<Option<Outcome>, Error> {
        let response = self.client()?.try_verdict()?;
        Ok(response.map(|response| remember(&self.last, response)))
    }

    /// The next answer before its verdict, or the next verdict.
    pub fn answer(&self, until_ns: Option<u64>) -> Result<Option<Outcome>, Error> {
        let response = self.client()?.answer(until_ns)?;
        Ok(response.map(|response| remember(&self.last, response)))
    }

    /// The same if it is there.
    pub fn try_answer(&self) -> Result<Option<Outcome>, Error> {
        let response = self.client()?.try_answer()?;
        Ok(response.map(|response| remember(&self.last, response)))
    }

    /// The newest answer that is there.
    pub fn latest(&self) -> Option<Outcome> {
        let response = match &self.kind {
            Kind::Asked(client) => lock(client).latest(),
            Kind::Told(stream, _) => stream.latest(),
        };
        Some(remember(&self.last, response?))
    }

    /// What to wait for in an event loop.
    pub fn descriptor(&self) -> Result<RawFd, Error> {
        Ok(self.client()?.descriptor()?.as_raw_fd())
    }
}
