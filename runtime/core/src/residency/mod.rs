//! The weights on the device, for policies that page them (Clockwork, sections 5.2 and 5.3).
//!
//! This module counts pages. When a model's weights need room, the least recently used model is evicted, unless
//! an action or a promise uses it. Newly loaded weights are *claimed*: they are not evicted before a first use, or
//! before no request waits for them. In a small memory, two models could otherwise evict each other for ever.
//!
//! A transfer that the device does not report in time is lost ([`crate::lost`]). The pages that it may still write
//! to stay locked, and its model cannot be used, until it is reported. Other transfers continue.

mod estimate;

use serde::{Deserialize, Serialize};

use alloc::boxed::Box;

pub use estimate::Estimate;

use crate::config::{Config, StageTime};
use crate::ids::{ActionId, ModelId};
use crate::lost::lost_from;
use crate::time::{Instant, Nanos};

/// Where a model's weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Always on the device.
    Pinned,
    /// On the device until another model needs the pages.
    Resident,
    Loading,
    Lost,
    /// In the host's memory only.
    Absent,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Model {
    place: Place,
    pages: u32,
    /// The plan's budget of a transfer.
    budget: Nanos,
    transfer: Estimate,
    /// The number of actions and promises that use the weights; a claim counts as one.
    users: u16,
    /// Lost actions that may still read the weights. Each is a user, too.
    lost_users: u16,
    /// The lost transfer. Meaningful while `place` is `Lost`.
    lost_transfer: ActionId,
    /// Newly loaded, and not used yet: requests that waited for the transfer are about to be tested.
    claimed: bool,
    /// Neighbours in the order of last use: used before, used after. Meaningful while resident.
    earlier: u32,
    later: u32,
}

/// The transfer in flight: there is one at a time, as each has the whole of the bus.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Loading {
    action: ActionId,
    model: ModelId,
    /// The expected end.
    until: Instant,
    /// From this time on, it is lost.
    lost_from: Instant,
}

/// The pages of the device, and the models that have them.
///
/// Promises: the pages of all models on the device or in transfer, and the free ones, sum to all. Weights with a
/// user are not evicted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Residency {
    models: Box<[Model]>,
    /// The number of pages of the device.
    all: u32,
    free: u32,
    /// Pages that lost transfers write to and lost actions read.
    locked: u32,
    /// Lost transfers that were not reported.
    lost: usize,
    /// Pages of resident models without users.
    evictable: u32,
    /// The least recently used resident model, and the most recently used one.
    oldest: u32,
    newest: u32,
    loading: Option<Loading>,
}

/// No neighbour. No model has this index, as a [`ModelId`] is a `u16`.
const NONE: u32 = u32::MAX;

impl Residency {
    /// Whether it is of as many models and pages as another.
    #[must_use]
    pub fn fits(&self, other: &Self) -> bool {
        self.models.len() == other.models.len() && self.all == other.all
    }

    /// Every paged model is absent at first.
    pub fn new(config: &Config) -> Self {
        let model = |plan: &crate::ModelConfig| {
            let paged = plan.weights.filter(|_| config.pages > 0);
            Model {
                place: if paged.is_some() {
                    Place::Absent
                } else {
                    Place::Pinned
                },
                pages: paged.map_or(0, |w| w.pages),
                budget: paged.map_or(Nanos::ZERO, |w| w.load),
                transfer: Estimate::seeded(paged.map_or(Nanos::ZERO, |w| w.load)),
                users: 0,
                lost_users: 0,
                lost_transfer: ActionId(0),
                claimed: false,
                earlier: NONE,
                later: NONE,
            }
        };
        Self {
            models: config.models.iter().map(model).collect(),
            all: config.pages,
            free: config.pages,
            locked: 0,
            lost: 0,
            evictable: 0,
            oldest: NONE,
            newest: NONE,
            loading: None,
        }
    }

    pub fn place(&self, model: ModelId) -> Place {
        self.models[model.index()].place
    }

