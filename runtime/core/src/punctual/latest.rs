//! The newest frame instead of an older one that still waits ([`Delivery::LatestFrame`]).
//!
//! When a frame's input is ready and an older one of the same client and task waits for its first
//! stage, the newer takes its *place*: the older one's entry among the promises, with its work, its
//! company and its deadline, is the newer one's from now on. Nothing changes for anybody else, so
//! there is nothing to test: W, F and f are what they were, and SAFE with them. As the entry's
//! deadline stays, a client that hurries does not put its own answers off for ever: by each
//! deadline that was promised, that frame or a newer one is ready. Best-effort work takes the place
//! in line. The reservation that a conforming frame came for stays unused.
//!
//! A newer frame whose own deadline is earlier must pass the test beside the older one first, which
//! then goes: W falls. One that is not taken on changes nothing, nor does best-effort work at the last moment
//! at which it can begin; what can be answered on time stays.
//! Which of two frames is newer is the order of their arrival, as capture times are only claims.
//!
//! A frame that was spilled to another task keeps its place there: its promise was made on another
//! partition. An older one whose input is still being prepared goes when the intake lets go of its buffer.
//!
//! [`Delivery::LatestFrame`]: crate::Delivery::LatestFrame

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::event::Arrival;
use crate::ids::{ClientId, StageId, TaskId};
use crate::punctual::Punctual;
use crate::punctual::ledger::Note;
use crate::punctual::queues::Pending;
use crate::punctual::requests::{Request, State};
use crate::time::Instant;

impl Punctual {
    /// Whether a frame that arrives for `task` would take the place of an older one, if that still
    /// waits when the frame is prepared. Then it needs no slack of its own.
    pub(crate) fn finds_place(&self, task: TaskId, arrival: &Arrival, due: Instant) -> bool {
        let partition = self.tables.task(task).partition;
        let pending = self.partitions[partition.index()].queues.promised().iter();
        let mut older = pending.filter(|p| p.due <= due);
        self.wants_latest(arrival.task)
            && older.any(|p| self.is_replaceable(p, task, arrival.ticket.client, arrival.task))
    }

    /// Gives a request whose input is ready the place of the most urgent older one. False if there
    /// is none, or the request itself would be late there.
    pub(crate) fn take_place(
        &mut self,
        request: &Request,
        buffer: u16,
        actions: &mut Actions,
    ) -> bool {
        let table = self.tables.task(request.task);
        if !self.wants_latest(request.origin) || self.now + table.work() > request.due {
            return false;
        }
        let (own, captured) = (request.task, request.captured);
        let conforms =
            table.guaranteed && self.reservations.in_rhythm(own, table, captured, self.now);
        let index = table.partition.index();
        let (client, origin) = (request.ticket.client, request.origin);
        let older = self.partitions[index]
            .queues
            .promised()
            .iter()
            .position(|p| {
                p.due <= request.due
                    && self.is_replaceable(p, request.task, client, origin)
                    && self.requests.get(p.buffer).order < request.order
            });
        let Some(at) = older else {
            return false;
        };
        self.rely_on_weights(buffer);
        let queues = &mut self.partitions[index].queues;
        let (older, extra) = queues.hand_over(at, request, buffer, conforms);
        self.requests.transition(buffer, State::Pending);
        if !extra {
            self.ledger.note(request.origin, Note::Conforming);
        }
        self.conclude(older, Verdict::Rejected(Rejection::Superseded), actions);
        self.supersede(request, actions);
        true
    }

    /// A best-effort request with the place in line of the first older one that it supersedes.
    pub(crate) fn in_place_of_older(&self, request: &Request) -> Request {
        let table = self.tables.task(request.task);
        let waiting = self.partitions[table.partition.index()]
            .queues
            .waiting()
            .iter();
        let latest = self.wants_latest(request.origin);
        let mut older = waiting.filter(|w| latest && self.is_older(w.buffer, request));
        let order = older.next().map_or(request.order, |w| w.order);
        Request { order, ..*request }
    }

    /// Ends all that is older than a request which was taken on, and has not begun.
    pub(crate) fn supersede(&mut self, request: &Request, actions: &mut Actions) {
        if !self.wants_latest(request.origin) {
            return;
        }
        for buffer in 0..self.requests.buffers() {
            if !self.is_older(buffer, request) {
                continue;
            }
            match self.requests.get(buffer).state {
                State::Preparing => self.requests.mark_superseded(buffer),
                State::Pending | State::Waiting | State::Awaiting => {
                    let index = self.withdraw(buffer);
                    self.partitions[index].touch();
                    self.conclude(buffer, Verdict::Rejected(Rejection::Superseded), actions);
                }
                State::Free | State::Parked | State::Running | State::Locked => {}
            }
        }
    }

    /// Whether a newer frame of a task takes the place of an older one: who submits says so, wherever its frames run.
    fn wants_latest(&self, origin: TaskId) -> bool {
        self.tables.task(origin).latest
    }

    /// Whether the request in a buffer was submitted before `newer`, by the same client for the same
    /// task, runs by the rules of the same one, and no stage of it has begun.
    fn is_older(&self, buffer: u16, newer: &Request) -> bool {
        let request = self.requests.get(buffer);
        request.state.is_open()
            && request.ticket.client == newer.ticket.client
            && (request.origin, request.task) == (newer.origin, newer.task)
            && request.order < newer.order
            && request.stage == StageId(0)
    }

    /// Whether a promise is of that client's and its first stage has not been ordered.
    fn is_replaceable(
        &self,
        entry: &Pending,
        task: TaskId,
        client: ClientId,
        origin: TaskId,
    ) -> bool {
        let request = self.requests.get(entry.buffer);
        !entry.running
            && request.task == task
            && request.ticket.client == client
            && request.origin == origin
            && request.stage == StageId(0)
    }
}
