//! What falls due without an event: answers that wait for capacity in vain, best-effort requests
//! that no gap came for, actions that should have ended.

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::punctual::Punctual;
use crate::punctual::lifecycle::queues::{BestEffortJob, OptionalJob};
use crate::punctual::utilization::Voluntary;
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

impl Punctual {
    /// Answers the requests that cannot go deeper any more, and ends those that no gap came for. Runs
    /// after the dispatch, so that what can still be started at the last moment is.
    pub(super) fn expire(&mut self, index: usize, actions: &mut Actions) {
        while let Some(buffer) = self.view(index).as_deep_as_it_gets() {
            self.life.withdraw(buffer, &self.tables);
            self.life.answer(buffer, self.now, actions);
        }
        while let Some((buffer, reason)) = self.view(index).without_gap() {
            self.life.withdraw(buffer, &self.tables);
            if self.life.has_mandatory_answer(buffer, &self.tables) {
                self.life.answer(buffer, self.now, actions);
            } else {
                let verdict = Verdict::Rejected(reason);
                self.life.finish(buffer, verdict, actions);
            }
        }
    }
}

impl View<'_> {
    /// When this partition needs a tick.
    pub fn timer(&self) -> Option<Instant> {
        let partition = self.partition;
        let parked = self.queues.optional().iter();
        let parked = parked.map(|p| self.last_start_of_optional(p));
        let waiting = self.queues.best_effort().iter();
        let waiting = waiting
            .filter(|w| w.due != Instant::FAR_FUTURE)
            .map(|w| self.last_start_of_best_effort(w));
        let overrun = partition
            .slot
            .running()
            .filter(|r| !r.lost && !r.is_stoppable())
            .map(|r| r.until + self.tables.dispatch_cost().max(Nanos::new(1)));
        // Deeper stages that wait for nothing but the partition's share.
        // Best-effort work that has the gap keeps it to the end of its stage: the rest is so short
        // that it would be stopped each time and never get through one.
        let rested = (partition.slot.running().is_none() && !self.queues.optional().is_empty())
            .then(|| partition.cap.recovers_at(Voluntary::Depth))
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

    /// A request that holds an answer and does not wait for a deeper one any more.
    fn as_deep_as_it_gets(&self) -> Option<u16> {
        let ends = |parked: &&OptionalJob| {
            let in_vain = self.last_start_of_optional(parked) <= self.now;
            parked.eager || in_vain || !self.is_worth_it(parked)
        };
        let parked = self.queues.optional().iter().find(ends)?;
        Some(parked.buffer)
    }

    /// A best-effort request that no gap came for, or that is given up, and why it is rejected if it
    /// holds no answer.
    fn without_gap(&self) -> Option<(u16, Rejection)> {
        self.queues.best_effort().iter().find_map(|waiting| {
            if self.holds.shedding && !waiting.demoted {
                return Some((waiting.buffer, Rejection::Shedding));
            }
            let over = self.last_start_of_best_effort(waiting) <= self.now;
            over.then_some((waiting.buffer, Rejection::NoSlack))
        })
    }

    /// d - C of the stages up to the next exit.
    pub fn last_start_of_optional(&self, parked: &OptionalJob) -> Instant {
        let stage = self.tables.row(parked.row).stage;
        parked.due - self.tables.cost_to_answer(parked.task, stage)
    }

    /// The last moment at which starting still makes sense: for what its next stage takes if it
    /// holds an answer, for all that its first answer takes if not.
    pub fn last_start_of_best_effort(&self, waiting: &BestEffortJob) -> Instant {
        if waiting.due == Instant::FAR_FUTURE {
            return Instant::FAR_FUTURE;
        }
        let request = self.life.requests.get(waiting.buffer);
        let table = self.tables.task(request.task);
        if request.holds_answer_from(table.mandatory_exit) {
            return waiting.due - self.tables.cost_to_answer(request.task, request.stage);
        }
        waiting.due - table.work_from(request.stage)
    }
}
