//! The open requests, one for each request buffer, and the buffers that are free.

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

use crate::action::{Failure, Reply, Verdict};
use crate::bounded::List;
use crate::event::{Answer, Arrival};
use crate::ids::{ClientId, ModelId, RequestId, StageId, TaskId, Ticket};
use crate::punctual::tables::Tables;
use crate::time::Instant;

/// Where a request is between its arrival and its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Free,
    /// The intake is writing its input.
    Preparing,
    /// Its model's weights are not on the device.
    AwaitingWeights,
    /// Waits in a partition's queue of mandatory jobs.
    Mandatory,
    /// Holds an answer that counts and waits in a partition's queue of optional jobs.
    Optional,
    /// Waits in a partition's best-effort queue.
    BestEffort,
    /// A member of an action in flight.
    Running,
    /// It has its verdict, but an action that has not ended may still write to its buffer.
    Locked,
}

impl State {
    /// Whether a request may change from this state to that one. After preparation, a request moves
    /// between the queues and an action, until its verdict frees the buffer.
    const fn leads_to(self, to: Self) -> bool {
        use State::{
            AwaitingWeights, BestEffort, Free, Locked, Mandatory, Optional, Preparing, Running,
        };
        match self {
            Free => matches!(to, Preparing),
            Preparing => matches!(to, AwaitingWeights | Mandatory | BestEffort | Free),
            AwaitingWeights => matches!(to, Mandatory | BestEffort | Free),
            // To best-effort when its model is demoted.
            Mandatory => matches!(to, Running | BestEffort | Free),
            Optional => matches!(to, Running | Free),
            // To itself when its model is demoted.
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

/// A frame that may replace older ones.
#[derive(Clone, Copy, Debug)]
pub struct Newer {
    client: ClientId,
    /// The task that it was submitted to, and the one that serves it.
    origin: TaskId,
    task: TaskId,
    /// The capture time that it has in common with the rest of its burst, which it does not replace.
    burst: Option<Instant>,
}

impl Newer {
    pub fn of(request: &Request, tables: &Tables) -> Self {
        Self::at(
            request.ticket,
            request.captured,
            request.origin,
            request.task,
            tables,
        )
    }

    pub fn arriving(arrival: &Arrival, task: TaskId, tables: &Tables) -> Self {
        Self::at(arrival.ticket, arrival.captured, arrival.task, task, tables)
    }

    fn at(
        ticket: Ticket,
        captured: Instant,
        origin: TaskId,
        task: TaskId,
        tables: &Tables,
    ) -> Self {
        Self {
            client: ticket.client,
            origin,
            task,
            burst: (tables.task(origin).burst > 1).then_some(captured),
        }
    }
}

impl Request {
    /// The verdict when the device fails or loses its action for a `reason`. A client that disconnected before that
    /// comes first. An answer that was delivered stays: only a deeper one fails.
    pub fn failed(&self, reason: Failure, now: Instant) -> Verdict {
        match self.delivered {
            _ if self.gone => Verdict::Failed(Failure::ClientGone),
            Some(_) => self.verdict_at(now),
            None => Verdict::Failed(reason),
        }
    }

    /// Whether it is open, arrived before `newer`, and `newer` may replace it.
    pub fn is_superseded_by(&self, newer: &Self, tables: &Tables) -> bool {
        self.state.is_open()
            && self.can_be_replaced(&Newer::of(newer, tables))
            && self.order < newer.order
    }

    /// Whether the same client submitted it to the same task, it runs under the rules of the same task, and no stage of it
    /// has ended. An offloaded frame replaces only frames that were offloaded to the same task: their
    /// promises are on the same partition.
    pub fn can_be_replaced(&self, newer: &Newer) -> bool {
        self.ticket.client == newer.client
            && (self.origin, self.task) == (newer.origin, newer.task)
            && self.stage == StageId(0)
            && newer.burst != Some(self.captured)
    }

    /// The verdict that its answer gets now.
    pub fn verdict_at(&self, now: Instant) -> Verdict {
        // `due` is the deadline less the egress bound, so an answer by `due` reaches the client in time.
        if self.delivered.unwrap_or(now) <= self.due {
            Verdict::OnTime
        } else {
            Verdict::Late
        }
    }

    /// What its client is told, with the answer that it holds.
    pub fn reply(&self, id: RequestId, verdict: Verdict) -> Reply {
        Reply {
            request: Some(id),
            task: self.origin,
            ticket: self.ticket,
            verdict,
            answer: self.answer,
            captured: self.captured,
            deadline: self.deadline,
            delivered: self.delivered,
        }
    }

    /// Whether it holds an answer of this exit or a deeper one.
    pub fn holds_answer_from(&self, exit: StageId) -> bool {
        self.answer.is_some_and(|(deepest, _)| deepest.0 >= exit.0)
    }
}

/// A submission that gets a buffer. The fields are those of [`Request`].
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    pub task: TaskId,
    pub origin: TaskId,
    pub ticket: Ticket,
    pub captured: Instant,
    pub deadline: Instant,
    pub due: Instant,
    pub leave_by: Instant,
    pub holds_reserved_buffer: bool,
}

/// One request. Meaningless while `state` is `Free`, but for `generation`. Only [`Requests`] changes it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Request {
    pub generation: u32,
    pub state: State,
    /// The task whose model, partition, queue and thresholds apply.
    pub task: TaskId,
    /// The task that it was submitted to, which counts it. Differs from `task` if it was offloaded.
    pub origin: TaskId,
    pub ticket: Ticket,
    /// Capture time, never after the arrival.
    pub captured: Instant,
    /// The deadline as the client knows it.
    pub deadline: Instant,
    /// The deadline less the egress bound: answers decided by then are on time.
    pub due: Instant,
    /// When an answer that counts leaves at the latest, however deep: never after `due`, and earlier if answers take
    /// longer to its client than the egress bound.
    pub leave_by: Instant,
    /// Order of arrival among all requests.
    pub order: u64,
    /// The next stage to run.
    pub stage: StageId,
    /// Two requests share a batch only if their cohorts are equal. 0 before the first stage, and always
    /// with re-batching; without, the id of its last action plus 1.
    pub cohort: u64,
    /// The deepest answer so far.
    pub answer: Option<(StageId, Answer)>,
    /// When that answer was delivered, if it was.
    pub delivered: Option<Instant>,
    /// Whether it holds one of the buffers that are reserved for its task's conforming requests.
    pub holds_reserved_buffer: bool,
    /// The model whose weights may not be evicted before its verdict.
    pub relies_on: Option<ModelId>,
    /// Its client disconnected. It ends when neither the intake nor the device uses its buffer.
    pub gone: bool,
    /// A newer frame replaced it while its input was being prepared.
    pub superseded: bool,
    /// It has no promise, because a model that it runs is demoted or was demoted while it was open.
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
        part: 0,
        sequence: 0,
    },
    captured: Instant::ZERO,
    deadline: Instant::ZERO,
    due: Instant::ZERO,
    leave_by: Instant::ZERO,
    order: 0,
    stage: StageId(0),
    cohort: 0,
    answer: None,
    delivered: None,
    holds_reserved_buffer: false,
    relies_on: None,
    gone: false,
    superseded: false,
    demoted: false,
};

