//! Requests for models whose weights are not on the device.
//!
//! A request for a paged model has no promise before its weights are resident. Then it is tested
//! like a request that has just been prepared. If it is accepted, it relies on the weights until its
//! verdict, and weights that a request relies on are not evicted. So no promise depends on a transfer
//! (docs/proof.md, "Paged weights"). Models of tasks with a reservation are always resident
//! ([`crate::validate`]).
//!
//! - The weights that most work waits for are loaded next (Clockwork, section 5.3). Of equals, those
//!   of the request that arrived first. One transfer runs at a time, as each uses the whole bus.
//! - The least recently used weights that no request relies on are evicted.
//! - A request waits until its latest start: later, its mandatory work, and the transfer if that has
//!   not begun, would end after its deadline.
//! - When a transfer fails, or is considered lost, the requests that waited for it fail.

use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::actions::Actions;
use crate::bounded::List;
use crate::config::Config;
use crate::ids::{ActionId, ModelId};
use crate::punctual::lifecycle::requests::{Requests, State};
use crate::residency::{Place, Residency};
use crate::time::{Instant, Nanos};

/// A request that waits for weights.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Awaiting {
    pub due: Instant,
    pub order: u64,
    pub buffer: u16,
    pub model: ModelId,
    /// Mandatory work, for the latest start.
    pub work: Nanos,
    /// The time of all its stages at batch 1: its part of the demand for the weights.
    pub demand: Nanos,
}

/// The device's pages of weights, and the requests that wait for a transfer.
///
/// Promises: the demand for a model is the sum over the requests that wait for it. Each open request
/// that relies on a resident model's weights is one of their users.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Weights {
    residency: Residency,
    /// By (due, order).
    awaiting: List<Awaiting>,
    /// By model: the sum over the requests that wait for it.
    demand: alloc::boxed::Box<[Nanos]>,
    /// An event of this step may allow or require a transfer.
    dirty: bool,
    /// When the list must be examined, if no event comes before.
    timer: Option<Instant>,
}

impl Weights {
    /// Whether it is of as many models and requests as another.
    pub fn fits(&self, other: &Self) -> bool {
        self.residency.fits(&other.residency)
            && self.awaiting.fits(&other.awaiting)
            && self.demand.len() == other.demand.len()
    }

    pub fn new(config: &Config) -> Self {
        Self {
            residency: Residency::new(config),
            awaiting: List::with_capacity(usize::from(config.request_buffers)),
            demand: alloc::vec![Nanos::ZERO; config.models.len()].into(),
            dirty: false,
            timer: None,
        }
    }

    /// Adds a request that waits for weights.
    pub(super) fn insert(&mut self, entry: Awaiting) {
        debug_assert!(
            !self.residency.is_resident(entry.model),
            "buffer {} waits for weights that are resident",
            entry.buffer
        );
        let key = (entry.due, entry.order);
        let at = self.awaiting.partition_point(|a| (a.due, a.order) < key);
        self.awaiting.insert(at, entry);
        self.demand[entry.model.index()] += entry.demand;
        self.dirty = true;
    }

    fn take(&mut self, at: usize) -> Awaiting {
        let entry = self.awaiting.remove(at);
        let demand = &mut self.demand[entry.model.index()];
        debug_assert!(
            entry.demand <= *demand,
            "the demand for a model includes every request that waits for it"
        );
        *demand = demand.saturating_sub(entry.demand);
        self.dirty = true;
        entry
    }

    /// Removes a request from the list, if it is there.
    pub(super) fn remove(&mut self, buffer: u16) {
        if let Some(at) = self.awaiting.iter().position(|a| a.buffer == buffer) {
            self.take(at);
        }
    }

    /// Counts a request that relies on a model's weights from now on.
    pub(super) fn used(&mut self, model: ModelId) {
        self.residency.used(model);
    }

    /// Counts that a request no longer relies on a model's weights. They may be evicted now, so a
    /// transfer may have become possible.
    pub(super) fn released(&mut self, model: ModelId) {
        self.residency.released(model);
        self.dirty = true;
    }

    /// Locks the pages of a model whose weights a lost action may still read.
    pub(super) fn lock(&mut self, model: ModelId) {
        self.residency.lock(model);
    }

    /// Unlocks them when that action was reported after all.
    pub(super) fn unlock(&mut self, model: ModelId) {
        self.residency.unlock(model);
    }

    pub fn residency(&self) -> &Residency {
        &self.residency
    }

    /// Records that a transfer succeeded. Returns the model, whose requests must be tested now; `None`
    /// if the action is no transfer in flight.
    pub fn loaded(&mut self, action: ActionId, took: Nanos) -> Option<ModelId> {
        let model = self.residency.loaded(action, took)?;
        self.dirty = true;
        Some(model)
    }

    /// Ends the claim on newly loaded weights once all requests that waited for them have been tested.
    /// From now on, they may be evicted if no request relies on them.
    pub fn unclaim(&mut self, model: ModelId) {
        self.residency.unclaim(model);
    }

    /// Records that a transfer failed. Returns the model, whose waiting requests fail, too; `None` if the
    /// action is no transfer in flight.
    pub fn load_failed(&mut self, action: ActionId) -> Option<ModelId> {
        let model = self.residency.load_failed(action)?;
        self.dirty = true;
        Some(model)
    }

