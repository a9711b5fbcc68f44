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
//!
//! Which layout is wanted: the one whose fullest partition is least full, at the arrivals of the
//! last second, each as deep as it can go.

use crate::actions::Actions;
use crate::ids::PartitionId;
use crate::punctual::Punctual;
use crate::punctual::ablation::Ablation;
use crate::punctual::partition::Partition;
use crate::punctual::queues::Pending;
use crate::punctual::requests::State;
use crate::punctual::slack::Reservation;
use crate::punctual::slot::Running;
use crate::time::{Instant, Nanos};

/// A layout is wanted only if its fullest partition is at most this part as full as now, in
/// eighths: a change costs time, and demand fluctuates.
const WORTHWHILE_EIGHTHS: u64 = 7;

impl Punctual {
    /// At a boundary: thinks again which layout is wanted, if it is time, and changes to it, if
    /// that endangers nothing. Otherwise it is tried again at the next boundary.
    pub(crate) fn consider_layouts(&mut self, actions: &mut Actions) {
        if self.tables.layouts() == 1 {
            return;
        }
        if self.now >= self.thinks_again {
            self.thinks_again = self.now + self.parameters.replan_interval;
            self.wanted_layout = self.best_layout();
        }
        let boundary = self.partitions.iter().any(Partition::is_touched);
        if boundary && self.wanted_layout != self.tables.layout() {
            self.change_layout(self.wanted_layout, actions);
        }
    }

    /// For tests: wants a layout whatever the demand is.
    #[cfg(test)]
    pub(crate) fn want_layout(&mut self, layout: usize) {
        self.wanted_layout = layout;
        self.thinks_again = Instant::FAR_FUTURE;
    }

    /// The layout whose fullest partition is least full; the present one unless another is clearly better.
    fn best_layout(&self) -> usize {
        let present = self.tables.layout();
        let fullness = |layout: usize| {
            let full = (0..self.partitions.len()).map(|index| self.demand(layout, index));
            full.max().unwrap_or(Nanos::ZERO)
        };
        let best = (0..self.tables.layouts()).min_by_key(|&layout| fullness(layout));
        let worthwhile = fullness(present).as_nanos() / 8 * WORTHWHILE_EIGHTHS;
        best.filter(|&best| fullness(best).as_nanos() < worthwhile)
            .unwrap_or(present)
    }

    /// The work that arrived in the last second for a partition under a layout.
    fn demand(&self, layout: usize, index: usize) -> Nanos {
        let tables = self.tables.tasks_in(layout).iter().enumerate();
        let here = tables.filter(|(_, table)| table.partition.index() == index);
        let work = here.map(|(task, table)| {
            let whole = self.tables.rows_of(table).iter();
            let whole = whole.fold(Nanos::ZERO, |sum, row| sum + row.cost_alone());
            whole.saturating_mul(self.load.per_second(task))
        });
        work.fold(Nanos::ZERO, |sum, work| sum + work)
    }

    fn change_layout(&mut self, target: usize, actions: &mut Actions) {
        for index in 0..self.partitions.len() {
            self.partitions[index].changes = self.changes(target, index);
        }
        let Some(level) = self.common_level() else {
            return;
        };
        if self.has_joint_promises() || self.partitions.iter().any(|p| p.slot.queued().is_some()) {
            return;
        }
        // A lost action is never over: there is no f'.
        if (0..self.partitions.len()).any(|index| self.partitions.is_locked(index)) {
            return;
        }
        for index in 0..self.partitions.len() {
            if self.partitions[index].changes && !self.is_used(self.tables.layout(), index) {
                self.tables.set_level(PartitionId(index as u16), level);
                self.partitions[index].speed.set_level(level, self.now);
            }
        }
        let opens = self.opens_after_change();
        if self.keeps_guarantees(target) && self.is_safe_after_change(target, opens) {
            self.commit(target, opens, actions);
        }
    }

    /// Joint promises are kept where they were made: another layout has other batches.
    fn has_joint_promises(&self) -> bool {
        let changing = self.partitions.iter().filter(|p| p.changes);
        let mut pending = changing.flat_map(|p| p.queues.promised().iter());
        pending.any(|entry| entry.joint && !entry.running)
    }

    /// Whether a partition has other tasks under `target` than now.
    fn changes(&self, target: usize, index: usize) -> bool {
        let now = self.tables.tasks_in(self.tables.layout());
        let then = self.tables.tasks_in(target);
        let here = |partition: PartitionId| partition.index() == index;
        let mut tasks = now.iter().zip(then);
        tasks.any(|(a, b)| here(a.partition) != here(b.partition))
    }

    fn is_used(&self, layout: usize, index: usize) -> bool {
        let mut tasks = self.tables.tasks_in(layout).iter();
        tasks.any(|table| table.partition.index() == index)
    }

