//! Requests for models whose weights are not on the device.
//!
//! Who asks a paged model is promised nothing before its weights are there; then it is taken on, or
//! refused, like a request that has just been prepared. From then on it relies on them until its
//! verdict, and weights that somebody relies on stay. So no promise hangs on a transfer. Tasks
//! with a reservation ask models that are resident for good ([`crate::validate`]).
//!
//! - Fetched are the weights with the most work waiting for them (Clockwork, section 5.3), of equals
//!   those of the request that came first; one transfer at a time.
//! - The least recently used weights that nobody relies on make room.
//! - A request waits until its last call: when its mandatory work, with the transfer if that has
//!   not begun, would end after its deadline.
//! - A transfer that failed, or was taken for lost, fails those who waited for it.

use crate::action::Action;
use crate::actions::Actions;
use crate::bounded::List;
use crate::config::Config;
use crate::ids::{ActionId, ModelId};
use crate::punctual::lifecycle::requests::{Requests, State};
use crate::residency::{Place, Residency};
use crate::time::{Instant, Nanos};

/// A request that waits for weights.
#[derive(Clone, Copy, Debug)]
pub struct Awaiting {
    pub due: Instant,
    pub order: u64,
    pub buffer: u16,
    pub model: ModelId,
    /// Mandatory work, for the last call.
    pub work: Nanos,
    /// What all its stages take alone: what it counts for the choice of the next transfer.
    pub demand: Nanos,
}

/// The device's pages, and who waits for some.
#[derive(Clone, Debug)]
pub struct Weights {
    residency: Residency,
    /// By (due, order).
    awaiting: List<Awaiting>,
    /// By model: the sum over those who wait for it.
    demand: alloc::boxed::Box<[Nanos]>,
    /// Something happened that may allow or demand a transfer.
    touched: bool,
    /// When something here is due, if no event comes before.
    timer: Option<Instant>,
}

impl Weights {
    pub fn new(config: &Config) -> Self {
        Self {
            residency: Residency::new(config),
            awaiting: List::with_capacity(usize::from(config.request_buffers)),
            demand: alloc::vec![Nanos::ZERO; config.models.len()].into(),
            touched: false,
            timer: None,
        }
    }

    /// Adds a request that waits for weights.
    pub(super) fn insert(&mut self, entry: Awaiting) {
        let key = (entry.due, entry.order);
        let at = self.awaiting.partition_point(|a| (a.due, a.order) < key);
        self.awaiting.insert(at, entry);
        self.demand[entry.model.index()] += entry.demand;
        self.touched = true;
    }

    fn take(&mut self, at: usize) -> Awaiting {
        let entry = self.awaiting.remove(at);
        let demand = &mut self.demand[entry.model.index()];
        *demand = demand.saturating_sub(entry.demand);
        self.touched = true;
        entry
    }

    /// Takes a request off the list.
    pub(super) fn remove(&mut self, buffer: u16) {
        if let Some(at) = self.awaiting.iter().position(|a| a.buffer == buffer) {
            self.take(at);
        }
    }

    /// A request relies on a model's weights.
    pub(super) fn used(&mut self, model: ModelId) {
        self.residency.used(model);
    }

    /// A request that relied on a model's weights does so no longer.
    pub(super) fn released(&mut self, model: ModelId) {
        self.residency.released(model);
        self.touched = true;
    }

    /// A lost action may be reading a model's weights.
    pub(super) fn lock(&mut self, model: ModelId) {
        self.residency.lock(model);
    }

    /// It was reported after all.
    pub(super) fn unlock(&mut self, model: ModelId) {
        self.residency.unlock(model);
    }

    pub fn residency(&self) -> &Residency {
        &self.residency
    }

    /// A transfer ended well: the model whose requests are to be taken on. `None`: it was no transfer.
    pub fn loaded(&mut self, action: ActionId, took: Nanos) -> Option<ModelId> {
        let model = self.residency.loaded(action, took)?;
        self.touched = true;
        Some(model)
    }

