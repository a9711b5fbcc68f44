//! What falls due without an event: answers that wait for capacity in vain, best-effort requests
//! that no gap came for, actions that should have ended.

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::punctual::Punctual;
use crate::punctual::queues::{Parked, Waiting};
use crate::punctual::share::Voluntary;
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

impl Punctual {
    /// Answers the requests that cannot go deeper any more. Runs after the dispatch, so that
    /// what can still be started at the last moment is.
    pub(crate) fn expire(&mut self, index: usize, actions: &mut Actions) {
        let mut at = 0;
        while let Some(parked) = self.partitions[index].queues.parked().get(at).copied() {
            let in_vain = self.view(index).last_start_of_parked(&parked) <= self.now;
            if parked.eager || in_vain || !self.view(index).is_worth_it(&parked) {
                self.withdraw(parked.buffer);
                self.answer(parked.buffer, actions);
            } else {
                at += 1;
            }
        }
        let mut at = 0;
        while let Some(waiting) = self.partitions[index].queues.waiting().get(at).copied() {
            let shed = self.is_shedding() && !waiting.demoted;
            if self.view(index).last_start_of_waiting(&waiting) > self.now && !shed {
                at += 1;
                continue;
            }
            self.withdraw(waiting.buffer);
            if self.holds_answer_that_counts(waiting.buffer) {
                self.answer(waiting.buffer, actions);
            } else {
                let reason = if shed {
                    Rejection::Shedding
                } else {
                    Rejection::NoSlack
                };
                self.conclude(waiting.buffer, Verdict::Rejected(reason), actions);
            }
        }
    }

    pub(crate) fn holds_answer_that_counts(&self, buffer: u16) -> bool {
        let request = self.requests.get(buffer);
        request.holds_answer_from(self.tables.task(request.task).mandatory_exit)
    }
}

impl View<'_> {
    /// When this partition needs a tick.
    pub fn timer(&self) -> Option<Instant> {
        let partition = self.partition;
        let parked = partition.queues.parked().iter();
        let parked = parked.map(|p| self.last_start_of_parked(p));
        let waiting = partition.queues.waiting().iter();
        let waiting = waiting
            .filter(|w| w.due != Instant::FAR_FUTURE)
            .map(|w| self.last_start_of_waiting(w));
        let overrun = partition
            .slot
            .running()
            .filter(|r| !r.lost && !r.is_stoppable())
            .map(|r| r.until + self.tables.dispatch_cost().max(Nanos::new(1)));
        // Deeper stages that wait for nothing but the partition's share.
        // Best-effort work that has the gap keeps it to the end of its stage: the rest is so short
        // that it would be stopped each time and never get through one.
        let rested = (partition.slot.running().is_none() && !partition.queues.parked().is_empty())
            .then(|| partition.share.recovers_at(Voluntary::Depth))
            .filter(|at| *at > self.now);
        let opens = Some(partition.opens()).filter(|at| *at > self.now);
        let lost = partition.slot.in_flight();
        let lost = lost.filter(|r| !r.lost).map(|r| r.lost_from);
        parked
            .chain(waiting)
            .chain(overrun)
            .chain(lost)
            .chain(rested)
            .chain(opens)
            .chain(partition.waits)
            .chain(self.looks_ahead_at())
            .min()
    }

    /// d - C of the stages up to the next exit.
    pub fn last_start_of_parked(&self, parked: &Parked) -> Instant {
        let stage = self.tables.row(parked.row).stage;
        parked.due - self.tables.cost_to_answer(parked.task, stage)
    }

    /// The last moment at which starting still makes sense: for what its next stage takes if it
    /// holds an answer, for all that its first answer takes if not.
    pub fn last_start_of_waiting(&self, waiting: &Waiting) -> Instant {
        if waiting.due == Instant::FAR_FUTURE {
            return Instant::FAR_FUTURE;
        }
        let request = self.requests.get(waiting.buffer);
        let table = self.tables.task(request.task);
        if request.holds_answer_from(table.mandatory_exit) {
            return waiting.due - self.tables.cost_to_answer(request.task, request.stage);
        }
        waiting.due - table.work_from(request.stage)
    }
}
