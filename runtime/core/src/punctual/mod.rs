//! The default policy: mandatory first, then as deep as time allows. Its state and its dispatch
//! of events. Start here; `docs/proof.md` states the rules and the guarantee.
//!
//! | decision | where |
//! |---|---|
//! | take a submission in, promise its deadline | `admission` |
//! | ... on another device, if its own cannot | `spill` |
//! | ... together with others, in one batch | `joint` |
//! | ... in the place of an older frame of the same client | `latest` |
//! | how much time is to spare | `slack` |
//! | what a free partition runs next | `dispatch` |
//! | ... deeper stages, if they endanger nothing | `optional` |
//! | ... and are worth their time at the present load | `price`, `load` |
//! | ... promised work, in batches where that endangers nothing | `mandatory` |
//! | ... or nothing yet, for a larger batch | `rhythm` |
//! | ... best-effort work, in the gaps | `best_effort` |
//! | ... or none of it, on demand | `shedding` |
//! | what it runs next, handed over ahead | `look_ahead` |
//! | which layout of partitions is used | `layouts` |
//! | which weights come, and which make room | `paging` |
//! | whether an answer is good enough | `completion` |
//! | work that runs too long; whom to drop then | `overrun`, `speed` |
//! | whose fault that is; what becomes of a model that breaks its profile | `conduct`, `demotion` |
//! | what falls due without an event | `timers` |

mod ablation;
mod admission;
mod arrivals;
mod best_effort;
mod choice;
mod completion;
mod construction;
mod demotion;
mod dispatch;
#[cfg(test)]
mod fault;
mod gain;
mod gaps;
mod intake;
mod joint;
mod latest;
mod layout_change;
mod layouts;
mod lifecycle;
mod load;
mod look_ahead;
mod loss;
mod mandatory;
mod offload;
mod optional;
mod overrun;
mod paging;
mod parameters;
mod partition;
mod price;
mod profile_monitor;
mod reservations;
mod scale;
mod shedding;
mod slack;
mod slot;
mod tables;
#[cfg(test)]
mod tests;
mod timers;
mod utilization;
mod view;

use alloc::boxed::Box;

use crate::actions::Actions;
use crate::counters::Counters;
use crate::event::Event;
use crate::ids::{ActionIds, PartitionId, TaskId};
use crate::policy::Policy;
use crate::punctual::ablation::Ablations;
use crate::punctual::arrivals::ArrivalPredictor;
use crate::punctual::layouts::Layouts;
use crate::punctual::lifecycle::Lifecycle;
use crate::punctual::lifecycle::ledger::Note;
use crate::punctual::load::Load;
pub use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::price::Prices;
use crate::punctual::reservations::Reservations;
use crate::punctual::slack::SlackScan;
use crate::punctual::tables::{SCALES, Tables};
use crate::punctual::view::{Holds, View};
use crate::time::Instant;

/// What `check` must find beside the faults of the owners, and how to plant it.
#[cfg(test)]
const FAULTS: &[fault::Fault<Punctual>] = &[
    ("a timer is set after something falls due", |it| {
        it.partitions[0].rearm(None);
    }),
    (
        "an action is in flight whose name may be given again",
        |it| {
            it.ids = ActionIds::default();
        },
    ),
];

/// All decisions of a daemon. Made once from the plan; allocates nothing afterwards (a clone
/// does: it is for tests that try several futures).
#[derive(Clone, Debug)]
pub(crate) struct Punctual {
    parameters: PunctualConfig,
    tables: Tables,
    /// By layout; none if there is no price.
    prices: Box<[Prices]>,
    load: Load,
    life: Lifecycle,
    reservations: Reservations,
    /// By task: when its inputs become ready.
    arrivals: Box<[ArrivalPredictor]>,
    partitions: Partitions,
    /// By partition: what the last test of its slack found.
    scans: Box<[SlackScan]>,
    layouts: Layouts,
    holds: Holds,
    /// The time of this step.
    now: Instant,
    ids: ActionIds,
    stale_events: u64,
    ablations: Ablations,
}

