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
mod best_effort;
mod completion;
mod conduct;
mod construction;
mod demotion;
mod dispatch;
mod gain;
mod joint;
mod latest;
mod layouts;
mod ledger;
mod load;
mod look_ahead;
mod loss;
mod mandatory;
mod optional;
mod overrun;
mod paging;
mod parameters;
mod partition;
mod price;
mod queues;
mod requests;
mod reservations;
mod rhythm;
mod service;
mod share;
mod shedding;
mod slack;
mod slot;
mod speed;
mod spill;
mod tables;
/// A fault that tests plant in an owner of state, by name: its `check` must find it.
#[cfg(test)]
type Fault<T> = (&'static str, fn(&mut T));

#[cfg(test)]
mod tests;
mod timers;
mod view;

use alloc::boxed::Box;

use crate::action::{Failure, Verdict};
use crate::actions::Actions;
use crate::bounded::List;
#[cfg(test)]
use crate::config::Config;
use crate::config::Criticality;
use crate::counters::Counters;
use crate::event::Event;
use crate::ids::{ClientId, PartitionId, RequestId, TaskId};
use crate::policy::Policy;
use crate::punctual::ablation::Ablation;
use crate::punctual::joint::Applicant;
use crate::punctual::ledger::Ledger;
use crate::punctual::load::{Load, load_of};
use crate::punctual::paging::Paging;
pub use crate::punctual::parameters::PunctualConfig;
use crate::punctual::partition::{Partition, Partitions};
use crate::punctual::price::Prices;
use crate::punctual::queues::Pending;
use crate::punctual::requests::{Request, Requests, State};
use crate::punctual::reservations::Reservations;
use crate::punctual::rhythm::Rhythm;
use crate::punctual::service::Service;
use crate::punctual::slack::Reservation;
use crate::punctual::tables::Tables;
use crate::punctual::view::View;
use crate::time::{Instant, Nanos};

/// All decisions of a daemon. Made once from the plan; allocates nothing afterwards (a clone
/// does: it is for tests that try several futures).
#[derive(Clone, Debug)]
pub(crate) struct Punctual {
    pub(crate) parameters: PunctualConfig,
    pub(crate) tables: Tables,
    /// By layout; none if there is no price.
    pub(crate) prices: Box<[Prices]>,
    pub(crate) load: Load,
    requests: Requests,
    ledger: Ledger,
    reservations: Reservations,
    service: Service,
    /// By task: when its inputs become ready.
    rhythms: Box<[Rhythm]>,
    partitions: Partitions,
    pub(crate) paging: Paging,
    /// The time of this step.
    pub(crate) now: Instant,
    pub(crate) actions_ordered: u64,
    pub(crate) wanted_layout: usize,
    /// When the wanted layout is chosen anew.
    pub(crate) thinks_again: Instant,
    /// Scratch of a change between layouts: promises on their way.
    pub(crate) moving: List<Pending>,
    draining: bool,
    /// Best-effort work is given up ([`Event::Shed`]).
    shedding: bool,
    stale_events: u64,
    #[cfg(test)]
    pub(crate) ablation: Option<Ablation>,
}

impl Policy for Punctual {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.now = self.now.max(now);
        for partition in self.partitions.iter_mut() {
            partition.wake(self.now);
        }
        if self.load.turn(self.now) {
            self.weigh();
        }
        match event {
            Event::Arrived(arrival) => self.arrived(arrival, actions),
            Event::Prepared { request, ok, .. } => self.prepared(*request, *ok, actions),
            Event::Finished(finished) => self.finished(finished, actions),
            Event::NotRun { action } => self.not_run(*action, actions),
            Event::Preempted { action } => self.preempted(*action, actions),
            Event::Failed { action } => {
                if !self.load_failed(*action, actions) {
                    self.failed(*action, actions);
                }
            }
            Event::ClientGone { client } => self.client_gone(*client, actions),
            Event::Loaded { action, measured } => self.loaded(*action, *measured, actions),
            Event::Tick => {}
            Event::Drain => self.draining = true,
            Event::Shed { hold } => self.hold_best_effort(*hold, actions),
        }
        for index in 0..self.partitions.len() {
            self.give_up(index, actions);
        }
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
        self.fetch(actions);
        debug_assert_eq!(self.check(), Ok(()));
    }

    fn next_timer(&self) -> Option<Instant> {
        let partitions = self.partitions.iter().filter_map(Partition::timer);
        partitions.chain(self.paging.timer()).min()
    }

    fn drained(&self) -> bool {
        self.draining && self.requests.open() == 0
    }

    fn counters(&self, task: TaskId) -> &Counters {
        self.ledger.counters(task)
    }

    fn open(&self) -> usize {
        self.requests.open()
    }

    fn stale_events(&self) -> u64 {
        self.stale_events
    }

    fn check(&self) -> Result<(), &'static str> {
        self.requests.check()?;
        self.ledger.check(&self.requests)?;
        self.partitions.check(&self.requests, &self.tables)?;
        self.paging.check(&self.requests, &self.tables)
    }

    fn scale(&self, partition: PartitionId) -> u64 {
        crate::punctual::tables::SCALES[self.partitions[partition.index()].speed.level()]
    }
}

