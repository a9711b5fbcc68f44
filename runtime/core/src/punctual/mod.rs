//! The default policy: mandatory first, then as deep as time allows. Its state, and the order of one step.
//! Start here; `docs/proof.md` states the rules and the guarantee.
//!
//! The owners of state have private fields: `lifecycle` (requests, queues, ledger, weights, service),
//! `slot`, `partition`, `reservations` and others. Decisions are functions of a `View`, or of an
//! `Admission`, and return values. The methods of [`Punctual`] apply them.
//!
//! | decision | module |
//! |---|---|
//! | what happens to a request from its arrival to its promise | `intake` |
//! | ... whether the policy promises its deadline | `admission` |
//! | ... whether another device serves it, if its own cannot | `offload` |
//! | ... whether it is promised jointly with others, in one batch | `joint` |
//! | ... whether it takes over the promise of an older frame of its client | `latest` |
//! | how much slack each deadline has | `slack` |
//! | what a free partition runs next | `dispatch` |
//! | ... a deeper stage, if it endangers no promise | `optional` |
//! | ... and if it is worth its time at the present load | `price`, `load` |
//! | ... promised work, in a batch where that endangers no promise | `mandatory` |
//! | ... or nothing yet, as a larger batch is expected soon | `mandatory`, `arrivals` |
//! | ... best-effort work, in the time that real-time work leaves | `best_effort`, `gaps` |
//! | ... or no best-effort work, on demand | `shedding` |
//! | ... what has to stop when real-time work has used its part of the time | `utilization` |
//! | on which idle compute units of others work runs, and how wide | `lending`, `places` |
//! | what a partition runs next, handed over before the running action ends | `look_ahead` |
//! | which weights are loaded, and which are evicted for them | `paging`, `lifecycle::weights` |
//! | whether an answer is final | `completion` |
//! | what follows from a stage that overran, and which request is dropped then | `overrun`, `scale` |
//! | whether the model or the machine caused an overrun | `profile_monitor` |
//! | what a model that breaks its profile loses | `demotion` |
//! | what a frame gets whose network is not loaded yet | `readiness` |
//! | when the policy gives up an action that the device does not report | `loss` |
//! | what is due without an event | `timers` |

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
mod lender;
mod lending;
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
mod places;
mod price;
mod profile_monitor;
mod readiness;
mod reservations;
mod scale;
mod shedding;
mod slack;
mod slot;
mod state;
mod tables;
#[cfg(test)]
mod tests;
mod timers;
mod utilization;
mod view;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::actions::Actions;
use crate::counters::Counters;
use crate::event::Event;
use crate::ids::{ActionIds, BATCH_MAX, PartitionId, RequestId, TaskId};
use crate::policy::{Policy, TaskReadiness};
use crate::punctual::ablation::Ablations;
use crate::punctual::arrivals::ArrivalPredictor;
use crate::punctual::lifecycle::Lifecycle;
use crate::punctual::lifecycle::ledger::Note;
use crate::punctual::load::Load;
pub use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::places::Places;
pub use crate::punctual::places::{PLACED_PARTITIONS_MAX, use_allowed};
use crate::punctual::price::Prices;
use crate::punctual::readiness::Readiness;
pub use crate::punctual::reservations::OPEN_BURSTS;
use crate::punctual::reservations::Reservations;
use crate::punctual::slack::SlackScan;
use crate::punctual::tables::{SCALES, Tables};
pub use crate::punctual::utilization::{UtilizationCap, Voluntary};
use crate::punctual::view::{Holds, View, shared};
use crate::time::Instant;

/// What `check` must find in addition to the faults of the owners, and how to plant it.
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
    ("a request waits for a stage that cannot run", |it| {
        it.tables.set_unready();
    }),
];

/// All decisions of a daemon. It is made once from the plan and allocates nothing afterwards. A clone
/// allocates: tests clone it to try several futures.
#[derive(Clone, Debug)]
pub(crate) struct Punctual {
    parameters: PunctualConfig,
    tables: Tables,
    /// None if the price of depth is off.
    prices: Option<Prices>,
    load: Load,
    life: Lifecycle,
    reservations: Reservations,
    readiness: Readiness,
    /// By task.
    arrivals: Box<[ArrivalPredictor]>,
    partitions: Partitions,
    /// By partition: the last scan of its slack. Here, and not in the partition, because a decision
    /// writes to the scan while it reads everything else.
    scans: Box<[SlackScan]>,
    /// By partition: scratch of `lending`.
    limits: Box<[Instant]>,
    places: Places,
    holds: Holds,
    /// The time of this step. It never falls.
    now: Instant,
    ids: ActionIds,
    /// The requests whose clients are to have the answers of this step at once, if they stay open.
    undelivered: heapless::Vec<RequestId, BATCH_MAX>,
    stale_events: u64,
    ablations: Ablations,
}

