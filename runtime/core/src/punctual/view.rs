//! The state that a decision about one partition reads. Decisions are functions of a [`View`] that
//! return values: a stage to run, a time to decide again, a request to reject. `Punctual` applies them.

use serde::{Deserialize, Serialize};

use core::ops::Deref;

use crate::ids::TaskId;
use crate::punctual::ablation::{Ablation, Ablations};
use crate::punctual::arrivals::ArrivalPredictor;
use crate::punctual::lifecycle::Lifecycle;
use crate::punctual::lifecycle::queues::Queues;
use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::places::Places;
use crate::punctual::price::Prices;
use crate::punctual::readiness::Readiness;
use crate::punctual::reservations::Reservations;
use crate::punctual::slack::{Candidate, Reservation, SlackScan};
use crate::punctual::tables::Tables;
use crate::time::{Instant, Nanos};

/// Work that is rejected at present because an event requested it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Holds {
    /// Every submission ([`Event::Drain`](crate::Event::Drain)).
    pub draining: bool,
    /// Best-effort work ([`Event::Shed`](crate::Event::Shed)).
    pub shedding: bool,
}

/// The state at the time of this step, that of all partitions.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    pub now: Instant,
    pub parameters: &'a PunctualConfig,
    pub tables: &'a Tables,
    /// `None` if the price of depth is off.
    pub prices: Option<&'a Prices>,
    pub life: &'a Lifecycle,
    pub reservations: &'a Reservations,
    pub readiness: &'a Readiness,
    /// By task.
    pub arrivals: &'a [ArrivalPredictor],
    pub partitions: &'a Partitions,
    pub places: &'a Places,
    pub holds: Holds,
    pub ablations: Ablations,
}

/// The state that a policy's fields have. It borrows these and no others: the slack scans can be written to at the same
/// time.
macro_rules! shared {
    ($punctual:ident) => {
        $crate::punctual::view::Shared {
            now: $punctual.now,
            parameters: &$punctual.parameters,
            tables: &$punctual.tables,
            prices: $punctual.prices.as_ref(),
            life: &$punctual.life,
            reservations: &$punctual.reservations,
            readiness: &$punctual.readiness,
            arrivals: &$punctual.arrivals,
            partitions: &$punctual.partitions,
            places: &$punctual.places,
            holds: $punctual.holds,
            ablations: $punctual.ablations,
        }
    };
}
pub(crate) use shared;

impl<'a> Shared<'a> {
    pub fn of(&self, index: usize) -> View<'a> {
        View {
            shared: *self,
            index,
            partition: &self.partitions[index],
            queues: &self.life.queues[index],
        }
    }
}

/// One partition, with the state of all.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    shared: Shared<'a>,
    /// The partition's position among all.
    pub index: usize,
    pub partition: &'a Partition,
    pub queues: &'a Queues,
}

impl<'a> Deref for View<'a> {
    type Target = Shared<'a>;
    fn deref(&self) -> &Shared<'a> {
        &self.shared
    }
}

impl View<'_> {
    /// f: an upper bound on when the partition is free, if nothing else starts.
    pub fn free_from(&self) -> Instant {
        self.partitions.free_from(self.index, self.now, self.tables)
    }

    /// Whether the policy promises deadlines to a task's frames at present.
    pub fn promises_to(&self, task: TaskId) -> bool {
        self.tables.task(task).is_real_time() && !self.partitions.is_demoted(task, self.tables)
    }

    /// Whether the policy sheds a task's frames at present.
    pub fn sheds(&self, task: TaskId) -> bool {
        self.holds.shedding && !self.tables.task(task).is_real_time()
    }

    /// Whether a lost action or transfer prevents a task's requests from running.
    pub fn is_unserviceable(&self, task: TaskId) -> bool {
        let table = self.tables.task(task);
        self.partitions.is_locked(table.partition.index())
            || !self.life.weights.residency().can_come(table.model)
    }

    /// Computes the slack of the partition as if it were free from `free` on. A candidate adds its work,
    /// and the next stamp of its task counts as it would be after the promise.
    pub fn scan(
        &self,
        scan: &mut SlackScan,
        free: Instant,
        candidate: Option<(&Candidate, Nanos)>,
    ) {
        let (tables, index) = (self.tables, self.index);
        debug_assert!(
            candidate.is_none_or(|(candidate, _)| {
                self.tables.task(candidate.task).partition.index() == index
            }),
            "a candidate is tested on the partition of its task"
        );
        let pending_only =
            candidate.is_some() && self.ablations.has(Ablation::PendingOnlyAdmission);
        // F must hold with what the promise would leave of the reservation. With the present one, a promise that
        // moves `next` to an earlier time would raise F without a test (docs/proof.md, "Guarantee").
        let tested = candidate.and_then(|(candidate, _)| Some((candidate.task, candidate.after?)));
        let reserved = if pending_only {
            &[][..]
        } else {
            tables.reserved(index)
        };
        let reserved = reserved.iter().map(|&task| (task, tables.task(task)));
        let reserved = reserved.filter(|(_, table)| table.guaranteed);
        let reserved = reserved.map(|(task, table)| Reservation {
            table,
            allowance: match tested {
                Some((candidate_task, after)) if candidate_task == task => after,
                _ => self.reservations.allowance(task),
            },
        });
        let candidate = candidate.map(|(candidate, work)| (candidate.due, work));
        scan.run(self.now, free, self.queues.mandatory(), candidate, reserved);
    }
}