impl Punctual {
    /// As [`Scheduler::new`](crate::Scheduler::new), for tests that look inside.
    #[cfg(test)]
    pub(crate) fn new(
        config: &Config,
        parameters: PunctualConfig,
    ) -> Result<Self, crate::error::ConfigError> {
        crate::validate::check(config, &parameters)?;
        Ok(Self::from_plan(config, parameters))
    }

    /// What decisions about a partition look at.
    fn view(&self, index: usize) -> View<'_> {
        View {
            now: self.now,
            parameters: &self.parameters,
            tables: &self.tables,
            prices: self.prices.get(self.tables.layout()),
            requests: &self.requests,
            service: &self.service,
            rhythms: &self.rhythms,
            partition: &self.partitions[index],
            shedding: self.shedding,
            #[cfg(test)]
            ablation: self.ablation,
        }
    }

    pub(crate) const fn draining(&self) -> bool {
        self.draining
    }

    pub(crate) fn note_stale(&mut self) {
        self.stale_events += 1;
    }

    /// Which load each partition has at present.
    pub(crate) fn weigh(&mut self) {
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            let here = self.tables.tasks().iter().enumerate();
            let here = here.filter(|(_, table)| {
                table.partition.index() == index && table.criticality == Criticality::RealTime
            });
            let work =
                here.map(|(task, table)| table.work().saturating_mul(self.load.per_second(task)));
            partition.load = load_of(work.fold(Nanos::ZERO, |sum, work| sum + work));
        }
    }

    /// Scans a partition that is free from `free` on.
    pub(crate) fn scan(
        &mut self,
        index: usize,
        free: Instant,
        candidate: Option<(&Applicant, Nanos)>,
    ) {
        let pending_only = candidate.is_some() && self.ablated(Ablation::PendingOnlyAdmission);
        let partition = &mut self.partitions[index];
        let tested = candidate.and_then(|(applicant, _)| Some((applicant.task, applicant.next?)));
        let reserved = self.tables.tasks().iter().zip(self.reservations.all());
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
        let candidate = candidate.map(|(applicant, work)| (applicant.due, work));
        partition.scan.run(
            self.now,
            free,
            partition.queues.promised(),
            candidate,
            reserved,
        );
    }

    /// Ends a request's promise on a partition, if it has one there.
    pub(crate) fn remove_pending(&mut self, index: usize, buffer: u16) {
        let queues = &mut self.partitions[index].queues;
        queues.remove_promise(buffer, &self.tables);
    }

    /// Gives a request its verdict and its buffer back. The caller has taken it off the lists.
    pub(crate) fn conclude(&mut self, buffer: u16, verdict: Verdict, actions: &mut Actions) {
        let request = self.requests.release(buffer);
        self.let_go(&request);
        let id = RequestId {
            buffer,
            generation: request.generation,
        };
        self.ledger.finish(id, &request, verdict, actions);
    }

    /// What a request held beside its buffer is free.
    pub(crate) fn let_go(&mut self, request: &Request) {
        self.ledger.let_go(request);
        if request.relies_on_weights {
            let model = self.tables.task(request.task).model;
            self.paging.released(model);
        }
    }

    /// Answers a request with the deepest answer it has.
    pub(crate) fn answer(&mut self, buffer: u16, actions: &mut Actions) {
        let due = self.requests.get(buffer).due;
        let verdict = if self.now <= due {
            Verdict::OnTime
        } else {
            Verdict::Late
        };
        self.conclude(buffer, verdict, actions);
    }

    /// Ends the open requests of a client: at once, or once the intake or the device lets go of their buffers.
    fn client_gone(&mut self, client: ClientId, actions: &mut Actions) {
        for buffer in 0..self.requests.buffers() {
            let request = self.requests.get(buffer);
            if !request.state.is_open() || request.ticket.client != client {
                continue;
            }
            let in_use = matches!(request.state, State::Preparing | State::Running);
            let index = self.withdraw(buffer);
            self.partitions[index].touch();
            if in_use {
                self.requests.mark_gone(buffer);
            } else {
                self.conclude(buffer, Verdict::Failed(Failure::ClientGone), actions);
            }
        }
    }

    /// Takes a request off the list that it waits in, if it waits in one; the partition it belongs to.
    pub(crate) fn withdraw(&mut self, buffer: u16) -> usize {
        let request = self.requests.get(buffer);
        let (state, task) = (request.state, request.task);
        let index = self.tables.task(task).partition.index();
        let queues = &mut self.partitions[index].queues;
        queues.remove(buffer, state, &self.tables);
        if state == State::Awaiting {
            self.paging.remove(buffer);
        }
        index
    }

    pub(crate) fn is_real_time(&self, task: TaskId) -> bool {
        self.tables.task(task).criticality == Criticality::RealTime
    }
}