    /// All who waited for a transfer have been taken on: others may have the pages.
    pub fn unclaim(&mut self, model: ModelId) {
        self.residency.unclaim(model);
    }

    /// A transfer failed: the model whose requests fail with it. `None`: it was no transfer.
    pub fn load_failed(&mut self, action: ActionId) -> Option<ModelId> {
        let model = self.residency.load_failed(action)?;
        self.touched = true;
        Some(model)
    }

    /// The transfer in flight is taken for lost, if it should have been reported long ago.
    pub fn give_up(&mut self, now: Instant) -> bool {
        self.residency.give_up(now).is_some()
    }

    /// Takes a request off the list that waits for a model.
    pub fn take_waiting_for(&mut self, model: ModelId) -> Option<u16> {
        let mut awaiting = self.awaiting.iter();
        let at = awaiting.position(|entry| entry.model == model)?;
        Some(self.take(at).buffer)
    }

    /// Takes a request off the list that cannot be in time any more.
    pub fn take_overdue(&mut self, now: Instant) -> Option<u16> {
        let mut awaiting = self.awaiting.iter();
        let at = awaiting.position(|entry| self.last_call(entry) < now)?;
        Some(self.take(at).buffer)
    }

    /// Evicts what has to make room for a model, and starts its transfer.
    pub fn load(&mut self, id: ActionId, model: ModelId, now: Instant, actions: &mut Actions) {
        while let Some(evicted) = self.residency.evict_for(model) {
            actions.push(Action::Unload { model: evicted });
        }
        actions.push(Action::Load { id, model });
        self.residency.start_loading(id, model, now);
    }

    /// Whether something happened, or has come due, that may allow or demand a transfer.
    pub fn is_due(&self, now: Instant) -> bool {
        self.touched || self.timer.is_some_and(|timer| timer <= now)
    }

    /// All that was due is done.
    pub fn rearm(&mut self) {
        let calls = self.awaiting.iter().map(|entry| self.last_call(entry));
        let calls = calls.filter(|at| *at != Instant::FAR_FUTURE);
        let calls = calls.map(|at| at + Nanos::new(1));
        self.timer = calls.chain(self.residency.next_loss()).min();
        self.touched = false;
    }

    /// The last moment at which the next step towards a request's answer can begin: its transfer, or its first stage.
    fn last_call(&self, entry: &Awaiting) -> Instant {
        let ahead = match self.residency.place(entry.model) {
            Place::Absent => entry.work + self.residency.transfer(entry.model),
            Place::Pinned | Place::Resident | Place::Loading | Place::Lost => entry.work,
        };
        if entry.due == Instant::FAR_FUTURE {
            return entry.due;
        }
        entry.due - ahead
    }

    pub fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Recounts. What is wrong, if anything is.
    pub fn check(&self, requests: &Requests) -> Result<(), &'static str> {
        let open = |buffer: u16| requests.get(buffer);
        let awaits = (0..requests.buffers()).filter(|&b| open(b).state == State::AwaitingWeights);
        let listed = |entry: &Awaiting| open(entry.buffer).state == State::AwaitingWeights;
        if awaits.count() != self.awaiting.len() || !self.awaiting.iter().all(listed) {
            return Err("a request waits for weights and is not listed, or is listed and does not");
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
                return Err("who relies on a model's weights is miscounted");
            }
        }
        Ok(())
    }

    /// The absent model with the most work waiting for it, if its transfer can start.
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

/// What [`Weights::check`] must find, and how to plant it.
#[cfg(test)]
pub const FAULTS: &[crate::punctual::fault::Fault<Weights>] = &[
    (
        "a request waits for weights and is not listed, or is listed and does not",
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
    ("who relies on a model's weights is miscounted", |it| {
        it.residency.used(ModelId(1))
    }),
];
