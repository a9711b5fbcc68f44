//! Work that runs longer than its budget: believing it, making the offender pay, and dropping
//! what can no longer be kept.
//!
//! After an overrun the guarantee is void until every slack is positive again. Meanwhile optional
//! work, best-effort work, batches and extras stop by themselves, because each must pass the
//! slack test. What is already promised is served on in EDF order, and a request is dropped only
//! if otherwise one that is worth more would be late for certain (at budgets): dropping for the
//! sake of a reserved request that may never arrive would punish a small overrun by a loss.

use crate::action::{Failure, Verdict};
use crate::actions::Actions;
use crate::event::Finished;
use crate::punctual::Punctual;
use crate::punctual::ledger::Note;
use crate::punctual::queues::Pending;
use crate::punctual::slot::Running;
use crate::punctual::speed::Change;
use crate::time::{Instant, Nanos};

impl Punctual {
    /// Moves f of an action that should have ended.
    pub(crate) fn watch_overrun(&mut self, index: usize, actions: &mut Actions) {
        let slot = &mut self.partitions[index].slot;
        let Some(members) = slot.extend(self.now, &self.tables) else {
            return;
        };
        for id in members {
            let origin = self.requests.get(id.buffer).origin;
            self.ledger.note(origin, Note::Overran);
        }
        self.shed(index, actions);
        // Those that wait for the same compute units under a new layout.
        for other in 0..self.partitions[index].overlapping().len() {
            let other = usize::from(self.partitions[index].overlapping()[other]);
            self.shed(other, actions);
        }
    }

    /// Books what a finished real-time action took: its tasks pay for an overrun, and the
    /// partition's scale follows lasting slowness.
    pub(crate) fn settle(
        &mut self,
        index: usize,
        running: &Running,
        finished: &Finished,
        actions: &mut Actions,
    ) {
        let row = self.tables.row(running.row);
        let (raw, cost) = (row.budget[running.size], row.cost[running.size]);
        let budget = cost.saturating_sub(self.tables.dispatch_cost());
        // Both must be exceeded: a stage that ran too long but ended before its promised time
        // took nothing from anybody; a report that came late is not the task's doing.
        let overrun = self
            .now
            .since(running.promised)
            .min(finished.measured.saturating_sub(budget));
        if overrun > Nanos::ZERO {
            let share = Nanos::new(overrun.as_nanos().div_ceil(running.members.len() as u64));
            for id in &running.members {
                let request = *self.requests.get(id.buffer);
                if !running.overran {
                    self.ledger.note(request.origin, Note::Overran);
                }
                let (task, table) = (request.task, self.tables.task(request.task));
                self.reservations.put_in_debt(task, table, share, self.now);
            }
        }
        if finished.measured > budget {
            self.note_worst(running, finished.measured, raw);
        }
        if !self.book_conduct(index, running, finished, actions) {
            return;
        }
        match self.partitions[index]
            .speed
            .sample(finished.measured, raw, self.now)
        {
            Change::None => {}
            Change::Raise(level) => self.change_level(index, level),
            Change::MayLower(level) => {
                let present = self.partitions[index].speed.level();
                self.change_level(index, level);
                self.scan(index, self.now, None);
                if self.partitions[index].scan.least() < 0 {
                    self.change_level(index, present);
                }
            }
        }
    }

    /// Keeps the worst ratio of a stage's time to its budget, of those whose stage it was.
    fn note_worst(&mut self, running: &Running, measured: Nanos, budget: Nanos) {
        let ratio = u128::from(measured.as_nanos()) * 1_000 / u128::from(budget.as_nanos().max(1));
        let ratio = u64::try_from(ratio).unwrap_or(u64::MAX);
        for id in &running.members {
            let origin = self.requests.get(id.buffer).origin;
            self.ledger.note(origin, Note::Took(ratio));
        }
    }

    fn change_level(&mut self, index: usize, level: usize) {
        let partition = crate::ids::PartitionId(index as u16);
        self.tables.set_level(partition, level);
        self.partitions[index].speed.set_level(level, self.now);
        let queues = &mut self.partitions[index].queues;
        queues.rescale(&self.requests, &self.tables);
    }

    /// Drops requests until no pending one is late for certain that is worth more than one that
    /// could be dropped for it. True if any was dropped.
    ///
    /// Worth, rising: those that are late for certain themselves, extras (those with most work
    /// left first), reserved requests of a task in debt, other reserved requests. A late request
    /// that harms nobody stays: it is answered late, not silently dropped.
    pub(crate) fn shed(&mut self, index: usize, actions: &mut Actions) -> bool {
        self.partitions[index].queues.forget_late();
        let mut dropped = false;
        let free = self.partitions.free_from(index, self.now);
        // Each turn drops or marks one request.
        while let Some(at) = self.first_late(index, free) {
            let worth_of_late = self.worth(&self.partitions[index].queues.promised()[at]);
            match self.least_worth(index, at) {
                Some(victim)
                    if self.worth(&self.partitions[index].queues.promised()[victim])
                        < worth_of_late =>
                {
                    let entry = self.partitions[index].queues.promised()[victim];
                    self.remove_pending(index, entry.buffer);
                    self.conclude(entry.buffer, Verdict::Failed(Failure::Shed), actions);
                    dropped = true;
                }
                _ => self.partitions[index].queues.mark_late(at),
            }
        }
        dropped
    }

    /// The first pending request, not yet known to be late, that is late if all take their
    /// budgets in EDF order from `free` on.
    fn first_late(&self, index: usize, free: Instant) -> Option<usize> {
        let mut end = free;
        self.partitions[index]
            .queues
            .promised()
            .iter()
            .position(|entry| {
                end = end + entry.work;
                end > entry.due && !entry.late
            })
    }

    /// The request of least worth among those up to `at` in EDF order that are not running.
    fn least_worth(&self, index: usize, at: usize) -> Option<usize> {
        let pending = &self.partitions[index].queues.promised()[..=at];
        (0..pending.len())
            .filter(|&i| !pending[i].running)
            .min_by_key(|&i| {
                let most_work_first = u64::MAX - pending[i].work.as_nanos();
                (self.worth(&pending[i]), most_work_first)
            })
    }

    fn worth(&self, entry: &Pending) -> u8 {
        let task = self.requests.get(entry.buffer).task;
        match entry {
            entry if entry.late => 0,
            entry if entry.extra => 1,
            _ if self.reservations.is_in_debt(task, self.now) => 2,
            _ => 3,
        }
    }
}
