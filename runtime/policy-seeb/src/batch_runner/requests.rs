//! The requests inside, one a request buffer.

use alloc::boxed::Box;

use punctual_core::bounded::List;
use punctual_core::{Answer, ClientId, Instant, RequestId, StageId, TaskId, Ticket};

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The buffer belongs to no request.
    Free,
    /// The intake is writing its input.
    Preparing,
    /// In the policy's hands.
    Queued,
    Running,
    /// It has its verdict, but a lost action may still write to its buffer.
    Locked,
}

/// One request. Meaningless while `state` is `Free`.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub generation: u32,
    pub state: State,
    pub task: TaskId,
    pub ticket: Ticket,
    pub captured: Instant,
    /// The deadline as the client knows it.
    pub deadline: Instant,
    /// The deadline less the egress bound: answers decided by then are on time.
    pub due: Instant,
    /// Order of arrival among all requests.
    pub order: u64,
    pub answer: Option<(StageId, Answer)>,
    /// Its client is gone; it ends when nothing uses its buffer any more.
    pub gone: bool,
    /// A newer frame took its place while its input was being prepared.
    pub superseded: bool,
}

impl Request {
    pub const FREE: Self = Self {
        generation: 0,
        state: State::Free,
        task: TaskId(0),
        ticket: Ticket {
            client: ClientId(0),
            slot: 0,
            part: 0,
            sequence: 0,
        },
        captured: Instant::ZERO,
        deadline: Instant::ZERO,
        due: Instant::ZERO,
        order: 0,
        answer: None,
        gone: false,
        superseded: false,
    };
}

#[derive(Debug)]
pub(super) struct Requests {
    slots: Box<[Request]>,
    free: List<u16>,
    locked: usize,
    arrivals: u64,
}

impl Requests {
    pub(super) fn new(buffers: u16) -> Self {
        let mut free = List::with_capacity(usize::from(buffers));
        for buffer in (0..buffers).rev() {
            free.push(buffer);
        }
        Self {
            slots: alloc::vec![Request::FREE; usize::from(buffers)].into(),
            free,
            locked: 0,
            arrivals: 0,
        }
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn open(&self) -> usize {
        self.slots.len() - self.free.len() - self.locked
    }

    pub(super) fn buffers(&self) -> u16 {
        self.slots.len() as u16
    }

    /// Gives a buffer to a request that is being prepared.
    pub(super) fn take(&mut self, request: Request) -> RequestId {
        let buffer = self.free.pop().expect("the caller asked `has_free`");
        let slot = &mut self.slots[usize::from(buffer)];
        let generation = slot.generation.wrapping_add(1);
        *slot = Request {
            generation,
            state: State::Preparing,
            order: self.arrivals,
            ..request
        };
        self.arrivals += 1;
        RequestId { buffer, generation }
    }

    pub(super) fn release(&mut self, buffer: u16) -> Request {
        let slot = &mut self.slots[usize::from(buffer)];
        assert!(slot.state != State::Free, "buffer {buffer} is freed twice");
        let request = *slot;
        slot.state = State::Free;
        self.free.push(buffer);
        request
    }

    /// Ends a request whose buffer no other request may have yet.
    pub(super) fn lock(&mut self, buffer: u16) -> Request {
        let slot = &mut self.slots[usize::from(buffer)];
        let request = *slot;
        slot.state = State::Locked;
        self.locked += 1;
        request
    }

    /// Makes a locked buffer free again.
    pub(super) fn unlock(&mut self, buffer: u16) {
        let slot = &mut self.slots[usize::from(buffer)];
        debug_assert_eq!(slot.state, State::Locked);
        self.locked -= 1;
        self.release(buffer);
    }

    pub(super) fn find(&mut self, id: RequestId) -> Option<&mut Request> {
        self.slots
            .get_mut(usize::from(id.buffer))
            .filter(|r| r.state != State::Free && r.generation == id.generation)
    }

    pub(super) fn get(&self, buffer: u16) -> &Request {
        &self.slots[usize::from(buffer)]
    }

    pub(super) fn get_mut(&mut self, buffer: u16) -> &mut Request {
        &mut self.slots[usize::from(buffer)]
    }

    pub(super) fn id(&self, buffer: u16) -> RequestId {
        RequestId {
            buffer,
            generation: self.slots[usize::from(buffer)].generation,
        }
    }
}
