//! The requests inside the scheduler, one a request buffer, and who may still take a buffer.

use alloc::boxed::Box;

use crate::bounded::List;
use crate::event::Answer;
use crate::ids::{RequestId, StageId, TaskId, Ticket};
use crate::time::Instant;

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The buffer is nobody's.
    Free,
    /// The intake is writing its input.
    Preparing,
    /// Its model's weights are not on the device.
    Awaiting,
    /// In a partition's list of mandatory work.
    Pending,
    /// Holds an answer that counts; waits in a partition's list of optional work.
    Parked,
    /// Best-effort, waiting for a gap.
    Waiting,
    /// A member of the running action.
    Running,
    /// It has its verdict, but a lost action may still write to its buffer.
    Locked,
}

/// One request. Meaningless while `state` is `Free`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) generation: u32,
    pub(crate) state: State,
    /// Whose rules it is under: where it runs, by which model.
    pub(crate) task: TaskId,
    /// Who submitted it, and counts what becomes of it; another than `task` if it was spilled.
    pub(crate) origin: TaskId,
    pub(crate) ticket: Ticket,
    /// Capture time, never after the arrival.
    pub(crate) captured: Instant,
    /// The deadline as the client knows it.
    pub(crate) deadline: Instant,
    /// The deadline less the egress bound: answers decided by then are on time.
    pub(crate) due: Instant,
    /// Order of arrival among all requests.
    pub(crate) order: u64,
    /// The next stage to run.
    pub(crate) stage: StageId,
    /// What must be equal for two requests to share a batch beside the stage: 0, or without
    /// re-batching the last action that both were in, plus 1.
    pub(crate) cohort: u64,
    /// The deepest answer so far.
    pub(crate) answer: Option<(StageId, Answer)>,
    /// Whether it holds one of the buffers kept for its task's conforming requests.
    pub(crate) holds_kept: bool,
    /// Whether its model's weights have to stay for it.
    pub(crate) relies_on_weights: bool,
    /// Its client is gone; it ends when nobody touches its buffer any more.
    pub(crate) gone: bool,
    /// A newer frame took its place while its input was being prepared.
    pub(crate) superseded: bool,
    /// It is promised nothing (any more), as a model that it runs overran.
    pub(crate) demoted: bool,
}

const FREE: Request = Request {
    generation: 0,
    state: State::Free,
    task: TaskId(0),
    origin: TaskId(0),
    ticket: Ticket {
        client: crate::ids::ClientId(0),
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
    holds_kept: false,
    relies_on_weights: false,
    gone: false,
    superseded: false,
    demoted: false,
};

/// All request buffers.
///
/// Invariant: `free >= kept_unused`, so a conforming request of a task that does not use up its
/// kept buffers always finds one.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    slots: Box<[Request]>,
    free: List<u16>,
    /// Buffers kept for conforming requests and not held by one, over all tasks.
    kept_unused: usize,
    locked: usize,
    arrivals: u64,
}

impl Requests {
    pub(crate) fn new(buffers: u16, kept: usize) -> Self {
        let mut free = List::with_capacity(usize::from(buffers));
        for buffer in (0..buffers).rev() {
            free.push(buffer);
        }
        Self {
            slots: alloc::vec![FREE; usize::from(buffers)].into(),
            free,
            kept_unused: kept,
            locked: 0,
            arrivals: 0,
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.slots.len() - self.free.len() - self.locked
    }

    /// Whether a request that has no kept buffer to take may have one of the others.
    pub(crate) fn has_spare(&self) -> bool {
        self.free.len() > self.kept_unused
    }

    /// Gives a buffer to a request. `request.generation` and `order` are set here.
    pub(crate) fn take(&mut self, request: Request) -> RequestId {
        if request.holds_kept {
            self.kept_unused -= 1;
        }
        let buffer = self
            .free
            .pop()
            .expect("a buffer is free: has_spare, or one kept for this request");
        let slot = &mut self.slots[usize::from(buffer)];
        let generation = slot.generation.wrapping_add(1);
        *slot = Request {
            generation,
            order: self.arrivals,
            ..request
        };
        self.arrivals += 1;
        RequestId { buffer, generation }
    }

    /// Takes the buffer back.
    pub(crate) fn release(&mut self, buffer: u16) -> Request {
        let slot = &mut self.slots[usize::from(buffer)];
        assert!(slot.state != State::Free, "buffer {buffer} is freed twice");
        let request = *slot;
        slot.state = State::Free;
        if request.holds_kept {
            self.kept_unused += 1;
        }
        self.free.push(buffer);
        debug_assert!(self.free.len() >= self.kept_unused);
        request
    }

    /// Ends a request whose buffer nobody may have yet.
    pub(crate) fn lock(&mut self, buffer: u16) -> Request {
        let slot = &mut self.slots[usize::from(buffer)];
        slot.state = State::Locked;
        self.locked += 1;
        *slot
    }

    /// A locked buffer is nobody's again.
    pub(crate) fn unlock(&mut self, buffer: u16) -> Request {
        debug_assert_eq!(self.get(buffer).state, State::Locked);
        self.locked -= 1;
        self.release(buffer)
    }

    /// The request, if this is not a stale name.
    pub(crate) fn find(&mut self, id: RequestId) -> Option<&mut Request> {
        self.slots
            .get_mut(usize::from(id.buffer))
            .filter(|r| r.state != State::Free && r.generation == id.generation)
    }

    pub(crate) fn get(&self, buffer: u16) -> &Request {
        &self.slots[usize::from(buffer)]
    }

    pub(crate) fn get_mut(&mut self, buffer: u16) -> &mut Request {
        &mut self.slots[usize::from(buffer)]
    }

    pub(crate) fn id(&self, buffer: u16) -> RequestId {
        RequestId {
            buffer,
            generation: self.slots[usize::from(buffer)].generation,
        }
    }

    /// Number of buffers, free or not.
    pub(crate) fn buffers(&self) -> u16 {
        self.slots.len() as u16
    }
}
