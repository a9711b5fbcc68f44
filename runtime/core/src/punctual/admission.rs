//! The two tests of a request (`docs/decisions/0004`). The test at its arrival is cheap, and rejects frames
//! that cannot be on time before the intake prepares them. The test when its input is ready decides on
//! the promise.

use crate::action::Rejection;
use crate::event::Arrival;
use crate::ids::{StageId, TaskId};
use crate::punctual::Punctual;
use crate::punctual::lifecycle::requests::Request;
use crate::punctual::lifecycle::{Grant, Joins};
use crate::punctual::slack::{Candidate, SlackScan};
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::{Shared, View};
use crate::time::Instant;

/// Which kind of buffer a submission gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A buffer that the plan reserves for the conforming requests of the task. Without such buffers,
    /// extras could take all memory, and a conforming frame would have none.
    Reserved,
    /// Any other buffer.
    Shared,
}

/// The tests of a request on one partition. A test changes nothing but the scan: the caller applies its
/// result.
#[derive(Debug)]
pub struct Admission<'a> {
    pub view: View<'a>,
    pub scan: &'a mut SlackScan,
}

impl Punctual {
    pub(super) fn admission(&mut self, index: usize) -> Admission<'_> {
        let (view, scan) = self.look(index);
        Admission { view, scan }
    }
}

