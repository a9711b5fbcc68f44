//! Which layout of partitions is wanted: the one whose fullest partition is least full, at the
//! arrivals of the last second, each as deep as it can go.

use alloc::boxed::Box;

use crate::bounded::List;
use crate::config::Config;
use crate::ids::PartitionId;
use crate::punctual::lifecycle::queues::MandatoryJob;
use crate::punctual::load::Load;
use crate::punctual::partition::Partitions;
use crate::punctual::tables::Tables;
use crate::time::{Instant, Nanos};

/// A layout is wanted only if its fullest partition is at most this part as full as now, in
/// eighths: a change costs time, and demand fluctuates.
const WORTHWHILE_EIGHTHS: u64 = 7;

/// Which layout is wanted, and the scratch of a change to it.
#[derive(Clone, Debug)]
pub struct Layouts {
    wanted: usize,
    /// When the wanted layout is chosen anew.
    thinks_again: Instant,
    /// By partition: whether it has other tasks under the layout that is tried.
    changes: Box<[bool]>,
    /// Promises as that layout sees them.
    pub moving: List<MandatoryJob>,
}

impl Layouts {
    pub fn new(config: &Config) -> Self {
        Self {
            wanted: 0,
            thinks_again: Instant::ZERO,
            changes: alloc::vec![false; config.partitions.len()].into(),
            moving: List::with_capacity(usize::from(config.request_buffers)),
        }
    }

    /// For tests: wants a layout whatever the demand is.
    #[cfg(test)]
    pub fn want(&mut self, layout: usize) {
        (self.wanted, self.thinks_again) = (layout, Instant::FAR_FUTURE);
    }

    /// The layout that is wanted, chosen anew every `interval`.
    pub fn wanted(&mut self, now: Instant, interval: Nanos, tables: &Tables, load: &Load) -> usize {
        if now >= self.thinks_again {
            self.thinks_again = now + interval;
            self.wanted = tables.best_layout(load, self.changes.len());
        }
        self.wanted
    }

    /// Notes which partitions have other tasks under `target` than now.
    pub fn compare(&mut self, tables: &Tables, target: usize) {
        for (index, changes) in self.changes.iter_mut().enumerate() {
            let here = |partition: PartitionId| partition.index() == index;
            let mut tasks = tables.tasks().iter().zip(tables.tasks_in(target));
            *changes = tasks.any(|(now, then)| here(now.partition) != here(then.partition));
        }
    }

    /// The partitions that have other tasks.
    pub fn changing(&self) -> impl Iterator<Item = usize> {
        let changes = self.changes.iter().enumerate();
        changes.filter_map(|(index, &changes)| changes.then_some(index))
    }

    pub fn changes(&self, index: usize) -> bool {
        self.changes[index]
    }

    /// The scale level of the partitions that change; `None` while they differ.
    pub fn common_level(&self, tables: &Tables, partitions: &Partitions) -> Option<usize> {
        let used = self.changing().filter(|&index| tables.uses(index));
        let mut levels = used.map(|index| partitions[index].scale.level());
        let first = levels.next()?;
        levels.all(|level| level == first).then_some(first)
    }
}

impl Tables {
    /// The layout whose fullest partition is least full; the present one unless another is clearly better.
    fn best_layout(&self, load: &Load, partitions: usize) -> usize {
        let fullness = |layout: usize| {
            let full = (0..partitions).map(|index| self.demand(load, layout, index));
            full.max().unwrap_or(Nanos::ZERO)
        };
        let present = self.layout();
        let best = (0..self.layouts()).min_by_key(|&layout| fullness(layout));
        let worthwhile = fullness(present).as_nanos() / 8 * WORTHWHILE_EIGHTHS;
        best.filter(|&best| fullness(best).as_nanos() < worthwhile)
            .unwrap_or(present)
    }

    /// The work that arrived in the last second for a partition under a layout, each request as deep
    /// as it can go.
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

    /// Condition 1.
    pub fn keeps_guarantees(&self, target: usize) -> bool {
        let mut pairs = self.tasks().iter().zip(self.tasks_in(target));
        pairs.all(|(now, then)| then.guaranteed || !now.guaranteed)
    }
}