impl Policy for Punctual {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.now = self.now.max(now);
        self.partitions.wake(self.now);
        if self.load.turn(self.now) {
            self.partitions.weigh(&self.tables, &self.load);
        }
        self.learn(event, actions);
        self.give_up_lost(actions);
        self.consider_layouts(actions);
        for index in 0..self.partitions.len() {
            if self.partitions[index].take_touched() {
                self.watch_overrun(index, actions);
                self.dispatch(index, actions);
                self.expire(index, actions);
                let timer = self.view(index).timer();
                self.partitions[index].rearm(timer);
            }
        }
        self.fetch_weights(actions);
        debug_assert_eq!(self.check(), Ok(()));
    }

    fn next_timer(&self) -> Option<Instant> {
        let partitions = self.partitions.iter().filter_map(Partition::timer);
        partitions.chain(self.life.weights.timer()).min()
    }

    fn drained(&self) -> bool {
        self.holds.draining && self.life.requests.open() == 0
    }

    fn counters(&self, task: TaskId) -> &Counters {
        self.life.ledger.counters(task)
    }

    fn open(&self) -> usize {
        self.life.requests.open()
    }

    fn stale_events(&self) -> u64 {
        self.stale_events
    }

    fn check(&self) -> Result<(), &'static str> {
        self.life.check(&self.tables)?;
        self.partitions.check(&self.life.requests)?;
        for (index, partition) in self.partitions.iter().enumerate() {
            // It was set when the partition was last looked at: what has changed since has to have had
            // the partition looked at again.
            let due = self.view(index).timer();
            if due.is_some_and(|due| partition.timer().is_none_or(|timer| timer > due)) {
                return Err("a timer is set after something falls due");
            }
            if partition
                .slot
                .in_flight()
                .any(|r| !self.ids.has_given(r.id))
            {
                return Err("an action is in flight whose name may be given again");
            }
        }
        Ok(())
    }

    fn scale(&self, partition: PartitionId) -> u64 {
        SCALES[self.partitions[partition.index()].scale.level()]
    }
}

impl Punctual {
    /// Takes a fact in: requests come, end, or wait for something else, and their partitions are
    /// looked at before the step ends.
    fn learn(&mut self, event: &Event, actions: &mut Actions) {
        match event {
            Event::Arrived(arrival) => self.arrived(arrival, actions),
            Event::Prepared { request, ok, .. } => self.prepared(*request, *ok, actions),
            Event::Finished(finished) => self.finished(finished, actions),
            Event::NotRun { action } => self.not_finished(*action, Note::NotRun, actions),
            Event::Preempted { action } => self.not_finished(*action, Note::Preempted, actions),
            Event::Failed { action } => self.failed(*action, actions),
            Event::ClientGone { client } => self.client_gone(*client, actions),
            Event::Loaded { action, measured } => self.loaded(*action, *measured, actions),
            Event::Tick => {}
            Event::Drain => self.holds.draining = true,
            Event::Shed { hold } => self.hold_best_effort(*hold, actions),
        }
    }

    /// What decisions about a partition look at.
    fn view(&self, index: usize) -> View<'_> {
        View {
            now: self.now,
            parameters: &self.parameters,
            tables: &self.tables,
            prices: self.prices.get(self.tables.layout()),
            life: &self.life,
            reservations: &self.reservations,
            arrivals: &self.arrivals,
            partitions: &self.partitions,
            index,
            partition: &self.partitions[index],
            queues: &self.life.queues[index],
            holds: self.holds,
            ablations: self.ablations,
        }
    }

    /// The same, with the scratch for the partition's slack.
    fn look(&mut self, index: usize) -> (View<'_>, &mut SlackScan) {
        let view = View {
            now: self.now,
            parameters: &self.parameters,
            tables: &self.tables,
            prices: self.prices.get(self.tables.layout()),
            life: &self.life,
            reservations: &self.reservations,
            arrivals: &self.arrivals,
            partitions: &self.partitions,
            index,
            partition: &self.partitions[index],
            queues: &self.life.queues[index],
            holds: self.holds,
            ablations: self.ablations,
        };
        (view, &mut self.scans[index])
    }
}
