//! The choice of a layout: of those that are meant for the present load, the one whose fullest partition is least
//! full, if all requests that arrived within the last second run to their last exit. The load counts requests one at
//! a time and not in batches (docs/results/layouts.md has the effect).
//!
//! A layout may have a range of loads for which it is meant. All ranges are of one load, that of the first layout, so
//! that the choice does not depend on the present layout, and a change does not cause the next one.

use alloc::boxed::Box;

use crate::bounded::List;
use crate::config::{Config, LoadRange};
use crate::ids::PartitionId;
use crate::punctual::lifecycle::queues::MandatoryJob;
use crate::punctual::load::Load;
use crate::punctual::partition::Partitions;
use crate::punctual::tables::Tables;
use crate::time::{Instant, Nanos};

/// A layout is wanted only if its fullest partition is less than 7/8 as full as the fullest one now. A change
/// costs time, and the load fluctuates.
const WORTHWHILE_EIGHTHS: u64 = 7;

/// Arrivals are counted over one second: this much work takes a thousandth of a partition's time.
const NANOS_OF_THOUSANDTH: u64 = 1_000_000;

/// The wanted layout, and the scratch memory of a change to it.
#[derive(Clone, Debug)]
pub struct Layouts {
    /// By layout: the load for which it is meant. The first is meant for any load.
    ranges: Box<[Option<LoadRange>]>,
    wanted: usize,
    /// When the next choice is due.
    next_choice: Instant,
    /// By partition: whether it has other tasks under the layout that is tested.
    changes: Box<[bool]>,
    /// Promises with the costs of that layout.
    pub moving: List<MandatoryJob>,
}

impl Layouts {
    pub fn new(config: &Config) -> Self {
        let others = config.layouts.iter().map(|layout| layout.load);
        Self {
            ranges: core::iter::once(None).chain(others).collect(),
            wanted: 0,
            next_choice: Instant::ZERO,
            changes: alloc::vec![false; config.partitions.len()].into(),
            // All open requests may be promised.
            moving: List::with_capacity(usize::from(config.request_buffers)),
        }
    }

    /// For tests: wants a layout whatever the load is.
    #[cfg(test)]
    pub fn want(&mut self, layout: usize) {
        (self.wanted, self.next_choice) = (layout, Instant::FAR_FUTURE);
    }

    /// The wanted layout. It is chosen every `interval`.
    pub fn wanted(&mut self, now: Instant, interval: Nanos, tables: &Tables, load: &Load) -> usize {
        if now >= self.next_choice {
            self.next_choice = now + interval;
            self.wanted = self.best(tables, load);
        }
        self.wanted
    }

    /// Of the layouts that are meant for the load, the one whose fullest partition is least full. The present one,
    /// unless another is clearly better.
    fn best(&self, tables: &Tables, load: &Load) -> usize {
        let peak = |layout: usize| tables.peak(load, layout, self.changes.len());
        let present = tables.layout();
        let all = 0..self.ranges.len();
        let full = peak(0).as_nanos() / NANOS_OF_THOUSANDTH;
        let meant = |layout: usize| {
            self.ranges[layout].is_some_and(|range| {
                if layout == present {
                    // The counts forget an eighth of a second at once, so a constant load seems to fluctuate by that.
                    range.nearly_holds(full)
                } else {
                    range.holds(full)
                }
            })
        };
        let any = all.clone().any(meant);
        let is_candidate = |layout: usize| {
            if any {
                meant(layout)
            } else {
                self.ranges[layout].is_none()
            }
        };
        let candidates = all.filter(|&layout| is_candidate(layout));
        // The first layout has no range, so there is one.
        let best = candidates.min_by_key(|&layout| peak(layout)).unwrap_or(0);
        // Divided first: the product of a saturated demand would wrap around.
        let worthwhile = peak(present).as_nanos() / 8 * WORTHWHILE_EIGHTHS;
        if is_candidate(present) && peak(best).as_nanos() >= worthwhile {
            present
        } else {
            best
        }
    }

    /// Records which partitions have other tasks under `target` than now.
    pub fn compare(&mut self, tables: &Tables, target: usize) {
        for (index, changes) in self.changes.iter_mut().enumerate() {
            let here = |partition: PartitionId| partition.index() == index;
            let mut tasks = tables.tasks().iter().zip(tables.tasks_in(target));
            *changes = tasks.any(|(now, then)| here(now.partition) != here(then.partition));
        }
    }

    /// The partitions that have other tasks, as recorded by `compare`.
    pub fn changing(&self) -> impl Iterator<Item = usize> {
        let changes = self.changes.iter().enumerate();
        changes.filter_map(|(index, &changes)| changes.then_some(index))
    }

    pub fn changes(&self, index: usize) -> bool {
        self.changes[index]
    }

    /// The scale level of all partitions that change. `None` while they differ: the guaranteed sets of
    /// different levels cannot be compared.
    pub fn common_level(&self, tables: &Tables, partitions: &Partitions) -> Option<usize> {
        let used = self.changing().filter(|&index| tables.uses(index));
        let mut levels = used.map(|index| partitions[index].scale.level());
        let first = levels.next()?;
        levels.all(|level| level == first).then_some(first)
    }
}

impl Tables {
    /// The work of a layout's fullest partition.
    fn peak(&self, load: &Load, layout: usize, partitions: usize) -> Nanos {
        let demands = (0..partitions).map(|index| self.demand(load, layout, index));
        demands.max().unwrap_or(Nanos::ZERO)
    }

    /// The work that arrived within the last second for a partition under a layout, if each request runs to
    /// its last exit.
    fn demand(&self, load: &Load, layout: usize, index: usize) -> Nanos {
        let tables = self.tasks_in(layout).iter().enumerate();
        let here = tables.filter(|(_, table)| table.partition.index() == index);
        let work = here.map(|(task, table)| {
            let whole = self.rows_of(table).iter();
            let whole = whole.fold(Nanos::ZERO, |sum, row| sum + row.cost_alone());
            whole.saturating_mul(load.per_second(task))
        });
        work.fold(Nanos::ZERO, |sum, work| sum + work)
    }

    /// Whether a partition has tasks in the present layout.
    pub fn uses(&self, index: usize) -> bool {
        let mut tasks = self.tasks().iter();
        tasks.any(|table| table.partition.index() == index)
    }

    /// Condition 1 of a change: each task that is guaranteed now is guaranteed under `target`.
    pub fn keeps_guarantees(&self, target: usize) -> bool {
        let mut pairs = self.tasks().iter().zip(self.tasks_in(target));
        pairs.all(|(now, then)| then.guaranteed || !now.guaranteed)
    }
}
