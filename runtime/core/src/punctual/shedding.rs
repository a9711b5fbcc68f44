//! Best-effort work given up on demand ([`Event::Shed`](crate::Event::Shed)): whoever watches the
//! machine has found that something is wrong with it, and what was promised comes first.
//!
//! While the hold lasts, best-effort work is refused when it arrives and when its input is
//! prepared, what runs is told to stop, and what waits gets the answer that it has, or
//! `Rejected(Shedding)`. Promises are not touched: the hold takes work away and adds none.

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::ids::TaskId;
use crate::punctual::Punctual;
use crate::punctual::partition::Partition;
use crate::punctual::requests::State;

impl Punctual {
    /// Begins or ends the hold. Those that wait between two stages are ended when their partition
    /// is looked at next (`timers`), as those are that come back from a stage.
    pub(crate) fn hold_best_effort(&mut self, hold: bool, actions: &mut Actions) {
        self.shedding = hold;
        self.partitions.iter_mut().for_each(Partition::touch);
        for buffer in 0..self.requests.buffers() {
            let request = *self.requests.get(buffer);
            if request.state == State::Awaiting && self.sheds(request.task) {
                self.paging.remove(buffer);
                let verdict = Verdict::Rejected(Rejection::Shedding);
                self.conclude(buffer, verdict, actions);
            }
        }
    }

    pub(crate) const fn is_shedding(&self) -> bool {
        self.shedding
    }

    /// Whether a task's frames are given up at present.
    pub(crate) fn sheds(&self, task: TaskId) -> bool {
        self.shedding && !self.is_real_time(task)
    }
}
