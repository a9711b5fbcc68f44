//! The test of requests: a cheap refusal when they arrive, the promise when their input is prepared.

use crate::action::Rejection;
use crate::event::Arrival;
use crate::ids::{StageId, TaskId};
use crate::punctual::lifecycle::requests::Request;
use crate::punctual::lifecycle::{Grant, Joins};
use crate::punctual::slack::{Candidate, SlackScan};
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::View;
use crate::time::Instant;

/// Which buffer a submission gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// One of those kept for the conforming requests of its task.
    Reserved,
    /// One of the others.
    Shared,
}

/// The test of requests on one partition. It reserves nothing: whoever asks applies the answer.
#[derive(Debug)]
pub struct Admission<'a> {
    pub view: View<'a>,
    pub scan: &'a mut SlackScan,
}

impl<'a> Admission<'a> {
    pub fn of((view, scan): (View<'a>, &'a mut SlackScan)) -> Self {
        Self { view, scan }
    }

    /// Which buffer `task` has for a submission, its own or one that another task offloads to it; or
    /// why it refuses that.
    pub fn entry(
        &mut self,
        task: TaskId,
        arrival: &Arrival,
        due: Instant,
    ) -> Result<Entry, Rejection> {
        let View { now, life, .. } = self.view;
        if self.view.holds.draining {
            return Err(Rejection::Draining);
        }
        if self.view.sheds(task) {
            return Err(Rejection::Shedding);
        }
        if self.view.is_unserviceable(task) {
            return Err(Rejection::NoSlack);
        }
        let table = self.view.tables.task(task);
        let work = table.work();
        if now + table.prepare + work > due {
            return Err(Rejection::LateOnArrival);
        }
        if life.weights.residency().ready_at(table.model, now) + work > due {
            return Err(Rejection::NoSlack);
        }
        let (captured, reservations) = (arrival.captured, self.view.reservations);
        if life.ledger.reserved_held(task) < table.reserved_buffers
            && reservations.has_buffer(task, table, captured, now)
        {
            return Ok(Entry::Reserved);
        }
        if life.is_full(task, table) && life.least_gaining(task, self.view.index).is_none() {
            return Err(Rejection::QueueFull);
        }
        let reserved = table.guaranteed && reservations.in_rhythm(task, table, captured, now);
        if self.view.promises_to(task)
            && !reserved
            && !self.view.finds_place(task, arrival, due)
            // Hopeless even if the running action ended now: spare the intake the work. Whether
            // it really fits is decided when it is prepared.
            && !self.fits_extra(&self.view.candidate(task, due), now)
        {
            return Err(Rejection::NoSlack);
        }
        Ok(Entry::Shared)
    }

    /// Whether `task` would promise a frame its deadline after its preparation, if nothing happens
    /// until then but the preparations that are under way.
    pub fn has_room(&mut self, task: TaskId, captured: Instant, due: Instant) -> bool {
        let View { now, life, .. } = self.view;
        if self.view.partitions.is_demoted(task, self.view.tables) {
            return false;
        }
        let table = self.view.tables.task(task);
        let reservations = self.view.reservations;
        if table.guaranteed && reservations.in_rhythm(task, table, captured, now) {
            return true;
        }
        let there = life.weights.residency().ready_at(table.model, now);
        let free = self.view.free_from().max(now + table.prepare).max(there);
        let free = free + life.work_in_preparation(self.view.index, self.view.tables);
        self.fits_extra(&self.view.candidate(task, due), free)
    }

    /// The promise: every accepted request's mandatory part ends by its deadline.
    pub fn judge(&mut self, request: &Request) -> Result<Grant, Rejection> {
        let now = self.view.now;
        let table = self.view.tables.task(request.task);
        if now + table.work() > request.due {
            return Err(Rejection::LateOnArrival);
        }
        let stamp = request.captured.max(now - table.jitter);
        let next = self.view.reservations.next(request.task);
        let conforms = table.guaranteed && stamp >= next;
        let own_due = table.own_due().map(|d| stamp + d);
        // The next place in the rhythm is counted from this one, not from when it was ready: a frame
        // that came late takes nothing from those that come in time after it.
        let place = request.captured.max(next);
        if conforms && own_due.is_some_and(|own_due| request.due >= own_due) {
            // It asks for no more than was reserved: the offline test has decided.
            return Ok(Grant {
                next: Some(place + table.period),
                joins: Joins::new(),
            });
        }
        let mut candidate = self.view.candidate(request.task, request.due);
        let free = self.view.free_from();
        if !conforms
            && !self.view.share_is_spent(Voluntary::Extras)
            && let Some(joins) = self.fits(&candidate, free)
        {
            return Ok(Grant { next: None, joins });
        }
        // With a deadline earlier than was reserved for (the client's own wish, or late preparation),
        // or while its task pays for an overrun, it must fit beside what is still reserved after it.
        let place = if conforms { place } else { request.captured };
        if conforms || table.guaranteed && request.holds_reserved_buffer {
            candidate.next = Some(place + table.period);
            if let Some(joins) = self.fits(&candidate, free) {
                let next = candidate.next;
                return Ok(Grant { next, joins });
            }
        }
        Err(Rejection::NoSlack)
    }

    /// Whether a request beyond the reservations fits.
    fn fits_extra(&mut self, candidate: &Candidate, free: Instant) -> bool {
        !self.view.share_is_spent(Voluntary::Extras) && self.fits(candidate, free).is_some()
    }

    /// Whether a request's work fits before its deadline without endangering a later one, pending
    /// or reserved. Earlier deadlines are not affected: EDF serves them first.
    /// If it does not alone, it may in a batch with others.
    fn fits(&mut self, candidate: &Candidate, free: Instant) -> Option<Joins> {
        let work = self.view.tables.task(candidate.task).work();
        self.view.scan(self.scan, free, Some((candidate, work)));
        if self.scan.least_from(candidate.due) >= 0 {
            return Some(Joins::new());
        }
        self.joins(candidate, free)
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
            next: None,
        }
    }
}
