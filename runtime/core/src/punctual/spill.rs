//! Frames that another device takes on, because their own cannot: co-scheduling.
//!
//! A task may name another for the same network, prepared for another device. A frame goes there if
//! its own task would refuse it (it is late for that device, finds no slack or no room there, or the
//! device has gone silent) and the other has room for it: by that one's times, queue and slack, but
//! by the frame's own deadline. If the other has none either, the own task's judgement stands.
//!
//! Where a frame goes is decided when it arrives, as its input is prepared for one device. So both
//! tasks are asked what they would say once it is prepared, as things stand: [`Punctual::refusal`]
//! alone lets hopeful frames in. Who is not sure of a frame keeps it, unless the other is.
//!
//! Nothing is added to the proof. A taker has no reservation, so all that spills to it are extras,
//! each admitted by the test of extras when it is prepared. A frame that a reservation waits for does
//! not spill unless it is late on arrival, or the device silent.
//!
//! A spilled request is under the rules of the taker (`Request::task`): its places in the queue, its
//! batches, its thresholds. What becomes of it is told and counted as who submitted it (`Request::origin`).

use crate::action::Rejection;
use crate::event::Arrival;
use crate::ids::TaskId;
use crate::punctual::Punctual;
use crate::punctual::ledger::Note;
use crate::punctual::requests::{Request, State};
use crate::punctual::share::Voluntary;
use crate::time::{Instant, Nanos};

impl Punctual {
    /// Who takes a submission on, its own task or that one's spill, and whether in one of the buffers
    /// kept for it; or why neither does.
    pub(crate) fn taker(
        &mut self,
        arrival: &Arrival,
        due: Instant,
    ) -> Result<(TaskId, bool), Rejection> {
        let (own, captured) = (arrival.task, arrival.captured);
        let judged = self.refusal(own, arrival, due);
        if let Some(spill) = self.tables.task(own).spill
            && (judged != Ok(true) || self.is_demoted(own))
            && !(judged.is_ok() && self.has_room(own, captured, due))
            && self.refusal(spill, arrival, due).is_ok()
            && self.has_room(spill, captured, due)
        {
            self.ledger.note(own, Note::Spilled);
            // What is asked of the taker's partition has grown, and its price of depth with it.
            self.load.arrived(spill);
            return Ok((spill, false));
        }
        judged.map(|holds_kept| (own, holds_kept))
    }

    /// Whether `task` would promise a frame its deadline after its preparation, if nothing happens
    /// until then but the preparations that are under way.
    fn has_room(&mut self, task: TaskId, captured: Instant, due: Instant) -> bool {
        if self.is_demoted(task) {
            return false;
        }
        let table = self.tables.task(task);
        let index = table.partition.index();
        if table.guaranteed && self.reservations.in_rhythm(task, table, captured, self.now) {
            return true;
        }
        let there = self.paging.residency.ready_at(table.model, self.now);
        let free = self.partitions.free_from(index, self.now);
        let free = free.max(self.now + table.prepare).max(there) + self.work_prepared_for(index);
        let applicant = self.applicant(task, due);
        !self.partitions[index].share_is_spent(Voluntary::Extras, self.now)
            && self.fits(index, &applicant, free).is_some()
    }

    /// Mandatory work of the requests whose inputs are being prepared for a partition, but for those
    /// that its reservations count.
    fn work_prepared_for(&self, index: usize) -> Nanos {
        let here = |request: &&Request| {
            request.state == State::Preparing
                && !request.holds_kept
                && self.tables.task(request.task).partition.index() == index
        };
        let requests = (0..self.requests.buffers()).map(|buffer| self.requests.get(buffer));
        let work = requests.filter(here);
        let work = work.map(|request| self.tables.task(request.task).work());
        work.fold(Nanos::ZERO, |sum, work| sum + work)
    }
}