/// All request buffers.
///
/// Promises:
/// - `free >= reserved_unused`, so a conforming request finds a buffer while its task holds fewer
///   reserved ones than the plan has for it;
/// - a state changes only as [`State::leads_to`] allows;
/// - no open request holds a buffer that is free or locked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Requests {
    slots: Box<[Request]>,
    free: List<u16>,
    /// Reserved buffers that no request holds, over all tasks. Any free buffer can serve as one of them.
    reserved_unused: usize,
    locked: usize,
    arrivals: u64,
}

impl Requests {
    /// Whether it is of as many buffers as another.
    pub fn fits(&self, other: &Self) -> bool {
        self.slots.len() == other.slots.len() && self.free.fits(&other.free)
    }

    pub fn new(buffers: u16, reserved: usize) -> Self {
        debug_assert!(
            reserved <= usize::from(buffers),
            "validate::check: {reserved} reserved buffers of {buffers}"
        );
        let mut free = List::with_capacity(usize::from(buffers));
        for buffer in (0..buffers).rev() {
            free.push(buffer);
        }
        Self {
            slots: alloc::vec![FREE; usize::from(buffers)].into(),
            free,
            reserved_unused: reserved,
            locked: 0,
            arrivals: 0,
        }
    }

    pub fn open(&self) -> usize {
        self.slots.len() - self.free.len() - self.locked
    }

    /// Whether a buffer is free beyond those that are reserved.
    pub fn has_shared_buffer(&self) -> bool {
        self.free.len() > self.reserved_unused
    }

