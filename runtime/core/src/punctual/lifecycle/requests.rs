//! The requests inside the scheduler, one a request buffer, and who may still take a buffer.

use alloc::boxed::Box;

use crate::action::Failure;
use crate::bounded::List;
use crate::event::Answer;
use crate::ids::{ClientId, ModelId, RequestId, StageId, TaskId, Ticket};
use crate::time::Instant;

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The buffer is nobody's.
    Free,
    /// The intake is writing its input.
    Preparing,
    /// Its model's weights are not on the device.
    AwaitingWeights,
    /// In a partition's list of mandatory work.
    Mandatory,
    /// Holds an answer that counts; waits in a partition's list of optional work.
    Optional,
    /// Best-effort, waiting for a gap.
    BestEffort,
    /// A member of the running action.
    Running,
    /// It has its verdict, but a lost action may still write to its buffer.
    Locked,
}

impl State {
    /// Whether a request may go from here to there. All but the first and the last step are
    /// between the lists that it can wait in and the action that takes it from them.
    const fn leads_to(self, to: Self) -> bool {
        use State::{
            AwaitingWeights, BestEffort, Free, Locked, Mandatory, Optional, Preparing, Running,
        };
        match self {
            Free => matches!(to, Preparing),
            Preparing => matches!(to, AwaitingWeights | Mandatory | BestEffort | Free),
            AwaitingWeights => matches!(to, Mandatory | BestEffort | Free),
            // A model that loses its promises takes them from the list of promised work.
            Mandatory => matches!(to, Running | BestEffort | Free),
            // To itself: another layout keeps it in the list of another partition.
            Optional => matches!(to, Running | Optional | Free),
            BestEffort => matches!(to, Running | BestEffort | Free),
            Running => matches!(to, Mandatory | Optional | BestEffort | Free | Locked),
            Locked => matches!(to, Free),
        }
    }

    /// Whether the request has no verdict yet.
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Free | Self::Locked)
    }
}

impl Request {
    /// Why it fails if the device fails it.
    pub const fn device_failure(&self) -> Failure {
        if self.gone {
            Failure::ClientGone
        } else {
            Failure::Device
        }
    }

    /// Whether it was submitted before `newer`, by the same client for the same task, runs by the rules
    /// of the same one, and no stage of it has ended.
    pub fn is_superseded_by(&self, newer: &Self) -> bool {
        self.state.is_open()
            && self.can_be_replaced(newer.ticket.client, newer.origin, newer.task)
            && self.order < newer.order
    }

    /// Whether a client submitted it to `origin`, it is under the rules of `task`, and no stage of it
    /// has ended.
    pub fn can_be_replaced(&self, client: ClientId, origin: TaskId, task: TaskId) -> bool {
        self.ticket.client == client
            && (self.origin, self.task) == (origin, task)
            && self.stage == StageId(0)
    }

    /// Whether it holds an answer of this exit or a deeper one.
    pub fn holds_answer_from(&self, exit: StageId) -> bool {
        self.answer.is_some_and(|(deepest, _)| deepest.0 >= exit.0)
    }
}

/// What arrives and gets a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    pub task: TaskId,
    pub origin: TaskId,
    pub ticket: Ticket,
    pub captured: Instant,
    pub deadline: Instant,
    pub due: Instant,
    pub holds_reserved_buffer: bool,
}