    /// Declares the transfer in flight lost if it is overdue ([`crate::lost`]). True if it was.
    pub fn give_up(&mut self, now: Instant) -> bool {
        self.residency.give_up(now).is_some()
    }

    /// Removes the request with the earliest deadline among those that wait for a model.
    pub fn take_waiting_for(&mut self, model: ModelId) -> Option<u16> {
        let mut awaiting = self.awaiting.iter();
        let at = awaiting.position(|entry| entry.model == model)?;
        Some(self.take(at).buffer)
    }

    /// Removes a request whose latest start has passed.
    pub fn take_overdue(&mut self, now: Instant) -> Option<u16> {
        let mut awaiting = self.awaiting.iter();
        let at = awaiting.position(|entry| self.latest_start(entry) < now)?;
        Some(self.take(at).buffer)
    }

    /// Evicts as many models as a transfer needs pages for, and starts it. The device carries actions out
    /// in order, so it frees the pages before it fills them.
    pub fn load(&mut self, id: ActionId, model: ModelId, now: Instant, actions: &mut Actions) {
        debug_assert!(
            self.residency.can_load(model),
            "{model:?} does not fit, or another transfer is in flight"
        );
        while let Some(evicted) = self.residency.evict_for(model) {
            actions.push(Action::Unload { model: evicted });
        }
        actions.push(Action::Load { id, model });
        self.residency.start_loading(id, model, now);
    }

    /// Whether an event or the timer may allow or require a transfer or a verdict now.
    pub fn is_due(&self, now: Instant) -> bool {
        self.dirty || self.timer.is_some_and(|timer| timer <= now)
    }

    /// Sets the timer once all that was due is done.
    pub fn rearm(&mut self) {
        let starts = self.awaiting.iter().map(|entry| self.latest_start(entry));
        let starts = starts.filter(|at| *at != Instant::FAR_FUTURE);
        // A request may still start at its latest start, so it is overdue one nanosecond later.
        let overdue = starts.map(|at| at + Nanos::new(1));
        self.timer = overdue.chain(self.residency.next_loss()).min();
        self.dirty = false;
    }

    /// The last moment at which the next step of a request can start so that its mandatory work ends by its
    /// deadline. The step is its transfer, or its first stage if the transfer has begun.
    fn latest_start(&self, entry: &Awaiting) -> Instant {
        let ahead = match self.residency.place(entry.model) {
            Place::Absent => entry.work + self.residency.transfer(entry.model),
            Place::Pinned | Place::Resident | Place::Loading | Place::Lost => entry.work,
        };
        // No deadline: the difference would be a finite time, and the request would be overdue then.
        if entry.due == Instant::FAR_FUTURE {
            return entry.due;
        }
        entry.due - ahead
    }

    pub fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Recounts the list, the demands and the users of weights.
    ///
    /// # Errors
    /// The first count that is wrong.
    pub fn check(&self, requests: &Requests) -> Result<(), &'static str> {
        let open = |buffer: u16| requests.get(buffer);
        let awaits = (0..requests.buffers()).filter(|&b| open(b).state == State::AwaitingWeights);
        let listed = |entry: &Awaiting| open(entry.buffer).state == State::AwaitingWeights;
        if awaits.count() != self.awaiting.len() || !self.awaiting.iter().all(listed) {
            return Err("the list of requests that wait for weights differs from their states");
        }
        for (index, demand) in self.demand.iter().enumerate() {
            let model = ModelId(index as u16);
            let entries = self.awaiting.iter().filter(|entry| entry.model == model);
            if entries.fold(Nanos::ZERO, |sum, entry| sum + entry.demand) != *demand {
                return Err("the demand for a model is miscounted");
            }
            let relies = |buffer: &u16| {
                let request = open(*buffer);
                request.state != State::Free && request.relies_on == Some(model)
            };
            let users = (0..requests.buffers()).filter(relies).count();
            if self
                .residency
                .users(model)
                .is_some_and(|counted| counted != users)
            {
                return Err("the users of a model's weights are miscounted");
            }
        }
        Ok(())
    }

    /// The absent model with the highest demand, if its transfer can start. If it cannot, no other model
    /// is loaded instead.
    pub fn wanted(&self) -> Option<ModelId> {
        let absent = |entry: &&Awaiting| {
            let place = self.residency.place(entry.model);
            place == Place::Absent && self.residency.can_come(entry.model)
        };
        let demand = |entry: &Awaiting| self.demand[entry.model.index()];
        let entries = self.awaiting.iter().filter(absent);
        let most = entries.min_by_key(|entry| (core::cmp::Reverse(demand(entry)), entry.order));
        let model = most.map(|entry| entry.model);
        model.filter(|&model| self.residency.can_load(model))
    }
}

/// What [`Weights::check`] must find, and how a test plants it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Weights>] = &[
    (
        "the list of requests that wait for weights differs from their states",
        |it| {
            it.awaiting.push(Awaiting {
                due: Instant::ZERO,
                order: 0,
                buffer: 0,
                model: ModelId(0),
                work: Nanos::ZERO,
                demand: Nanos::ZERO,
            });
        },
    ),
    ("the demand for a model is miscounted", |it| {
        it.demand[0] += Nanos::new(1)
    }),
    ("the users of a model's weights are miscounted", |it| {
        it.residency.used(ModelId(1))
    }),
];