impl Policy for Punctual {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        // The proof needs a time that does not fall: else F would rise ("Time passes").
        self.now = self.now.max(now);
        self.partitions.wake(self.now);
        // Partitions learn a new load only when the window of the counts moves. A sum over all tasks at
        // every step would cost too much.
        if self.load.advance(self.now) {
            self.partitions.update_loads(&self.tables, &self.load);
        }
        self.apply(event, actions);
        // After the event: an action whose report comes in this step is not lost.
        self.give_up_lost(actions);
        // Before any choice: a request that is dropped needs no time.
        self.watch_overruns(actions);
        // Before the owners' dispatch: that runs what lending leaves.
        self.lend(actions);
        for index in 0..self.partitions.len() {
            if self.partitions[index].take_dirty() {
                self.dispatch(index, actions);
                // After the dispatch: a request at the last moment of its start is started, not ended.
                self.expire(index, actions);
                let timer = self.view(index).timer();
                self.partitions[index].rearm(timer);
            }
        }
        // After the decisions: what they ended has its answer with the verdict.
        self.deliver(actions);
        // Last: requests that ended in this step no longer need their weights, so those can be evicted.
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
        self.check_readiness()?;
        self.partitions.check(&self.life.requests)?;
        for (index, partition) in self.partitions.iter().enumerate() {
            // It was set when the partition was last looked at: what has changed since has to have had
            // the partition looked at again.
            let due = self.view(index).timer();
            if due.is_some_and(|due| partition.timer().is_none_or(|timer| timer > due)) {
                return Err("a timer is set after something falls due");
            }
            let mut in_flight = partition.slot().in_flight();
            if in_flight.any(|r| !self.ids.has_given(r.id)) {
                return Err("an action is in flight whose name may be given again");
            }
        }
        Ok(())
    }

    fn state(&self) -> Option<Vec<u8>> {
        Some(self.saved())
    }

    fn save_into(&self, into: &mut [u8]) -> Option<usize> {
        Punctual::save_into(self, into)
    }

    fn readiness(&self, task: TaskId) -> TaskReadiness {
        self.readiness_of(task)
    }

    fn scale(&self, partition: PartitionId) -> u64 {
        SCALES[self.partitions[partition.index()].level()]
    }
}

impl Punctual {
    /// Applies an event to the state. It marks each partition whose decision may change; the step then
    /// decides for these partitions only.
    fn apply(&mut self, event: &Event, actions: &mut Actions) {
        match event {
            Event::Arrived(arrival) => self.arrived(arrival, actions),
            Event::Burst {
                task,
                captured,
                requests,
            } => self.announced(*task, *captured, *requests),
            Event::Prepared { request, ready, .. } => self.prepared(*request, *ready, actions),
            Event::Finished(finished) => self.finished(finished, actions),
            Event::NotRun { action } => self.not_finished(*action, Note::NotRun, actions),
            Event::Preempted { action } => self.not_finished(*action, Note::Preempted, actions),
            Event::Failed { action } => self.failed(*action, actions),
            Event::ClientGone { client } => self.client_gone(*client, actions),
            Event::Loaded { action, measured } => self.loaded(*action, *measured, actions),
            Event::Tick => {}
            Event::Drain => self.holds.draining = true,
            Event::Shed { hold } => self.hold_best_effort(*hold, actions),
            Event::Starved { partition, starved } => {
                self.partitions[partition.index()].set_starved(*starved);
            }
            Event::Readiness(said) => self.readiness(said, actions),
        }
    }

    /// The input of decisions about a partition.
    fn view(&self, index: usize) -> View<'_> {
        shared!(self).of(index)
    }

    /// The view of a partition, and its slack scan to write to.
    fn look(&mut self, index: usize) -> (View<'_>, &mut SlackScan) {
        (shared!(self).of(index), &mut self.scans[index])
    }
}
