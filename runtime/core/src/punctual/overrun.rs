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
use crate::ids::PartitionId;
use crate::punctual::Punctual;
use crate::punctual::lifecycle::ledger::Note;
use crate::punctual::lifecycle::queues::MandatoryJob;
use crate::punctual::profile_monitor::Judgement;
use crate::punctual::scale::Change;
use crate::punctual::slot::Running;
use crate::time::Nanos;

impl Punctual {
    /// Moves f of an action that should have ended.
    pub(super) fn watch_overrun(&mut self, index: usize, actions: &mut Actions) {
        let slot = &mut self.partitions[index].slot;
        let Some(members) = slot.extend(self.now, &self.tables) else {
            return;
        };
        self.life.note_all(members, Note::Overran);
        self.drop_hopeless(index, actions);
        // Those that wait for the same compute units under a new layout.
        for other in 0..self.partitions[index].overlapping().len() {
            let other = usize::from(self.partitions[index].overlapping()[other]);
            self.drop_hopeless(other, actions);
        }
    }

    /// Applies what a finished real-time action took: its tasks pay for an overrun, its model is judged
    /// by it, and the partition's scale follows lasting slowness.
    pub(super) fn settle(
        &mut self,
        index: usize,
        running: &Running,
        measured: Nanos,
        actions: &mut Actions,
    ) {
        let row = self.tables.row(running.row);
        let (model, raw) = (row.model, row.budget[running.size]);
        let budget = row.cost[running.size].saturating_sub(self.tables.dispatch_cost());
        // Both must be exceeded: a stage that ran too long but ended before its promised time
        // took nothing from anybody; a report that came late is not the task's doing.
        let late = self.now.since(running.promised);
        let overrun = late.min(measured.saturating_sub(budget));
        if overrun > Nanos::ZERO {
            if !running.overran {
                self.life.note_all(&running.members, Note::Overran);
            }
            let share = Nanos::new(overrun.as_nanos().div_ceil(running.members.len() as u64));
            for id in &running.members {
                let task = self.life.requests.get(id.buffer).task;
                let table = self.tables.task(task);
                self.reservations.put_in_debt(task, table, share, self.now);
            }
        }
        if measured > budget {
            let ratio = u128::from(measured.as_nanos()) * 1_000 / u128::from(raw.as_nanos().max(1));
            let ratio = u64::try_from(ratio).unwrap_or(u64::MAX);
            self.life.note_all(&running.members, Note::Took(ratio));
        }
        if self.parameters.demotion {
            let (overran, parameters) = (measured > budget, &self.parameters);
            let conduct = &mut self.partitions[index].profiles;
            match conduct.judge(model, (measured, raw), overran, parameters, self.now) {
                Judgement::Learn => {}
                Judgement::Ignore => return,
                Judgement::Demote(offence) => return self.demote(index, model, offence, actions),
                Judgement::Reinstate => return self.reinstate(index, model, actions),
            }
        }
        self.follow_speed(index, measured, raw);
    }

    /// Raises the scale of a partition that has become slower; lowers it again if all promises hold.
    fn follow_speed(&mut self, index: usize, measured: Nanos, budget: Nanos) {
        let present = self.partitions[index].scale.level();
        let speed = &mut self.partitions[index].scale;
        match speed.sample(measured, budget, self.now) {
            Change::None => {}
            Change::Raise(level) => self.set_scale(index, level),
            Change::MayLower(level) => {
                self.set_scale(index, level);
                let (view, scan) = self.look(index);
                view.scan(scan, view.now, None);
                if scan.least() < 0 {
                    self.set_scale(index, present);
                }
            }
        }
    }

    fn set_scale(&mut self, index: usize, level: usize) {
        self.tables.set_level(PartitionId(index as u16), level);
        self.partitions[index].scale.set_level(level, self.now);
        let requests = &self.life.requests;
        self.life.queues[index].rescale(requests, &self.tables);
    }

    /// Drops requests until no pending one is late for certain that is worth more than one that
    /// could be dropped for it. True if any was dropped.
    ///
    /// Worth, rising: those that are late for certain themselves, extras (those with most work
    /// left first), reserved requests of a task in debt, other reserved requests. A late request
    /// that harms nobody stays: it is answered late, not silently dropped.
    pub(super) fn drop_hopeless(&mut self, index: usize, actions: &mut Actions) -> bool {
        let free = self.partitions.free_from(index, self.now);
        let mut dropped = false;
        self.life.queues[index].forget_late();
        loop {
            let (requests, reservations) = (&self.life.requests, &self.reservations);
            let worth = |entry: &MandatoryJob| match entry {
                entry if entry.late => 0,
                entry if entry.extra => 1,
                entry => {
                    let task = requests.get(entry.buffer).task;
                    2 + u8::from(!reservations.is_in_debt(task, self.now))
                }
            };
            let Some(buffer) = self.life.queues[index].least_worth(free, worth) else {
                return dropped;
            };
            self.life.end_promise(buffer, &self.tables);
            let verdict = Verdict::Failed(Failure::Shed);
            self.life.finish(buffer, verdict, actions);
            dropped = true;
        }
    }
}