    /// The scale level of the partitions that change; `None` while they differ.
    fn common_level(&self) -> Option<usize> {
        let present = self.tables.layout();
        let partitions = self.partitions.iter().enumerate();
        let used = partitions.filter(|(index, p)| p.changes && self.is_used(present, *index));
        let mut levels = used.map(|(_, p)| p.speed.level());
        let first = levels.next()?;
        levels.all(|level| level == first).then_some(first)
    }

    /// Condition 1.
    fn keeps_guarantees(&self, target: usize) -> bool {
        let now = self.tables.tasks().iter();
        let mut pairs = now.zip(self.tables.tasks_in(target));
        pairs.all(|(now, then)| then.guaranteed || !now.guaranteed)
    }

    /// Condition 2: f'.
    fn opens_after_change(&self) -> Instant {
        let changing = (0..self.partitions.len()).filter(|&index| self.partitions[index].changes);
        let free = changing.map(|index| self.partitions.free_from(index, self.now));
        free.fold(self.now, Instant::max) + self.tables.switch_cost()
    }

    /// Condition 3.
    fn is_safe_after_change(&mut self, target: usize, opens: Instant) -> bool {
        let unchecked = self.ablated(Ablation::UncheckedChange);
        (0..self.partitions.len()).all(|index| {
            unchecked
                || !self.partitions[index].changes
                || self.least_slack_in(target, index, opens) >= 0
        })
    }

    /// S of a partition under another layout, if it is free from `opens` on.
    fn least_slack_in(&mut self, target: usize, index: usize, opens: Instant) -> i64 {
        self.moving.clear();
        for entry in self
            .partitions
            .iter()
            .flat_map(|p| p.queues.promised().iter())
        {
            let task = self.requests.get(entry.buffer).task;
            if self.tables.tasks_in(target)[task.index()].partition.index() == index {
                let moved = self.moved(entry, target);
                let key = (moved.due, moved.order);
                let at = self.moving.partition_point(|p| (p.due, p.order) < key);
                self.moving.insert(at, moved);
            }
        }
        let tables = self.tables.tasks_in(target).iter();
        let tables = tables.zip(self.reservations.all());
        let reserved = tables
            .filter(|(table, _)| table.guaranteed && table.partition.index() == index)
            .map(|(table, next)| Reservation { table, next });
        let scan = &mut self.partitions[index].scan;
        scan.run(self.now, opens, &self.moving, None, reserved);
        scan.least()
    }

    /// A promise as another layout sees it.
    fn moved(&self, entry: &Pending, target: usize) -> Pending {
        let request = self.requests.get(entry.buffer);
        let table = &self.tables.tasks_in(target)[request.task.index()];
        let left_from = if entry.running {
            request.stage.next()
        } else {
            request.stage
        };
        Pending {
            row: self.tables.row_of(table, request.stage),
            work: table.work_from(left_from),
            rest: table.work_from(request.stage.next()),
            ..*entry
        }
    }

    /// 4.
    fn commit(&mut self, target: usize, opens: Instant, actions: &mut Actions) {
        self.moving.clear();
        for index in 0..self.partitions.len() {
            if !self.partitions[index].changes {
                continue;
            }
            let running = self.partitions[index].slot.running();
            if running.is_some_and(Running::is_stoppable) {
                self.preempt(index, actions);
            }
            while let Some(entry) = self.partitions[index].queues.pop_promise() {
                let moved = self.moved(&entry, target);
                self.moving.push(moved);
            }
            self.partitions[index].close_until(opens);
            self.inherit_share(index);
        }
        let from = self.tables.layout();
        self.tables.set_layout(target);
        while let Some(entry) = self.moving.pop() {
            let task = self.requests.get(entry.buffer).task;
            let index = self.tables.task(task).partition.index();
            self.partitions[index].queues.promise(entry);
        }
        self.enlist_again(from);
        self.weigh();
    }

    /// Puts the requests that wait on changing partitions for other than promised work into the
    /// lists of the new ones.
    fn enlist_again(&mut self, from: usize) {
        for buffer in 0..self.requests.buffers() {
            let request = *self.requests.get(buffer);
            if matches!(request.state, State::Parked | State::Waiting) {
                let old = self.tables.tasks_in(from)[request.task.index()].partition;
                if self.partitions[old.index()].changes {
                    self.requeue(old.index(), buffer);
                }
            }
        }
    }

    /// A partition that shares compute units with a busy one begins with its excess.
    fn inherit_share(&mut self, index: usize) {
        let mut share = self.partitions[index].share;
        for other in self.partitions[index].overlapping() {
            share.at_least(&self.partitions[usize::from(*other)].share);
        }
        self.partitions[index].share = share;
    }
}
