//! What a decision about one partition looks at, and does not change. Decisions are functions of it
//! that return values: a stage to run, a time to look again, a request to refuse.

use crate::ids::TaskId;
use crate::punctual::Holds;
use crate::punctual::ablation::Ablations;
use crate::punctual::lifecycle::Lifecycle;
use crate::punctual::lifecycle::queues::Queues;
use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::price::Prices;
use crate::punctual::reservations::Reservations;
use crate::punctual::rhythm::Rhythm;
use crate::punctual::tables::Tables;
use crate::time::Instant;

/// One partition at the time of this step, with all that is not a partition's own.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub now: Instant,
    pub parameters: &'a PunctualConfig,
    pub tables: &'a Tables,
    /// Of the present layout; none if there is no price.
    pub prices: Option<&'a Prices>,
    pub life: &'a Lifecycle,
    pub reservations: &'a Reservations,
    pub rhythms: &'a [Rhythm],
    pub partitions: &'a Partitions,
    /// Which partition it is.
    pub index: usize,
    pub partition: &'a Partition,
    pub queues: &'a Queues,
    pub holds: Holds,
    pub ablations: Ablations,
}

impl View<'_> {
    /// f: upper bound on when the partition is free, if nothing more is started.
    pub fn free_from(&self) -> Instant {
        self.partitions.free_from(self.index, self.now)
    }

    /// Whether a task's frames are promised their deadlines at present.
    pub fn promises_to(&self, task: TaskId) -> bool {
        self.tables.task(task).is_real_time() && !self.partitions.is_demoted(task, self.tables)
    }

    /// Whether a task's frames are given up at present.
    pub fn sheds(&self, task: TaskId) -> bool {
        self.holds.shedding && !self.tables.task(task).is_real_time()
    }

    /// Whether a lost action or transfer keeps a task's requests from running.
    pub fn is_unserviceable(&self, task: TaskId) -> bool {
        let table = self.tables.task(task);
        self.partitions.is_locked(table.partition.index())
            || !self.life.weights.residency().can_come(table.model)
    }
}
