//! Best-effort work shed on demand ([`Event::Shed`](crate::Event::Shed)). The watchdog requests it when
//! something is wrong with the machine, as promised work comes first.
//!
//! While the hold lasts, best-effort requests are rejected when they arrive and when their input is
//! prepared. A running best-effort action is preempted. A waiting request gets its present answer, or
//! `Rejected(Shedding)`. Promises are not affected: the hold removes work and adds none.

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::punctual::Punctual;
use crate::punctual::lifecycle::requests::State;
use crate::punctual::partition::Partition;

impl Punctual {
    /// Begins or ends the hold. Requests in a best-effort queue end later in this step (`timers`). So do, in
    /// a later step, the members of a preempted action. Only requests that wait for weights are in no
    /// partition's queue, so they end here.
    pub(super) fn hold_best_effort(&mut self, hold: bool, actions: &mut Actions) {
        self.holds.shedding = hold;
        // Each partition decides again: it preempts best-effort work, or may start it after the hold.
        self.partitions.iter_mut().for_each(Partition::mark_dirty);
        for buffer in 0..self.life.requests.buffers() {
            let request = self.life.requests.get(buffer);
            let real_time = self.tables.task(request.task).is_real_time();
            if request.state == State::AwaitingWeights && hold && !real_time {
                self.life.withdraw(buffer, &self.tables);
                let verdict = Verdict::Rejected(Rejection::Shedding);
                self.life.finish(buffer, verdict, actions);
            }
        }
    }
}
