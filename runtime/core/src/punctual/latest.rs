//! Delivery of the latest frame only ([`Delivery::LatestFrame`]): a newer frame takes over the promise of
//! an older one of its client.
//!
//! It does so when its input is ready and the older frame of the same client and task still waits for its
//! first stage. The promise keeps its work, its joint promise and its deadline; only the request changes.
//! So W, F and f stay as they are, SAFE holds, and there is nothing to test. As the deadline stays, a client
//! that submits quickly does not delay its own answers without end: by each promised deadline, that frame
//! or a newer one has its mandatory part. The reservation of a newer conforming frame stays unused.
//! A newer best-effort frame takes the older one's position in the best-effort queue.
//!
//! A newer frame with an earlier deadline must first pass the test together with the older frame, which then ends:
//! W falls. A newer frame that is rejected changes nothing. Nor does a best-effort frame that starts at once
//! or never: the older frame that can be on time stays. The order of arrival tells which frame is newer,
//! because capture times are only claims.
//!
//! An offloaded frame keeps its promise with the task that serves it, as that was made on another partition.
//! An older frame that is still being prepared ends when the intake releases its buffer.
//!
//! [`Delivery::LatestFrame`]: crate::Delivery::LatestFrame

use crate::event::Arrival;
use crate::ids::TaskId;
use crate::punctual::lifecycle::requests::{Newer, Request};
use crate::punctual::view::View;
use crate::time::Instant;

/// The promise of an older request, which a newer one takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderPromise {
    /// Its position in the mandatory queue.
    pub at: usize,
    /// Whether the newer request is conforming: then its promise counts as reserved from now on.
    pub conforms: bool,
}

impl View<'_> {
    /// Whether a frame that arrives for `task` would take over the promise of an older one that still
    /// waits when the frame is prepared.
    pub fn would_replace_older(&self, task: TaskId, arrival: &Arrival, due: Instant) -> bool {
        let mut older = self.queues.mandatory().iter().filter(|job| job.due <= due);
        let newer = Newer::arriving(arrival, task, self.tables);
        self.tables.task(arrival.task).latest
            && older.any(|job| {
                let request = self.life.requests.get(job.buffer);
                !job.running && request.can_be_replaced(&newer)
            })
    }

    /// The most urgent promise of an older request, for a newer one whose input is ready. `None` if the
    /// newer one is late even alone: then the older one is worth more.
    pub fn older_promise(&self, request: &Request) -> Option<OlderPromise> {
        let table = self.tables.task(request.task);
        if !self.tables.task(request.origin).latest || self.now + table.work() > request.due {
            return None;
        }
        let newer = Newer::of(request, self.tables);
        let at = self.queues.mandatory().iter().position(|job| {
            let older = self.life.requests.get(job.buffer);
            // The newer frame accepts the promised deadline only if its own is no earlier.
            job.due <= request.due
                && !job.running
                && older.can_be_replaced(&newer)
                && older.order < request.order
        })?;
        let (own, captured) = (request.task, request.captured);
        let conforms = table.guaranteed
            && self
                .reservations
                .conforms_at(own, table, captured, self.now);
        Some(OlderPromise { at, conforms })
    }

    /// The order of a best-effort request in its queue: that of the first older request that it
    /// supersedes, so that a client with frequent frames does not move to the end each time.
    pub fn best_effort_order(&self, request: &Request) -> u64 {
        let latest = self.tables.task(request.origin).latest;
        let jobs = self.queues.best_effort().iter();
        let mut older = jobs.filter(|job| {
            latest
                && self
                    .life
                    .requests
                    .get(job.buffer)
                    .is_superseded_by(request, self.tables)
        });
        older.next().map_or(request.order, |job| job.order)
    }
}
