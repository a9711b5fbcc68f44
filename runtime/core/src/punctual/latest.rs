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

use crate::event::Arrival;
use crate::ids::TaskId;
use crate::punctual::lifecycle::requests::Request;
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

impl View<'_> {
    /// Whether a frame that arrives for `task` would take the place of an older one, if that still
    /// waits when the frame is prepared. Then it needs no slack of its own.
    pub fn finds_place(&self, task: TaskId, arrival: &Arrival, due: Instant) -> bool {
        let mut older = self.queues.mandatory().iter().filter(|p| p.due <= due);
        let (client, origin) = (arrival.ticket.client, arrival.task);
        self.tables.task(origin).latest
            && older.any(|p| {
                let request = self.life.requests.get(p.buffer);
                !p.running && request.can_be_replaced(client, origin, task)
            })
    }

    /// The place of the most urgent older request, for one whose input is ready. None if the request
    /// itself would be late there.
    pub fn place_for(&self, request: &Request) -> Option<Place> {
        let table = self.tables.task(request.task);
        if !self.tables.task(request.origin).latest || self.now + table.work() > request.due {
            return None;
        }
        let (client, origin) = (request.ticket.client, request.origin);
        let at = self.queues.mandatory().iter().position(|p| {
            let older = self.life.requests.get(p.buffer);
            p.due <= request.due
                && !p.running
                && older.can_be_replaced(client, origin, request.task)
                && older.order < request.order
        })?;
        let (own, captured) = (request.task, request.captured);
        let conforms =
            table.guaranteed && self.reservations.in_rhythm(own, table, captured, self.now);
        Some(Place { at, conforms })
    }

    /// The place in line of a best-effort request: that of the first older one that it supersedes.
    pub fn place_in_line(&self, request: &Request) -> u64 {
        let latest = self.tables.task(request.origin).latest;
        let waiting = self.queues.best_effort().iter();
        let mut older = waiting
            .filter(|w| latest && self.life.requests.get(w.buffer).is_superseded_by(request));
        older.next().map_or(request.order, |w| w.order)
    }
}
