//! Work that runs longer than its budget: f moves, the debt of the task pays for it, and requests are dropped
//! for others of higher value.
//!
//! After an overrun the guarantee is void until every slack is positive again. Until then optional work,
//! batches and extras fail their own slack tests. Promised work continues in EDF order. A request is dropped
//! only if another of higher value would otherwise certainly be late, at budgets. To drop one for a reserved
//! request that may never arrive would turn a small overrun into a loss.

use crate::action::{Failure, Verdict};
use crate::actions::Actions;
use crate::ids::PartitionId;
use crate::punctual::Punctual;
use crate::punctual::lifecycle::ledger::Note;
use crate::punctual::lifecycle::queues::MandatoryJob;
use crate::punctual::profile_monitor::{Measured, ProfileOutcome};
use crate::punctual::scale::Change;
use crate::punctual::slot::{Kind, Running};
use crate::time::Nanos;

impl Punctual {
    /// Counts the actions that should have ended by now, and drops requests if promises of higher value need it.
    pub(super) fn watch_overruns(&mut self, actions: &mut Actions) {
        for index in 0..self.partitions.len() {
            let partition = &mut self.partitions[index];
            let running = partition.slot().running();
            if !partition.is_dirty() || !running.is_some_and(|r| r.is_overdue(self.now)) {
                continue;
            }
            if let Some(running) = partition.count_overrun(self.now) {
                self.life.note_all(&running.members, Note::Overran);
                // It no longer waits for this action.
                let home = running.home;
                self.partitions[home].mark_dirty();
            }
            self.drop_less_valuable(index, actions);
            // Other partitions may wait for the same compute units: their f moves, too.
            for other in 0..self.partitions[index].overlapping().len() {
                let other = usize::from(self.partitions[index].overlapping()[other]);
                self.drop_less_valuable(other, actions);
            }
        }
    }

    /// Applies the measured time of a real-time action: its tasks pay for an overrun, the profile monitor
    /// judges its model, and the scale of the partition follows lasting slowness.
    pub(super) fn settle(
        &mut self,
        index: usize,
        running: &Running,
        measured: Nanos,
        actions: &mut Actions,
    ) {
        debug_assert_ne!(
            running.kind,
            Kind::BestEffort,
            "no promise depends on the times of best-effort stages"
        );
        let row = self.tables.row(running.row);
        let (model, raw) = (row.model, row.budget[running.size]);
        // The cost is scaled budget plus δ, and the measured time excludes the dispatch.
        let budget = row.cost[running.size].saturating_sub(self.tables.dispatch_cost());
        // The lesser of both counts. A stage that ran too long and yet ended by its promised time took no
        // time from others. A report that came late is not caused by the task.
        let late = self.now.since(running.until);
        let overrun = late.min(measured.saturating_sub(budget));
        if overrun > Nanos::ZERO {
            // An action that overran while it ran was counted then.
            if !running.overran {
                self.life.note_all(&running.members, Note::Overran);
            }
            // The members pay equal parts, rounded up, so that all of the overrun is paid.
            let part = Nanos::new(overrun.as_nanos().div_ceil(running.members.len() as u64));
            for id in &running.members {
                let task = self.life.requests.get(id.buffer).task;
                let table = self.tables.task(task);
                self.reservations
                    .charge_overrun(task, table, part, self.now);
            }
        }
        if !running.as_measured {
            // General solutions take their time: that says nothing of the profile, nor of the machine.
            return self.readiness.ran(model, measured, raw);
        }
        if measured > budget {
            // In thousandths of the profiled budget, which an operator can compare with the profile. At least
            // 1 ns, as a budget of zero has no ratio.
            let ratio = u128::from(measured.as_nanos()) * 1_000 / u128::from(raw.as_nanos().max(1));
            let ratio = u64::try_from(ratio).unwrap_or(u64::MAX);
            self.life.note_all(&running.members, Note::Took(ratio));
        }
        if self.parameters.demotion {
            let parameters = &self.parameters;
            let stage = Measured {
                took: measured,
                budget: raw,
                overran: measured > budget,
            };
            // Before the scale: if the model caused the overrun, the machine is not slow, and other models
            // must not pay by longer budgets.
            let monitor = self.partitions[index].profiles_mut();
            match monitor.assess(model, stage, parameters, self.now) {
                ProfileOutcome::Learn => {}
                ProfileOutcome::Ignore => return,
                ProfileOutcome::Demote(overrun_record) => {
                    return self.demote(index, model, overrun_record, actions);
                }
                ProfileOutcome::Reinstate => return self.reinstate(index, model, actions),
            }
        }
        self.update_scale(index, measured, raw);
    }

    /// Raises the scale of a partition that has become slower. Lowers it again if all promises hold then.
    fn update_scale(&mut self, index: usize, measured: Nanos, budget: Nanos) {
        let present = self.partitions[index].level();
        match self.partitions[index].sample(measured, budget, self.now) {
            Change::None => {}
            // Without a test: the machine is slower, whatever was promised.
            Change::Raise(level) => self.set_scale(index, level),
            // A lower scale guarantees more tasks again, so F may rise while budgets fall. Only a scan
            // tells whether SAFE holds there.
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

    /// Sets the scale, and the work of the pending requests at that scale.
    fn set_scale(&mut self, index: usize, level: usize) {
        self.partitions[index].set_level(level, self.now);
        self.tables.set_level(PartitionId(index as u16), level);
        self.set_levels_of_places();
        self.tables.find_soonest(&self.places);
        // Their requests may reach their next exit later, as the costs of places have changed.
        for home in self.places.homes() {
            self.partitions[home].mark_dirty();
        }
        let requests = &self.life.requests;
        self.life.queues[index].rescale(requests, &self.tables);
    }

    /// A place is at the highest level of all homes and of its own: where no stage ran since the machine became
    /// slow, its budgets would be too short.
    fn set_levels_of_places(&mut self) {
        let homes = self.places.homes().map(|home| self.tables.level(home));
        let highest = homes.max().unwrap_or(0);
        for place in self.places.beside_homes() {
            let level = self.partitions[place].level().max(highest);
            if self.tables.level(place) != level {
                self.tables.set_level(PartitionId(place as u16), level);
            }
        }
    }

    /// Drops requests until no pending one is certainly late because of another one of lower value. True if
    /// it dropped any.
    ///
    /// The values, rising: requests that are certainly late themselves; extras, those with most work left
    /// first; reserved requests of a task in debt, which overran; other reserved requests. A late request
    /// that delays no other one stays: a late answer is better than a dropped request.
    pub(super) fn drop_less_valuable(&mut self, index: usize, actions: &mut Actions) -> bool {
        let free = self.view(index).free_from();
        let mut dropped = false;
        // The marks of an earlier call are out of date.
        self.life.queues[index].clear_late();
        loop {
            let reservations = &self.reservations;
            let value = |job: &MandatoryJob| match job {
                job if job.late => 0,
                job if job.extra => 1,
                job => 2 + u8::from(!reservations.is_in_debt(job.task, self.now)),
            };
            let Some(buffer) = self.life.queues[index].next_to_drop(free, value) else {
                return dropped;
            };
            self.life.end_promise(buffer, &self.tables);
            let verdict = Verdict::Failed(Failure::Shed);
            self.life.finish(buffer, verdict, actions);
            dropped = true;
        }
    }
}
