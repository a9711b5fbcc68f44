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

use crate::action::{Action, Failure, Rejection, Verdict};
use crate::actions::Actions;
use crate::bounded::List;
use crate::config::Config;
use crate::ids::{ActionId, ModelId};
use crate::punctual::Punctual;
use crate::punctual::requests::{Request, Requests, State};
use crate::punctual::tables::Tables;
use crate::residency::{Place, Residency};
use crate::time::{Instant, Nanos};

/// A request that waits for weights.
#[derive(Clone, Copy, Debug)]
pub struct Awaiting {
    due: Instant,
    order: u64,
    buffer: u16,
    model: ModelId,
    /// Mandatory work, for the last call.
    work: Nanos,
    /// What all its stages take alone: what it counts for the choice of the next transfer.
    demand: Nanos,
}

/// The device's pages, and who waits for some.
#[derive(Clone, Debug)]
pub struct Paging {
    pub residency: Residency,
    /// By (due, order).
    awaiting: List<Awaiting>,
    /// By model: the sum over those who wait for it.
    demand: alloc::boxed::Box<[Nanos]>,
    /// Something happened that may allow or demand a transfer.
    touched: bool,
    /// When something here is due, if no event comes before.
    timer: Option<Instant>,
}

impl Paging {
    pub fn new(config: &Config) -> Self {
        Self {
            residency: Residency::new(config),
            awaiting: List::with_capacity(usize::from(config.request_buffers)),
            demand: alloc::vec![Nanos::ZERO; config.models.len()].into(),
            touched: false,
            timer: None,
        }
    }

    fn insert(&mut self, entry: Awaiting) {
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
    pub fn remove(&mut self, buffer: u16) {
        if let Some(at) = self.awaiting.iter().position(|a| a.buffer == buffer) {
            self.take(at);
        }
    }

    /// One who relied on a model's weights does so no longer.
    pub fn released(&mut self, model: ModelId) {
        self.residency.released(model);
        self.touched = true;
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

    /// When something here is due, if no event comes before.
    pub fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Recounts. What is wrong, if anything is.
    pub fn check(&self, requests: &Requests, tables: &Tables) -> Result<(), &'static str> {
        let open = |buffer: u16| requests.get(buffer);
        let awaits = (0..requests.buffers()).filter(|&b| open(b).state == State::Awaiting);
        let listed = |entry: &Awaiting| open(entry.buffer).state == State::Awaiting;
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
                request.state != State::Free
                    && request.relies_on_weights
                    && tables.task(request.task).model == model
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

    /// The absent model with the most work waiting for it.
    fn wanted(&self) -> Option<ModelId> {
        let absent = |entry: &&Awaiting| {
            let place = self.residency.place(entry.model);
            place == Place::Absent && self.residency.can_come(entry.model)
        };
        let demand = |entry: &Awaiting| self.demand[entry.model.index()];
        let entries = self.awaiting.iter().filter(absent);
        let most = entries.min_by_key(|entry| (core::cmp::Reverse(demand(entry)), entry.order));
        most.map(|entry| entry.model)
    }
}

impl Punctual {
    /// A request whose input is ready waits for its model's weights, or is refused if they cannot be there in time.
    pub(crate) fn await_weights(&mut self, request: &Request, buffer: u16, actions: &mut Actions) {
        let table = self.tables.task(request.task);
        let (model, work) = (table.model, table.work());
        if self.paging.residency.ready_at(model, self.now) + work > request.due {
            return self.conclude(buffer, Verdict::Rejected(Rejection::NoSlack), actions);
        }
        let stages = self.tables.rows_of(table).iter();
        let demand = stages.fold(Nanos::ZERO, |sum, row| sum + row.cost_alone());
        self.requests.transition(buffer, State::Awaiting);
        self.paging.insert(Awaiting {
            due: request.due,
            order: request.order,
            buffer,
            model,
            work,
            demand,
        });
    }

    /// From now on a request relies on its model's weights, until its verdict.
    pub(crate) fn rely_on_weights(&mut self, buffer: u16) {
        let request = self.requests.mark_reliant(buffer);
        let model = self.tables.task(request.task).model;
        self.paging.residency.used(model);
    }

    /// A transfer ended well: who waited for it is taken on, or refused.
    pub(crate) fn loaded(&mut self, action: ActionId, took: Nanos, actions: &mut Actions) {
        let Some(model) = self.paging.residency.loaded(action, took) else {
            return self.note_stale();
        };
        self.paging.touched = true;
        while let Some(buffer) = self.take_awaiting(model) {
            let request = *self.requests.get(buffer);
            self.take_on(&request, buffer, actions);
        }
        self.paging.residency.unclaim(model);
    }

    /// A transfer failed. False: it was no transfer.
    pub(crate) fn load_failed(&mut self, action: ActionId, actions: &mut Actions) -> bool {
        let Some(model) = self.paging.residency.load_failed(action) else {
            return false;
        };
        self.paging.touched = true;
        while let Some(buffer) = self.take_awaiting(model) {
            self.conclude(buffer, Verdict::Failed(Failure::Device), actions);
        }
        true
    }

    fn take_awaiting(&mut self, model: ModelId) -> Option<u16> {
        let at = self
            .paging
            .awaiting
            .iter()
            .position(|entry| entry.model == model)?;
        Some(self.paging.take(at).buffer)
    }

    /// At the end of a step: refuses who waited in vain, and fetches what is wanted most.
    pub(crate) fn fetch(&mut self, actions: &mut Actions) {
        let due = self.paging.timer.is_some_and(|timer| timer <= self.now);
        if !(self.paging.touched || due) {
            return;
        }
        if self.paging.residency.give_up(self.now).is_some() {
            for buffer in 0..self.requests.buffers() {
                self.end_wait_in_vain(buffer, actions);
            }
        }
        let mut at = 0;
        while let Some(entry) = self.paging.awaiting.get(at) {
            if self.paging.last_call(entry) >= self.now {
                at += 1;
                continue;
            }
            let buffer = self.paging.take(at).buffer;
            self.conclude(buffer, Verdict::Rejected(Rejection::NoSlack), actions);
        }
        if let Some(model) = self.paging.wanted()
            && self.paging.residency.can_load(model)
        {
            self.load(model, actions);
        }
        let calls = self.paging.awaiting.iter();
        let calls = calls.map(|entry| self.paging.last_call(entry));
        let calls = calls.filter(|at| *at != Instant::FAR_FUTURE);
        let calls = calls.map(|at| at + Nanos::new(1));
        let lost = self.paging.residency.next_loss();
        self.paging.timer = calls.chain(lost).min();
        self.paging.touched = false;
    }

    fn load(&mut self, model: ModelId, actions: &mut Actions) {
        while let Some(evicted) = self.paging.residency.evict_for(model) {
            actions.push(Action::Unload { model: evicted });
        }
        let id = ActionId(self.actions_ordered);
        self.actions_ordered += 1;
        actions.push(Action::Load { id, model });
        let residency = &mut self.paging.residency;
        residency.start_loading(id, model, self.now);
    }
}

/// What [`Paging::check`] must find, and how to plant it.
#[cfg(test)]
pub const FAULTS: &[super::Fault<Paging>] = &[
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