    /// Whether an action may read the weights now.
    pub fn is_resident(&self, model: ModelId) -> bool {
        matches!(self.place(model), Place::Pinned | Place::Resident)
    }

    /// The earliest time at which the weights can be resident: `now` if they are; otherwise after their own
    /// transfer and the one in flight before it.
    pub fn ready_at(&self, model: ModelId, now: Instant) -> Instant {
        let busy_until = self.loading.map_or(now, |l| l.until.max(now));
        match self.place(model) {
            Place::Pinned | Place::Resident => now,
            Place::Loading => busy_until,
            Place::Absent => busy_until + self.transfer(model),
            Place::Lost => Instant::FAR_FUTURE,
        }
    }

    /// The expected time of a transfer.
    pub fn transfer(&self, model: ModelId) -> Nanos {
        self.models[model.index()].transfer.value()
    }

    /// Whether a transfer can start: none is in flight, and the weights fit once all models without users are
    /// evicted.
    pub fn can_load(&self, model: ModelId) -> bool {
        self.loading.is_none() && self.models[model.index()].pages <= self.free + self.evictable
    }

    /// Evicts the least recently used model without users, and returns it. `None` if `incoming` fits without, or if
    /// no model can be evicted.
    pub fn evict_for(&mut self, incoming: ModelId) -> Option<ModelId> {
        if self.models[incoming.index()].pages <= self.free {
            return None;
        }
        let mut at = self.oldest;
        // Only models with users are skipped.
        while at != NONE && self.models[at as usize].users > 0 {
            at = self.models[at as usize].later;
        }
        if at == NONE {
            return None;
        }
        let evicted = ModelId(at as u16);
        self.unlink(evicted);
        let model = &mut self.models[evicted.index()];
        model.place = Place::Absent;
        self.evictable -= model.pages;
        self.free += model.pages;
        Some(evicted)
    }

    /// Starts a transfer. The model has its pages from now on.
    pub fn start_loading(&mut self, action: ActionId, model: ModelId, now: Instant) {
        debug_assert!(self.loading.is_none(), "{action:?} is a second transfer");
        let entry = &mut self.models[model.index()];
        debug_assert!(
            entry.place == Place::Absent && entry.pages <= self.free,
            "{model:?} is {:?} and needs {} of {} free pages",
            entry.place,
            entry.pages,
            self.free
        );
        entry.place = Place::Loading;
        self.free -= entry.pages;
        let time = StageTime {
            budget: entry.budget,
            max_seen: entry.transfer.value(),
        };
        self.loading = Some(Loading {
            action,
            model,
            until: now + entry.transfer.value(),
            lost_from: lost_from(now, now, time),
        });
    }

    /// Records that a transfer succeeded, and returns its model. `None` if the action is no transfer in flight.
    pub fn loaded(&mut self, action: ActionId, took: Nanos) -> Option<ModelId> {
        let (id, lost) = self.end_transfer(action)?;
        let model = &mut self.models[id.index()];
        model.transfer.measured(took);
        model.place = Place::Resident;
        // No claim after a lost transfer: the requests that waited for it have failed.
        (model.users, model.claimed) = (u16::from(!lost), !lost);
        self.evictable += if lost { model.pages } else { 0 };
        self.link_newest(id);
        Some(id)
    }

    /// Records that a transfer failed, frees its pages and returns its model. `None` if the action is no transfer in
    /// flight.
    pub fn load_failed(&mut self, action: ActionId) -> Option<ModelId> {
        let (id, _) = self.end_transfer(action)?;
        let model = &mut self.models[id.index()];
        model.place = Place::Absent;
        self.free += model.pages;
        Some(id)
    }

    /// Removes a transfer that was reported. Returns its model, and whether it was lost before.
    fn end_transfer(&mut self, action: ActionId) -> Option<(ModelId, bool)> {
        if let Some(loading) = self.loading.take_if(|l| l.action == action) {
            return Some((loading.model, false));
        }
        if self.lost == 0 {
            return None;
        }
        let is = |m: &Model| m.place == Place::Lost && m.lost_transfer == action;
        let index = self.models.iter().position(is)?;
        self.lost -= 1;
        self.locked -= self.models[index].pages;
        Some((ModelId(index as u16), true))
    }

