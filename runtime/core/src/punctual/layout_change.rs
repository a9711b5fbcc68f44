//! Changes between layouts: other assignments of tasks to partitions, each of which passed the offline test
//! when the plan was made.
//!
//! That both layouts are schedulable does not suffice. Requests that were promised under the old layout may
//! not fit under the new one together with what its tasks may still release; without that test, plans miss
//! deadlines (`docs/decisions/0007`). So a change is tested at a boundary, and made at once or not at all:
//!
//! 1. Each task that is guaranteed now is guaranteed there, at the present scale. No model is demoted on a partition that
//!    changes.
//! 2. f' is the time by which every action on a partition that changes has ended, plus R.
//! 3. With the costs of the new layout and f' for f, SAFE holds on every partition that changes.
//! 4. Then the promises move, and nothing starts on these partitions before f'.

use crate::actions::Actions;
use crate::ids::PartitionId;
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::punctual::lifecycle::requests::State;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::slack::Reservation;
use crate::punctual::slot::Running;
use crate::time::Instant;

impl Punctual {
    /// Changes to the wanted layout if no promise is at risk. It tries at each boundary: a step in which some
    /// partition has something to decide.
    pub(super) fn consider_layouts(&mut self, actions: &mut Actions) {
        if self.tables.layouts() == 1 {
            return;
        }
        let interval = self.parameters.replan_interval;
        let (tables, load) = (&self.tables, &self.load);
        let target = self.layouts.wanted(self.now, interval, tables, load);
        let boundary = self.partitions.iter().any(Partition::is_dirty);
        if boundary
            && target != self.tables.layout()
            && let Some(opens) = self.may_change(target)
        {
            self.change_layout(target, opens, actions);
        }
    }

    /// f': when the partitions that change would open. `None` if a promise is at risk.
    fn may_change(&mut self, target: usize) -> Option<Instant> {
        self.layouts.compare(&self.tables, target);
        // Condition 1 compares guaranteed sets at one scale level.
        let level = self.layouts.common_level(&self.tables, &self.partitions)?;
        // A joint promise cannot move, because another layout has other batches. An action that was handed
        // over ahead cannot be revoked. A lost action has no known end, so there is no f'. A demoted model has its
        // record on its partition: on another one its tasks would have promises again.
        if self.layouts.changing().any(|index| {
            self.life.queues[index].has_joint_promises()
                || self.partitions[index].profiles.any_demoted()
        }) || self.partitions.iter().any(|p| p.slot.queued().is_some())
            || (0..self.partitions.len()).any(|index| self.partitions.is_locked(index))
        {
            return None;
        }
        // A partition without tasks has no samples, so its scale may be out of date.
        for index in self.layouts.changing() {
            if !self.tables.uses(index) {
                self.tables.set_level(PartitionId(index as u16), level);
                self.partitions[index].scale.set_level(level, self.now);
            }
        }
        // One f' for all: a promise may move from any partition that changes to any other.
        let free = self.layouts.changing();
        let free = free.map(|index| self.partitions.free_from(index, self.now));
        let opens = free.fold(self.now, Instant::max) + self.tables.switch_cost();
        let safe = self.tables.keeps_guarantees(target)
            && (0..self.partitions.len()).all(|index| {
                !self.layouts.changes(index) || self.least_slack_in(target, index, opens) >= 0
            });
        safe.then_some(opens)
    }

    /// S of a partition under another layout, if it is free from `opens` on. Leaves in `moving` the promises
    /// that it would have.
    fn least_slack_in(&mut self, target: usize, index: usize, opens: Instant) -> i64 {
        if self.ablations.has(Ablation::UncheckedChange) {
            return 0;
        }
        let tables = self.tables.tasks_in(target);
        let moving = &mut self.layouts.moving;
        moving.clear();
        for entry in self.life.queues.iter().flat_map(|q| q.mandatory()) {
            let task = self.life.requests.get(entry.buffer).task;
            if tables[task.index()].partition.index() == index {
                // The scan needs EDF order, and promises come from several queues.
                let moved = self.life.moved(entry, target, &self.tables);
                let key = (moved.due, moved.order);
                let at = moving.partition_point(|job| (job.due, job.order) < key);
                moving.insert(at, moved);
            }
        }
        let reserved = tables.iter().zip(self.reservations.all());
        let reserved = reserved
            .filter(|(table, _)| table.guaranteed && table.partition.index() == index)
            .map(|(table, next)| Reservation { table, next });
        let scan = &mut self.scans[index];
        scan.run(self.now, opens, moving, None, reserved);
        scan.least()
    }

    /// Condition 4: moves the promises, and closes the partitions that change until f'.
    fn change_layout(&mut self, target: usize, opens: Instant, actions: &mut Actions) {
        // The promises of all partitions, in place of those of the last test.
        self.layouts.moving.clear();
        for index in 0..self.partitions.len() {
            if !self.layouts.changes(index) {
                continue;
            }
            // f' counts P for best-effort work, so it must be preempted now.
            let running = self.partitions[index].slot.running();
            if running.is_some_and(Running::is_preemptable) {
                self.preempt(index, actions);
            }
            let moving = &mut self.layouts.moving;
            self.life.leave(index, target, &self.tables, moving);
            self.partitions[index].close_until(opens);
            self.partitions.inherit_excess(index);
        }
        // Each queue is emptied under the old layout and filled under the new one.
        let from = self.tables.layout();
        self.tables.set_layout(target);
        self.life.enter(&mut self.layouts.moving, &self.tables);
        debug_assert!(self.layouts.moving.is_empty(), "every promise has moved");
        let left = self.tables.tasks_in(from);
        // Requests without a promise have lost their queue entries, and wait in the new layout.
        for buffer in 0..self.life.requests.buffers() {
            let request = self.life.requests.get(buffer);
            let waits = matches!(request.state, State::Optional | State::BestEffort);
            let table = &left[request.task.index()];
            if waits && self.layouts.changes(table.partition.index()) {
                self.life.put_back(buffer, &self.tables);
            }
        }
        // The loads of the partitions follow their tasks.
        self.partitions.update_loads(&self.tables, &self.load);
    }
}

impl Partitions {
    /// A partition that shares compute units with a busy one begins with the excess of that one: the kernel
    /// counts the time of the cores, whichever partition used it.
    fn inherit_excess(&mut self, index: usize) {
        let mut cap = self[index].cap;
        for other in self[index].overlapping() {
            cap.at_least(&self[usize::from(*other)].cap);
        }
        self[index].cap = cap;
    }
}