    /// Gives a free buffer to a request. Its input is prepared from now on.
    ///
    /// # Panics
    /// If no buffer is free. The caller asked before: [`Self::has_shared_buffer`], or the task holds
    /// fewer reserved buffers than it has.
    pub(super) fn take(&mut self, new: Submission) -> RequestId {
        debug_assert!(
            new.holds_reserved_buffer || self.has_shared_buffer(),
            "a request beyond the reservations takes a reserved buffer"
        );
        self.reserved_unused -= usize::from(new.holds_reserved_buffer);
        let buffer = self
            .free
            .pop()
            .expect("a buffer is free: has_shared_buffer, or one reserved for this request");
        self.transition(buffer, State::Preparing);
        let slot = &mut self.slots[usize::from(buffer)];
        // Wraps: a stale id would have to survive 2^32 uses of its buffer to be taken for a new one.
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
            leave_by: new.leave_by,
            order: self.arrivals,
            holds_reserved_buffer: new.holds_reserved_buffer,
            ..FREE
        };
        self.arrivals += 1;
        RequestId { buffer, generation }
    }

    /// Changes the state of a request and returns the state before. The caller removes the request from
    /// the queue of that state.
    pub(super) fn transition(&mut self, buffer: u16, to: State) -> State {
        let slot = &mut self.slots[usize::from(buffer)];
        let from = core::mem::replace(&mut slot.state, to);
        debug_assert!(from.leads_to(to), "request {buffer}: {from:?} to {to:?}");
        from
    }

    /// Makes a request a member of an action. With a `cohort`, it shares later batches only within it.
    pub(super) fn begin(&mut self, buffer: u16, cohort: Option<u64>) -> State {
        let slot = &mut self.slots[usize::from(buffer)];
        slot.cohort = cohort.unwrap_or(slot.cohort);
        self.transition(buffer, State::Running)
    }

    /// Records that the answer of a request was delivered before its verdict.
    pub(super) fn mark_delivered(&mut self, buffer: u16, now: Instant) {
        self.slots[usize::from(buffer)].delivered = Some(now);
    }

    /// Records that the stage of a running request has ended, with its answer if the stage has an exit.
    pub(super) fn complete_stage(&mut self, buffer: u16, answer: Option<Answer>) -> &Request {
        let slot = &mut self.slots[usize::from(buffer)];
        debug_assert_eq!(slot.state, State::Running, "request {buffer} runs no stage");
        // A stage without an exit leaves the answer of the exit before it.
        if let Some(answer) = answer {
            slot.answer = Some((slot.stage, answer));
            slot.delivered = None;
        }
        slot.stage = slot.stage.next();
        slot
    }

    /// Marks a request whose client disconnected while the intake or the device uses its buffer.
    pub fn mark_gone(&mut self, buffer: u16) {
        self.slots[usize::from(buffer)].gone = true;
    }

    /// Marks a request that a newer frame replaced while the intake still writes to its buffer.
    pub(super) fn mark_superseded(&mut self, buffer: u16) {
        debug_assert_eq!(self.get(buffer).state, State::Preparing);
        self.slots[usize::from(buffer)].superseded = true;
    }

    /// Marks a request that has no promise from now on.
    pub(super) fn mark_demoted(&mut self, buffer: u16) {
        self.slots[usize::from(buffer)].demoted = true;
    }

    /// Records that a request relies on a model's weights until its verdict.
    pub(super) fn rely_on(&mut self, buffer: u16, model: ModelId) -> &Request {
        let slot = &mut self.slots[usize::from(buffer)];
        debug_assert_eq!(
            slot.relies_on, None,
            "request {buffer} relies on weights twice, but would release them once"
        );
        slot.relies_on = Some(model);
        slot
    }

    /// Frees a buffer and returns the request that held it.
    ///
    /// # Panics
    /// If it is free already: two requests would get it, and one would read the other's input.
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

    /// Closes a request whose action goes on. No request gets its buffer before [`Self::release`].
    pub(super) fn lock(&mut self, buffer: u16) -> Request {
        self.locked += 1;
        self.transition(buffer, State::Locked);
        *self.get(buffer)
    }

    /// The request with this id; `None` if the id is stale.
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

    /// Recounts the buffers.
    ///
    /// # Errors
    /// The first count that is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        let (mut free, mut locked) = (0, 0);
        for request in &self.slots {
            free += usize::from(request.state == State::Free);
            locked += usize::from(request.state == State::Locked);
        }
        match () {
            () if free != self.free.len() => Err("the free buffers differ from the list of them"),
            () if locked != self.locked => Err("locked buffers are miscounted"),
            () if self.free.len() < self.reserved_unused => {
                Err("too few buffers are free for those reserved")
            }
            () => Ok(()),
        }
    }
}

/// What [`Requests::check`] must find, and how a test plants it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Requests>] = &[
    ("the free buffers differ from the list of them", |it| {
        it.free.pop();
    }),
    ("locked buffers are miscounted", |it| it.locked += 1),
    ("too few buffers are free for those reserved", |it| {
        it.reserved_unused = it.free.len() + 1
    }),
];