impl Admission<'_> {
    /// The test at arrival: the buffer that `task` has for a submission, or the reason of its rejection.
    /// The submission is its own, or another task offloads it.
    pub fn entry(
        &mut self,
        task: TaskId,
        arrival: &Arrival,
        due: Instant,
    ) -> Result<Entry, Rejection> {
        let Shared { now, life, .. } = *self.view;
        if self.view.holds.draining {
            return Err(Rejection::Draining);
        }
        if self.view.sheds(task) {
            return Err(Rejection::Shedding);
        }
        let table = self.view.tables.task(task);
        if !table.is_ready() {
            return Err(Rejection::NotReady);
        }
        if self.view.is_unserviceable(task) {
            return Err(Rejection::NoSlack);
        }
        let work = table.work();
        // Alone on an idle partition it would be late.
        if now + table.prepare + work > due {
            return Err(Rejection::LateOnArrival);
        }
        if life.weights.residency().ready_at(table.model, now) + work > due {
            return Err(Rejection::NoSlack);
        }
        // A conforming frame passes without a test of slack or of the queue: its place in both is reserved.
        let (captured, reservations) = (arrival.captured, self.view.reservations);
        if life.ledger.reserved_held(task) < table.reserved_buffers
            && reservations.has_buffer(task, table, captured, now)
        {
            return Ok(Entry::Reserved);
        }
        if life.is_full(task, table) && life.least_gaining(task, self.view.index).is_none() {
            return Err(Rejection::QueueFull);
        }
        // A conforming frame that finds no reserved buffer takes another one. Its promise needs no slack.
        let conforms = table.guaranteed && reservations.conforms_at(task, table, captured, now);
        if self.view.promises_to(task)
            && !conforms
            // A frame that takes over a promise needs no slack of its own.
            && !self.view.would_replace_older(task, arrival, due)
            // With f = now, as the running action may end early, this test rejects only what has no
            // chance. It saves the preparation. The other test decides.
            && !self.fits_extra(&self.view.candidate(task, due), now)
        {
            return Err(Rejection::NoSlack);
        }
        Ok(Entry::Shared)
    }

    /// Whether `task` would promise the deadline of a frame that arrives, once it is prepared. The
    /// estimate assumes that nothing else arrives until then. Preparations in progress count.
    pub fn would_promise(&mut self, task: TaskId, captured: Instant, due: Instant) -> bool {
        let Shared { now, life, .. } = *self.view;
        if self.view.partitions.is_demoted(task, self.view.tables) {
            return false;
        }
        let table = self.view.tables.task(task);
        let reservations = self.view.reservations;
        if table.guaranteed && reservations.conforms_at(task, table, captured, now) {
            return true;
        }
        let loaded = life.weights.residency().ready_at(table.model, now);
        let free = self.view.free_from().max(now + table.prepare).max(loaded);
        // Frames in preparation are not pending yet, but their promises will come first.
        let free = free + life.work_in_preparation(self.view.index, self.view.tables);
        self.fits_extra(&self.view.candidate(task, due), free)
    }

    /// The test of a request that is ready. A grant is the promise that its mandatory part ends by its
    /// deadline; docs/proof.md lists the rules under "The policy" and proves them under "Guarantee".
    pub fn test(&mut self, request: &Request) -> Result<Grant, Rejection> {
        debug_assert!(
            self.view.promises_to(request.task),
            "only requests that can get a promise are tested"
        );
        let now = self.view.now;
        let table = self.view.tables.task(request.task);
        if now + table.work() > request.due {
            return Err(Rejection::LateOnArrival);
        }
        // A frame that took longer than J to prepare has a stamp after its capture. Then its deadline is
        // earlier than the reserved one, and it must pass the test.
        let stamp = request.captured.max(now - table.jitter);
        let allowance = self.view.reservations.allowance(request.task);
        let conforms = table.guaranteed && allowance.admits(request.captured, stamp);
        let own_due = table.own_due().map(|d| stamp + d);
        if conforms && own_due.is_some_and(|own_due| request.due >= own_due) {
            // It asks for no more than was reserved. The work moves from F to W at the same deadline or a
            // later one, so SAFE holds without a test.
            return Ok(Grant {
                after: Some(allowance.used(request.captured, table)),
                joins: Joins::new(),
            });
        }
        // A conforming request is no extra: F counts its work already, so the test below uses the reservation.
        let mut candidate = self.view.candidate(request.task, request.due);
        let free = self.view.free_from();
        // As an extra first: then the reservation remains for a later frame.
        if !conforms
            && !self.view.share_is_spent(Voluntary::Extras)
            && let Some(joins) = self.fits(&candidate, free)
        {
            return Ok(Grant { after: None, joins });
        }
        // Two kinds of requests may use the reservation if they pass the test together with the reservations
        // after them. The first has an earlier deadline than the reserved one: the client set it, or the
        // preparation took longer than J. The second belongs to a task in debt for an overrun, and was
        // captured at its period, so that it got a reserved buffer. Its own `next` lies in the future.
        if conforms || table.guaranteed && request.holds_reserved_buffer {
            candidate.after = Some(if conforms {
                allowance.used(request.captured, table)
            } else {
                allowance.begun(request.captured, table)
            });
            if let Some(joins) = self.fits(&candidate, free) {
                let after = candidate.after;
                return Ok(Grant { after, joins });
            }
        }
        Err(Rejection::NoSlack)
    }

    /// Whether a request beyond the reservations fits. None does while the time left for the operating
    /// system is short (docs/decisions/0006).
    fn fits_extra(&mut self, candidate: &Candidate, free: Instant) -> bool {
        !self.view.share_is_spent(Voluntary::Extras) && self.fits(candidate, free).is_some()
    }

    /// Whether SAFE holds with a request's work, at its deadline and at every later one, pending or
    /// reserved. Earlier deadlines are not affected, because EDF serves them first. A request that fails
    /// alone may fit in a batch with others: then the result names their promises.
    fn fits(&mut self, candidate: &Candidate, free: Instant) -> Option<Joins> {
        let work = self.view.tables.task(candidate.task).work();
        self.view.scan(self.scan, free, Some((candidate, work)));
        if self.scan.least_from(candidate.due) >= 0 {
            return Some(Joins::new());
        }
        self.joint_promises(candidate, free)
    }
}

impl View<'_> {
    fn candidate(&self, task: TaskId, due: Instant) -> Candidate {
        let table = self.tables.task(task);
        Candidate {
            task,
            due,
            row: self.tables.row_of(table, StageId(0)),
            batch_max: table.batch_max,
            after: None,
        }
    }
}
