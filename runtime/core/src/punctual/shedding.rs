//! Best-effort work given up on demand ([`Event::Shed`](crate::Event::Shed)): whoever watches the
//! machine has found that something is wrong with it, and what was promised comes first.
//!
//! While the hold lasts, best-effort work is refused when it arrives and when its input is
//! prepared, what runs is told to stop, and what waits gets the answer that it has, or
//! `Rejected(Shedding)`. Promises are not touched: the hold takes work away and adds none.

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::punctual::Punctual;
use crate::punctual::lifecycle::requests::State;
use crate::punctual::partition::Partition;

impl Punctual {
    /// Begins or ends the hold. Those that wait between two stages are ended when their partition
    /// is looked at next (`timers`), as those are that come back from a stage.
    pub(super) fn hold_best_effort(&mut self, hold: bool, actions: &mut Actions) {
        self.holds.shedding = hold;
        self.partitions.iter_mut().for_each(Partition::touch);
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