    /// Declares the transfer in flight lost if the device should have reported it long ago. Returns its model then.
    pub fn give_up(&mut self, now: Instant) -> Option<ModelId> {
        let loading = self.loading.take_if(|l| l.lost_from <= now)?;
        let model = &mut self.models[loading.model.index()];
        (model.place, model.lost_transfer) = (Place::Lost, loading.action);
        self.lost += 1;
        self.locked += model.pages;
        Some(loading.model)
    }

    /// The time from which the transfer in flight is lost.
    pub fn next_loss(&self) -> Option<Instant> {
        self.loading.map(|loading| loading.lost_from)
    }

    /// Whether a model's weights are on the device or can be loaded, now or once other models have no users. They
    /// cannot while too many pages are locked.
    pub fn can_come(&self, model: ModelId) -> bool {
        match self.place(model) {
            Place::Pinned | Place::Resident | Place::Loading => true,
            Place::Absent => self.models[model.index()].pages <= self.all - self.locked,
            Place::Lost => false,
        }
    }

    /// Locks the pages of a model that a lost action may still read.
    pub fn lock(&mut self, model: ModelId) {
        let model = &mut self.models[model.index()];
        // Several lost actions lock the same pages: they count once.
        self.locked += if model.lost_users == 0 {
            model.pages
        } else {
            0
        };
        model.lost_users += 1;
    }

    /// Undoes one [`Self::lock`], when the device reported that action after all.
    pub fn unlock(&mut self, model: ModelId) {
        let model = &mut self.models[model.index()];
        debug_assert!(model.lost_users > 0, "no lost action reads these weights");
        model.lost_users -= 1;
        self.locked -= if model.lost_users == 0 {
            model.pages
        } else {
            0
        };
    }

    /// Counts a user from now on: an action that reads the weights, or a promise.
    pub fn used(&mut self, model: ModelId) {
        // Pinned weights are never evicted, so their users are not counted.
        if self.place(model) != Place::Resident {
            return;
        }
        let entry = &mut self.models[model.index()];
        if entry.users == 0 {
            self.evictable -= entry.pages;
        }
        // The first user replaces the claim, which counted as one.
        entry.users += u16::from(!entry.claimed);
        entry.claimed = false;
        self.unlink(model);
        self.link_newest(model);
    }

    /// The number of users of a model's weights; `None` unless they are paged and resident.
    pub fn users(&self, model: ModelId) -> Option<usize> {
        let entry = &self.models[model.index()];
        (entry.place == Place::Resident).then_some(usize::from(entry.users))
    }

    /// Removes a user.
    pub fn released(&mut self, model: ModelId) {
        let entry = &mut self.models[model.index()];
        if entry.place != Place::Resident {
            return;
        }
        debug_assert!(entry.users > 0, "{model:?} has no users");
        entry.users -= 1;
        if entry.users == 0 {
            self.evictable += entry.pages;
        }
    }

    /// Ends the claim: no request waits for the weights any longer.
    pub fn unclaim(&mut self, model: ModelId) {
        if core::mem::take(&mut self.models[model.index()].claimed) {
            self.released(model);
        }
    }

    fn link_newest(&mut self, model: ModelId) {
        let before = core::mem::replace(&mut self.newest, u32::from(model.0));
        let entry = &mut self.models[model.index()];
        (entry.earlier, entry.later) = (before, NONE);
        match before {
            NONE => self.oldest = u32::from(model.0),
            before => self.models[before as usize].later = u32::from(model.0),
        }
    }

    fn unlink(&mut self, model: ModelId) {
        let Model { earlier, later, .. } = self.models[model.index()];
        match earlier {
            NONE => self.oldest = later,
            earlier => self.models[earlier as usize].later = later,
        }
        match later {
            NONE => self.newest = earlier,
            later => self.models[later as usize].earlier = earlier,
        }
    }
}
