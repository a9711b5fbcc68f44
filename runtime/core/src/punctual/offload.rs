//! Offloading: another device serves frames that a task's own device cannot.
//!
//! A task may name another task for the same network on another device (`TaskConfig::offload_to`). The other
//! task serves a frame if the own task would reject it: the frame is late for that device, finds no slack
//! or no buffer, or the device does not respond. The other task must promise the frame's own deadline by
//! its own times, queue and slack. If it cannot either, the own task's result stands.
//!
//! The decision falls when the frame arrives, because its input is prepared for one device. So both
//! tasks estimate whether they would promise its deadline once it is prepared, as [`Admission::entry`] also
//! accepts frames that may fail later. A task keeps each frame that it would promise. It also keeps a frame
//! that it accepts without certainty, unless the other task would promise it.
//!
//! The proof does not change. The other task has no reservation, so offloaded frames are extras there, each
//! tested when it is prepared. A conforming frame is offloaded only if it is late on arrival, its device does
//! not respond, or its model is demoted.
//!
//! An offloaded request is under the rules of the task that serves it (`Request::task`): its queue, its
//! batches, its thresholds. Verdict and counts stay with the task it was submitted to (`Request::origin`).
//!
//! [`Admission::entry`]: crate::punctual::admission::Admission::entry

use crate::action::Rejection;
use crate::event::Arrival;
use crate::ids::TaskId;
use crate::punctual::Punctual;
use crate::punctual::admission::Entry;
use crate::punctual::lifecycle::ledger::Note;
use crate::time::Instant;

impl Punctual {
    /// The task that serves a submission, its own or the one that this offloads to, and the kind of
    /// buffer there; or the reason of its rejection.
    pub(super) fn assign(
        &mut self,
        arrival: &Arrival,
        due: Instant,
    ) -> Result<(TaskId, Entry), Rejection> {
        let (own, captured) = (arrival.task, arrival.captured);
        let table = self.tables.task(own);
        let (target, index) = (table.offload_to, table.partition.index());
        let entry = self.admission(index).entry(own, arrival, due);
        if entry == Ok(Entry::Reserved) {
            // Even if the frame is offloaded: it was captured in this place of the period.
            let table = self.tables.task(own);
            self.reservations.take_buffer(own, table, captured);
        }
        let Some(target) = target else {
            return entry.map(|entry| (own, entry));
        };
        debug_assert_ne!(target, own, "a task offloads to another task");
        // A reserved buffer goes with a reservation, whose promise needs no slack. But a demoted model has
        // no promises, so its frames are offloaded if the other task can promise them.
        let keeps = entry == Ok(Entry::Reserved) && !self.partitions.is_demoted(own, &self.tables)
            || entry.is_ok() && self.admission(index).would_promise(own, captured, due);
        let other = self.tables.task(target).partition.index();
        let mut other = self.admission(other);
        if !keeps
            && other.entry(target, arrival, due).is_ok()
            && other.would_promise(target, captured, due)
        {
            self.life.ledger.note(own, Note::Offloaded);
            // The load of the other task's partition has grown, and with it the price of depth there.
            self.load.arrived(target);
            return Ok((target, Entry::Shared));
        }
        entry.map(|entry| (own, entry))
    }
}
