//! A device on a virtual clock: stages take the time that a [`Timing`] says, and nothing is
//! computed. Same timing, same actions, same events.
//!
//! Partitions that share compute units may run at the same time. Each of n actions on a common
//! unit then takes `1 + (n - 1) · contention` times as long: processor sharing, exactly so at a
//! contention of 1000 thousandths, and less harmful where one action alone does not fill the units.

mod flight;
mod link;
mod orders;
#[cfg(test)]
mod tests;
mod timing;

use std::collections::VecDeque;

use punctual_core::{
    Event, Finished, Infer, Instant, ModelConfig, ModelId, PartitionConfig, PartitionId,
    StageConfig, StageTime,
};

use flight::{FULL_PACE, Flight};
use link::Link;
use punctual_device::{Catalogue, Residency};
pub use timing::{Course, Ending, Oracle, Timing, Uniform, Variation};

/// A device in virtual time. Its clock stands still until [`advance_to`](Self::advance_to).
pub struct VirtualDevice<T, O> {
    now: Instant,
    models: Vec<ModelConfig>,
    partitions: Vec<Partition>,
    /// What runs or waits for its window, at most one action a partition.
    flights: Vec<Flight>,
    link: Link,
    residency: Residency,
    catalogue: Catalogue,
    /// Thousandths by which each other action on a common unit stretches one's time.
    contention: u64,
    /// Whether any two partitions share a unit.
    overlapping: bool,
    /// Events not polled yet, oldest first.
    ready: VecDeque<(Origin, Event)>,
    /// Compute units that are busy now, and unit-nanoseconds of busy time until `now`.
    units_busy: u64,
    busy: u128,
    timing: T,
    oracle: O,
}

struct Partition {
    plan: PartitionConfig,
    running: bool,
    next: Option<Next>,
    /// Actions submitted and not yet reported by [`Device::poll`]; at most 2.
    held: u8,
}

/// The action that a pending event is about.
#[derive(Clone, Copy)]
enum Origin {
    /// An action of this model on this partition.
    Action(PartitionId, ModelId),
    /// The transfer of this model's weights.
    Transfer(ModelId),
}

impl Origin {
    fn of(infer: &Infer) -> Self {
        Self::Action(infer.partition, infer.model)
    }
}

/// The action that is to follow.
struct Next {
    infer: Infer,
    preempted: bool,
}

impl<T: Timing, O: Oracle> VirtualDevice<T, O> {
    /// A device for these models (with execution times on each of the partitions), idle at
    /// instant zero. Actions on common units share them evenly, and all weights are pinned.
    pub fn new(
        models: Vec<ModelConfig>,
        partitions: &[PartitionConfig],
        request_buffers: u16,
        timing: T,
        oracle: O,
    ) -> Self {
        let overlaps = |index: usize| {
            let units = partitions[index].units;
            partitions[..index].iter().any(|p| p.units.overlaps(units))
        };
        Self {
            now: Instant::ZERO,
            residency: Residency::new(models.iter().map(|_| None), 0),
            catalogue: catalogue(&models, request_buffers),
            models,
            partitions: partitions
                .iter()
                .map(|plan| Partition {
                    plan: plan.clone(),
                    running: false,
                    next: None,
                    held: 0,
                })
                .collect(),
            flights: Vec::with_capacity(partitions.len().min(64)),
            link: Link::default(),
            contention: FULL_PACE,
            overlapping: (0..partitions.len()).any(overlaps),
            ready: VecDeque::new(),
            units_busy: 0,
            busy: 0,
            timing,
            oracle,
        }
    }

    /// The same, but each action on a common unit stretches the time of each other one there by
    /// this many thousandths: 1000 shares the units evenly, 0 not to disturb at all.
    #[must_use]
    pub fn with_contention(mut self, permille: u64) -> Self {
        self.contention = permille;
        self
    }