/// One request. Meaningless while `state` is `Free`. It is changed by [`Requests`] alone, which
/// lends it for reading.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub generation: u32,
    pub state: State,
    /// Whose rules it is under: where it runs, by which model.
    pub task: TaskId,
    /// Who submitted it, and counts what becomes of it; another than `task` if it was spilled.
    pub origin: TaskId,
    pub ticket: Ticket,
    /// Capture time, never after the arrival.
    pub captured: Instant,
    /// The deadline as the client knows it.
    pub deadline: Instant,
    /// The deadline less the egress bound: answers decided by then are on time.
    pub due: Instant,
    /// Order of arrival among all requests.
    pub order: u64,
    /// The next stage to run.
    pub stage: StageId,
    /// What must be equal for two requests to share a batch beside the stage: 0, or without
    /// re-batching the last action that both were in, plus 1.
    pub cohort: u64,
    /// The deepest answer so far.
    pub answer: Option<(StageId, Answer)>,
    /// Whether it holds one of the buffers kept for its task's conforming requests.
    pub holds_reserved_buffer: bool,
    /// The model whose weights have to stay for it.
    pub relies_on: Option<ModelId>,
    /// Its client is gone; it ends when nobody touches its buffer any more.
    pub gone: bool,
    /// A newer frame took its place while its input was being prepared.
    pub superseded: bool,
    /// It is promised nothing (any more), as a model that it runs overran.
    pub demoted: bool,
}

const FREE: Request = Request {
    generation: 0,
    state: State::Free,
    task: TaskId(0),
    origin: TaskId(0),
    ticket: Ticket {
        client: ClientId(0),
        slot: 0,
        sequence: 0,
    },
    captured: Instant::ZERO,
    deadline: Instant::ZERO,
    due: Instant::ZERO,
    order: 0,
    stage: StageId(0),
    cohort: 0,
    answer: None,
    holds_reserved_buffer: false,
    relies_on: None,
    gone: false,
    superseded: false,
    demoted: false,
};

/// All request buffers.
///
/// Promises: `free >= reserved_unused`, so a conforming request of a task that does not use up its
/// kept buffers always finds one; a state changes only along [`State::leads_to`]; a buffer that is
/// free or locked is no open request's.
#[derive(Clone, Debug)]
pub struct Requests {
    slots: Box<[Request]>,
    free: List<u16>,
    /// Buffers kept for conforming requests and not held by one, over all tasks.
    reserved_unused: usize,
    locked: usize,
    arrivals: u64,
}

impl Requests {
    pub fn new(buffers: u16, kept: usize) -> Self {
        let mut free = List::with_capacity(usize::from(buffers));
        for buffer in (0..buffers).rev() {
            free.push(buffer);
        }
        Self {
            slots: alloc::vec![FREE; usize::from(buffers)].into(),
            free,
            reserved_unused: kept,
            locked: 0,
            arrivals: 0,
        }
    }

    pub fn open(&self) -> usize {
        self.slots.len() - self.free.len() - self.locked
    }

    /// Whether a request that has no kept buffer to take may have one of the others.
    pub fn has_spare(&self) -> bool {
        self.free.len() > self.reserved_unused
    }

    /// Gives a buffer to a request, whose input is prepared from now on.
    pub(super) fn take(&mut self, new: Submission) -> RequestId {
        self.reserved_unused -= usize::from(new.holds_reserved_buffer);
        let buffer = self
            .free
            .pop()
            .expect("a buffer is free: has_spare, or one kept for this request");
        self.transition(buffer, State::Preparing);
        let slot = &mut self.slots[usize::from(buffer)];
        let generation = slot.generation.wrapping_add(1);
        *slot = Request {
            generation,
            state: State::Preparing,
            task: new.task,
            origin: new.origin,
            ticket: new.ticket,
            captured: new.captured,
            deadline: new.deadline,
            due: new.due,
            order: self.arrivals,
            holds_reserved_buffer: new.holds_reserved_buffer,
            ..FREE
        };
        self.arrivals += 1;
        RequestId { buffer, generation }
    }

    /// Moves a request on. Where it came from; whoever calls takes it off the list there.
    pub(super) fn transition(&mut self, buffer: u16, to: State) -> State {
        let slot = &mut self.slots[usize::from(buffer)];
        let from = core::mem::replace(&mut slot.state, to);
        debug_assert!(from.leads_to(to), "request {buffer}: {from:?} to {to:?}");
        from
    }

