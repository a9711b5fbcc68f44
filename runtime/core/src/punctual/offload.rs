//! Frames that another device takes on, because their own cannot: co-scheduling.
//!
//! A task may name another for the same network, prepared for another device. A frame goes there if
//! its own task would refuse it (it is late for that device, finds no slack or no room there, or the
//! device has gone silent) and the other has room for it: by that one's times, queue and slack, but
//! by the frame's own deadline. If the other has none either, the own task's judgement stands.
//!
//! Where a frame goes is decided when it arrives, as its input is prepared for one device. So both
//! tasks are asked what they would say once it is prepared, as things stand: [`Admission::entry`]
//! alone lets hopeful frames in. Who is not sure of a frame keeps it, unless the other is.
//!
//! Nothing is added to the proof. A taker has no reservation, so all that is offloaded to it are extras,
//! each admitted by the test of extras when it is prepared. A frame that a reservation waits for is
//! not offloaded unless it is late on arrival, or the device silent.
//!
//! An offloaded request is under the rules of the taker (`Request::task`): its places in the queue, its
//! batches, its thresholds. What becomes of it is told and counted as who submitted it (`Request::origin`).
//!
//! [`Admission::entry`]: crate::punctual::admission::Admission::entry

use crate::action::Rejection;
use crate::event::Arrival;
use crate::ids::TaskId;
use crate::punctual::Punctual;
use crate::punctual::admission::{Admission, Entry};
use crate::punctual::lifecycle::ledger::Note;
use crate::time::Instant;

impl Punctual {
    /// Who takes a submission on, its own task or the one that it offloads to, and which buffer it gets
    /// there; or why neither does.
    pub(super) fn taker(
        &mut self,
        arrival: &Arrival,
        due: Instant,
    ) -> Result<(TaskId, Entry), Rejection> {
        let (own, captured) = (arrival.task, arrival.captured);
        let table = self.tables.task(own);
        let (spill, index) = (table.spill, table.partition.index());
        let judged = Admission::of(self.look(index)).entry(own, arrival, due);
        if judged == Ok(Entry::Reserved) {
            let table = self.tables.task(own);
            self.reservations.take_buffer(own, table, captured);
        }
        let Some(spill) = spill else {
            return judged.map(|entry| (own, entry));
        };
        let keeps = judged == Ok(Entry::Reserved) && !self.partitions.is_demoted(own, &self.tables)
            || judged.is_ok() && Admission::of(self.look(index)).has_room(own, captured, due);
        let other = self.tables.task(spill).partition.index();
        let mut other = Admission::of(self.look(other));
        if !keeps
            && other.entry(spill, arrival, due).is_ok()
            && other.has_room(spill, captured, due)
        {
            self.life.ledger.note(own, Note::Spilled);
            // What is asked of the taker's partition has grown, and its price of depth with it.
            self.load.arrived(spill);
            return Ok((spill, Entry::Shared));
        }
        judged.map(|entry| (own, entry))
    }
}