    /// The same, with a cache of `pages` for the weights of the models that can be paged; 0: all are pinned.
    #[must_use]
    pub fn with_cache(mut self, pages: u32) -> Self {
        let paged = |model: &ModelConfig| model.weights.filter(|_| pages > 0).map(|w| w.pages);
        self.residency = Residency::new(self.models.iter().map(paged), pages);
        self
    }

    /// The device's clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What the times come from.
    pub fn timing(&self) -> &T {
        &self.timing
    }

    /// From now on, a request buffer holds this picture.
    pub(crate) fn shows(&mut self, buffer: u16, sample: u32) {
        self.timing.shows(buffer, sample);
    }

    /// What the answers come from.
    pub fn oracle_mut(&mut self) -> &mut O {
        &mut self.oracle
    }

    /// Compute units times nanoseconds that something ran on them, until now.
    pub fn busy(&self) -> u128 {
        self.busy
    }

    /// No event comes before this instant: now or earlier if one is ready; none if the device holds nothing.
    pub fn next_event(&self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(self.now);
        }
        let ends = self.flights.iter().map(|flight| flight.ends);
        ends.chain(self.link.ends()).min()
    }

    /// Lets time pass; what ends until then becomes ready.
    ///
    /// # Panics
    /// If `now` lies before the device's clock.
    pub fn advance_to(&mut self, now: Instant) {
        assert!(now >= self.now, "the clock went backwards");
        while let Some((at, turn)) = self.next_turn().filter(|(at, _)| *at <= now) {
            self.pass(at);
            match turn {
                Turn::Begins => self.repace(),
                Turn::Ends(index) => self.end(index),
                Turn::Loaded => self.loaded(),
            }
        }
        self.pass(now);
    }

    /// What happens next inside the device: the oldest action first among those of one instant.
    fn next_turn(&self) -> Option<(Instant, Turn)> {
        let turn = |(index, flight): (usize, &Flight)| {
            if flight.begun(self.now) {
                (flight.ends, flight.infer.id.0, Turn::Ends(index))
            } else if flight.ends <= flight.started {
                // Stopped before its window.
                (flight.ends, flight.infer.id.0, Turn::Ends(index))
            } else {
                (flight.started, flight.infer.id.0, Turn::Begins)
            }
        };
        let loaded = self.link.ends().map(|at| (at, u64::MAX, Turn::Loaded));
        let turns = self.flights.iter().enumerate().map(turn).chain(loaded);
        let next = turns.min_by_key(|(at, id, _)| (*at, *id));
        next.map(|(at, _, turn)| (at, turn))
    }

    fn pass(&mut self, until: Instant) {
        let span = until.since(self.now).as_nanos();
        self.busy += u128::from(span) * u128::from(self.units_busy);
        self.now = self.now.max(until);
    }

    fn end(&mut self, index: usize) {
        let flight = self.flights.swap_remove(index);
        let partition = flight.infer.partition;
        self.partitions[partition.index()].running = false;
        let origin = Origin::of(&flight.infer);
        match self.report_of(flight) {
            Some(event) => self.ready.push_back((origin, event)),
            None => self.forget(origin),
        }
        if let Some(next) = self.partitions[partition.index()].next.take() {
            self.follow(next);
        }
        self.repace();
    }

    /// What the device says at the end of a flight; nothing if that got lost.
    fn report_of(&mut self, flight: Flight) -> Option<Event> {
        let action = flight.infer.id;
        if flight.preempted {
            return Some(Event::Preempted { action });
        }
        match flight.ending {
            Ending::Lost => None,
            Ending::Failed => Some(Event::Failed { action }),
            Ending::Finished => Some(Event::Finished(Finished {
                action,
                started: flight.started,
                measured: flight.ends.since(flight.started),
                members: flight
                    .infer
                    .members
                    .iter()
                    .map(|&request| {
                        self.oracle
                            .answer(request, flight.infer.model, flight.infer.stage)
                    })
                    .collect(),
            })),
        }
    }

    fn follow(&mut self, next: Next) {
        if next.preempted {
            let action = next.infer.id;
            let origin = Origin::of(&next.infer);
            self.ready.push_back((origin, Event::Preempted { action }));
        } else {
            self.start(next.infer);
        }
    }

    /// Starts an action on a partition that is free from now on, unless its window is over.
    fn start(&mut self, infer: Infer) {
        let started = self.now.max(infer.window.earliest);
        if started > infer.window.latest {
            let event = Event::NotRun { action: infer.id };
            self.ready.push_back((Origin::of(&infer), event));
            return;
        }
        let time = self.time(&infer);
        let course = self.timing.course(&infer, started, time);
        let partition = &mut self.partitions[infer.partition.index()];
        partition.running = true;
        let units = partition.plan.units;
        self.flights
            .push(Flight::new(infer, units, started, course));
        self.repace();
    }

    /// After something began or ended: how many units are busy, and which actions slow each other down.
    fn repace(&mut self) {
        let now = self.now;
        if !self.overlapping {
            let begun = self.flights.iter().filter(|flight| flight.begun(now));
            self.units_busy = begun.map(|flight| u64::from(flight.units.count)).sum();
            return;
        }
        for index in 0..self.flights.len() {
            let units = self.flights[index].units;
            let begun = self.flights.iter().filter(|other| other.begun(now));
            let sharing = begun.filter(|other| other.units.overlaps(units));
            let others = (sharing.count() as u64).saturating_sub(1);
            if self.flights[index].begun(now) {
                let pace = FULL_PACE + others * self.contention;
                self.flights[index].set_pace(now, pace);
            }
        }
        self.units_busy = units_covered(&self.flights, now);
    }

    fn start_transfer(&mut self) {
        if let Some(order) = self.link.next() {
            let took = self.timing.transfer(order.model, self.now, order.load);
            self.link.start(order, self.now, took);
        }
    }

    fn loaded(&mut self) {
        if let Some(transfer) = self.link.end(self.now) {
            let event = Event::Loaded {
                action: transfer.action,
                measured: transfer.ends.since(transfer.started),
            };
            let origin = Origin::Transfer(transfer.model);
            self.ready.push_back((origin, event));
        }
        self.start_transfer();
    }

    /// What ended is known, or never will be.
    fn forget(&mut self, origin: Origin) {
        match origin {
            Origin::Action(partition, model) => {
                self.partitions[partition.index()].held -= 1;
                self.residency.released(model);
            }
            Origin::Transfer(model) => self.residency.loaded(model, true),
        }
    }

    fn time(&self, infer: &Infer) -> StageTime {
        self.models[infer.model.index()].stages[infer.stage.index()]
            .times
            .iter()
            .find(|time| time.batch == infer.batch)
            .expect("checked by the catalogue")
            .on[infer.partition.index()]
    }
}

fn catalogue(models: &[ModelConfig], request_buffers: u16) -> Catalogue {
    let stages = models.iter().map(|model| {
        let batches = |stage: &StageConfig| stage.times.iter().map(|time| time.batch).collect();
        model.stages.iter().map(batches).collect::<Vec<Vec<u8>>>()
    });
    Catalogue::new(stages, request_buffers)
}

/// What happens inside the device.
enum Turn {
    /// A window opened.
    Begins,
    /// The action at this position is over.
    Ends(usize),
    /// A transfer is over.
    Loaded,
}

/// How many units some action computes on at `now`.
fn units_covered(flights: &[Flight], now: Instant) -> u64 {
    let mut ranges: Vec<_> = flights.iter().filter(|f| f.begun(now)).collect();
    ranges.sort_unstable_by_key(|flight| flight.units.first);
    let mut covered = 0;
    let mut free_from = 0;
    for flight in ranges {
        let first = flight.units.first.max(free_from);
        covered += u64::from(flight.units.end().saturating_sub(first));
        free_from = free_from.max(flight.units.end());
    }
    covered
}
