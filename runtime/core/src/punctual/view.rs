//! What a decision about one partition looks at, and does not change. Decisions are functions of it
//! that return values: a stage to run, a time to look again, a request to refuse.

use crate::ids::TaskId;
use crate::punctual::ablation::{Ablation, Ablations};
use crate::punctual::arrivals::ArrivalPredictor;
use crate::punctual::lifecycle::Lifecycle;
use crate::punctual::lifecycle::queues::Queues;
use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::price::Prices;
use crate::punctual::reservations::Reservations;
use crate::punctual::slack::{Candidate, Reservation, SlackScan};
use crate::punctual::tables::Tables;
use crate::time::{Instant, Nanos};

/// What is refused at present, on demand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holds {
    /// All that arrives ([`Event::Drain`](crate::Event::Drain)).
    pub draining: bool,
    /// Best-effort work ([`Event::Shed`](crate::Event::Shed)).
    pub shedding: bool,
}

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
    pub arrivals: &'a [ArrivalPredictor],
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

    /// Scans the partition as if it were free from `free` on, with the work of a candidate, if one is
    /// tested: at the place in its task's rhythm that it would leave.
    pub fn scan(
        &self,
        scan: &mut SlackScan,
        free: Instant,
        candidate: Option<(&Candidate, Nanos)>,
    ) {
        let (tables, index) = (self.tables, self.index);
        let pending_only =
            candidate.is_some() && self.ablations.has(Ablation::PendingOnlyAdmission);
        let tested = candidate.and_then(|(candidate, _)| Some((candidate.task, candidate.next?)));
        let reserved = tables.tasks().iter().zip(self.reservations.all());
        let reserved = reserved
            .enumerate()
            .filter(|(_, (table, _))| {
                !pending_only && table.guaranteed && table.partition.index() == index
            })
            .map(|(task, (table, next))| Reservation {
                table,
                next: match tested {
                    Some((own, then)) if own.index() == task => then,
                    _ => next,
                },
            });
        let candidate = candidate.map(|(candidate, work)| (candidate.due, work));
        scan.run(self.now, free, self.queues.mandatory(), candidate, reserved);
    }
}
