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
use crate::punctual::lifecycle::queues::Pending;
use crate::punctual::lifecycle::requests::{Request, State};
use crate::punctual::view::View;
use crate::time::Instant;

/// The promise of an older request, which a newer one takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its position in the queue.
    pub at: usize,
    /// Whether the newer request is one that its task's reservation waits for.
    pub conforms: bool,
}

impl Punctual {
    /// Ends all that is older than a request which was taken on, and has not begun.
    pub(super) fn supersede(&mut self, request: &Request, actions: &mut Actions) {
        let index = self.tables.task(request.task).partition.index();
        if !self.tables.task(request.origin).latest {
            return;
        }
        for buffer in 0..self.life.requests.buffers() {
            let older = self.life.requests.get(buffer);
            if !older.is_superseded_by(request) {
                continue;
            }
            match older.state {
                State::Preparing => self.life.requests.mark_superseded(buffer),
                State::Pending | State::Waiting | State::Awaiting => {
                    self.life.withdraw(buffer, &self.tables);
                    self.partitions[index].touch();
                    let verdict = Verdict::Rejected(Rejection::Superseded);
                    self.life.finish(buffer, verdict, actions);
                }
                State::Free | State::Parked | State::Running | State::Locked => {}
            }
        }
    }
}

impl View<'_> {
    /// Whether a frame that arrives for `task` would take the place of an older one, if that still
    /// waits when the frame is prepared. Then it needs no slack of its own.
    pub fn finds_place(&self, task: TaskId, arrival: &Arrival, due: Instant) -> bool {
        let mut older = self.queues.promised().iter().filter(|p| p.due <= due);
        self.wants_latest(arrival.task)
            && older.any(|p| self.is_replaceable(p, task, arrival.ticket.client, arrival.task))
    }

    /// The place of the most urgent older request, for one whose input is ready. None if the request
    /// itself would be late there.
    pub fn place_for(&self, request: &Request) -> Option<Place> {
        let table = self.tables.task(request.task);
        if !self.wants_latest(request.origin) || self.now + table.work() > request.due {
            return None;
        }
        let (client, origin) = (request.ticket.client, request.origin);
        let at = self.queues.promised().iter().position(|p| {
            p.due <= request.due
                && self.is_replaceable(p, request.task, client, origin)
                && self.life.requests.get(p.buffer).order < request.order
        })?;
        let (own, captured) = (request.task, request.captured);
        let conforms =
            table.guaranteed && self.reservations.in_rhythm(own, table, captured, self.now);
        Some(Place { at, conforms })
    }

    /// The place in line of a best-effort request: that of the first older one that it supersedes.
    pub fn place_in_line(&self, request: &Request) -> u64 {
        let latest = self.wants_latest(request.origin);
        let waiting = self.queues.waiting().iter();
        let mut older = waiting
            .filter(|w| latest && self.life.requests.get(w.buffer).is_superseded_by(request));
        older.next().map_or(request.order, |w| w.order)
    }

    /// Whether a newer frame of a task takes the place of an older one: who submits says so, wherever its frames run.
    fn wants_latest(&self, origin: TaskId) -> bool {
        self.tables.task(origin).latest
    }

    /// Whether a promise is of that client's and its first stage has not been ordered.
    fn is_replaceable(
        &self,
        entry: &Pending,
        task: TaskId,
        client: ClientId,
        origin: TaskId,
    ) -> bool {
        let request = self.life.requests.get(entry.buffer);
        !entry.running
            && request.task == task
            && request.ticket.client == client
            && request.origin == origin
            && request.stage == StageId(0)
    }
}
