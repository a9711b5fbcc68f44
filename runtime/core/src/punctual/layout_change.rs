//! Changing between layouts: other assignments of tasks to partitions, each of which passed the
//! offline test when the plan was made.
//!
//! That both layouts are schedulable is not enough for a change: what is promised under the old
//! one may not fit under the new one beside what its tasks may still release. So a change is tried
//! at a boundary and made at once or not at all:
//!
//! 1. each task that is guaranteed now is guaranteed there, at the present scale;
//! 2. f' is the time by which every action on a partition that changes has ended, plus R;
//! 3. with the costs of the new layout and f' for f, SAFE holds on every partition that changes;
//! 4. then the promises move, and nothing starts on those partitions before f'.

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
    /// At a boundary: thinks again which layout is wanted, if it is time, and changes to it, if
    /// that endangers nothing. Otherwise it is tried again at the next boundary.
    pub(super) fn consider_layouts(&mut self, actions: &mut Actions) {
        if self.tables.layouts() == 1 {
            return;
        }
        let interval = self.parameters.replan_interval;
        let (tables, load) = (&self.tables, &self.load);
        let target = self.layouts.wanted(self.now, interval, tables, load);
        let boundary = self.partitions.iter().any(Partition::is_touched);
        if boundary
            && target != self.tables.layout()
            && let Some(opens) = self.may_change(target)
        {
            self.change_layout(target, opens, actions);
        }
    }

    /// When the partitions that change would open, if the change endangers nothing: f'.
    fn may_change(&mut self, target: usize) -> Option<Instant> {
        self.layouts.compare(&self.tables, target);
        let level = self.layouts.common_level(&self.tables, &self.partitions)?;
        // Joint promises are kept where they were made: another layout has other batches. What was
        // handed over ahead cannot be taken back, and a lost action is never over: there is no f'.
        if self
            .layouts
            .changing()
            .any(|index| self.life.queues[index].has_joint_promises())
            || self.partitions.iter().any(|p| p.slot.queued().is_some())
            || (0..self.partitions.len()).any(|index| self.partitions.is_locked(index))
        {
            return None;
        }
        for index in self.layouts.changing() {
            if !self.tables.uses(index) {
                self.tables.set_level(PartitionId(index as u16), level);
                self.partitions[index].scale.set_level(level, self.now);
            }
        }
        let free = self.layouts.changing();
        let free = free.map(|index| self.partitions.free_from(index, self.now));
        let opens = free.fold(self.now, Instant::max) + self.tables.switch_cost();
        let safe = self.tables.keeps_guarantees(target)
            && (0..self.partitions.len()).all(|index| {
                !self.layouts.changes(index) || self.least_slack_in(target, index, opens) >= 0
            });
        safe.then_some(opens)
    }

    /// S of a partition under another layout, if it is free from `opens` on.
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
                let moved = self.life.moved(entry, target, &self.tables);
                let key = (moved.due, moved.order);
                let at = moving.partition_point(|p| (p.due, p.order) < key);
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

    /// 4.
    fn change_layout(&mut self, target: usize, opens: Instant, actions: &mut Actions) {
        self.layouts.moving.clear();
        for index in 0..self.partitions.len() {
            if !self.layouts.changes(index) {
                continue;
            }
            let running = self.partitions[index].slot.running();
            if running.is_some_and(Running::is_stoppable) {
                self.preempt(index, actions);
            }
            let moving = &mut self.layouts.moving;
            self.life.leave(index, target, &self.tables, moving);
            self.partitions[index].close_until(opens);
            self.partitions.inherit_share(index);
        }
        let from = self.tables.layout();
        self.tables.set_layout(target);
        self.life.enter(&mut self.layouts.moving, &self.tables);
        let left = self.tables.tasks_in(from);
        for buffer in 0..self.life.requests.buffers() {
            let request = self.life.requests.get(buffer);
            let waits = matches!(request.state, State::Optional | State::BestEffort);
            let table = &left[request.task.index()];
            if waits && self.layouts.changes(table.partition.index()) {
                self.life.put_back(buffer, &self.tables);
            }
        }
        self.partitions.weigh(&self.tables, &self.load);
    }
}

impl Partitions {
    /// A partition that shares compute units with a busy one begins with its excess.
    fn inherit_share(&mut self, index: usize) {
        let mut share = self[index].cap;
        for other in self[index].overlapping() {
            share.at_least(&self[usize::from(*other)].cap);
        }
        self[index].cap = share;
    }
}