    /// It is a member of an action: whoever shares a batch with it later has to have its cohort.
    pub(super) fn begin(&mut self, buffer: u16, cohort: Option<u64>) -> State {
        let slot = &mut self.slots[usize::from(buffer)];
        slot.cohort = cohort.unwrap_or(slot.cohort);
        self.transition(buffer, State::Running)
    }

    /// Its stage came to its end, with an answer if it ends in an exit.
    pub(super) fn deepen(&mut self, buffer: u16, answer: Option<Answer>) -> &Request {
        let slot = &mut self.slots[usize::from(buffer)];
        debug_assert_eq!(slot.state, State::Running);
        if let Some(answer) = answer {
            slot.answer = Some((slot.stage, answer));
        }
        slot.stage = slot.stage.next();
        slot
    }

    /// Its client is gone; somebody still writes to its buffer.
    pub fn mark_gone(&mut self, buffer: u16) {
        self.slots[usize::from(buffer)].gone = true;
    }

    /// A newer frame has its place; the intake still writes to its buffer.
    pub(super) fn mark_superseded(&mut self, buffer: u16) {
        self.slots[usize::from(buffer)].superseded = true;
    }

    /// It is promised nothing from now on.
    pub(super) fn mark_demoted(&mut self, buffer: u16) {
        self.slots[usize::from(buffer)].demoted = true;
    }

    /// A model's weights have to stay until its verdict.
    pub(super) fn rely_on(&mut self, buffer: u16, model: ModelId) -> &Request {
        let slot = &mut self.slots[usize::from(buffer)];
        slot.relies_on = Some(model);
        slot
    }

    /// Takes the buffer back.
    pub(super) fn release(&mut self, buffer: u16) -> Request {
        let slot = &mut self.slots[usize::from(buffer)];
        assert!(slot.state != State::Free, "buffer {buffer} is freed twice");
        let request = *slot;
        self.locked -= usize::from(request.state == State::Locked);
        self.reserved_unused += usize::from(request.holds_reserved_buffer);
        self.transition(buffer, State::Free);
        self.free.push(buffer);
        debug_assert!(self.free.len() >= self.reserved_unused);
        request
    }

    /// Ends a request whose buffer nobody may have yet.
    pub(super) fn lock(&mut self, buffer: u16) -> Request {
        self.locked += 1;
        self.transition(buffer, State::Locked);
        *self.get(buffer)
    }

    /// The request, if this is not a stale name.
    pub fn find(&self, id: RequestId) -> Option<&Request> {
        self.slots
            .get(usize::from(id.buffer))
            .filter(|r| r.state != State::Free && r.generation == id.generation)
    }

    pub fn get(&self, buffer: u16) -> &Request {
        &self.slots[usize::from(buffer)]
    }

    pub fn id(&self, buffer: u16) -> RequestId {
        RequestId {
            buffer,
            generation: self.slots[usize::from(buffer)].generation,
        }
    }

    /// Number of buffers, free or not.
    pub fn buffers(&self) -> u16 {
        self.slots.len() as u16
    }

    /// Recounts. What is wrong, if anything is.
    pub fn check(&self) -> Result<(), &'static str> {
        let (mut free, mut locked) = (0, 0);
        for request in &self.slots {
            free += usize::from(request.state == State::Free);
            locked += usize::from(request.state == State::Locked);
        }
        match () {
            () if free != self.free.len() => Err("a buffer is free and listed as taken, or not"),
            () if locked != self.locked => Err("locked buffers are miscounted"),
            () if self.free.len() < self.reserved_unused => Err("kept buffers were given away"),
            () => Ok(()),
        }
    }
}

/// What [`Requests::check`] must find, and how to plant it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Requests>] = &[
    ("a buffer is free and listed as taken, or not", |it| {
        it.free.pop();
    }),
    ("locked buffers are miscounted", |it| it.locked += 1),
    ("kept buffers were given away", |it| {
        it.reserved_unused = it.free.len() + 1
    }),
];
