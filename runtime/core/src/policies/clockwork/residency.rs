//! Which models' weights are on the device, and which go when another's come (Clockwork, sections
//! 5.2 and 5.3): pages are counted, the least recently used model goes first. Weights that were
//! fetched stay until they were used once, or nobody waits for them any more: in a small memory
//! two models could else take the place from each other for ever.

use alloc::boxed::Box;

use super::estimate::Estimate;
use crate::config::Config;
use crate::ids::{ActionId, ModelId};
use crate::time::{Instant, Nanos};

/// Where a model's weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the device, for good.
    Pinned,
    /// On the device until others need the pages.
    Resident,
    /// On their way.
    Loading,
    /// In the host's memory only.
    Absent,
}

#[derive(Clone, Debug)]
struct Model {
    place: Place,
    pages: u32,
    transfer: Estimate,
    /// Actions in flight that read the weights; a claim counts as one.
    users: u16,
    /// Claimed by those the weights were fetched for, until the first of them uses them.
    claimed: bool,
    /// Neighbours in the order of use: used before, used after. Meaningful while resident.
    earlier: u32,
    later: u32,
}

/// The transfer in flight: there is one at a time, as each has the whole of the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loading {
    pub(super) action: ActionId,
    pub(super) model: ModelId,
    /// When it should have ended.
    pub(super) until: Instant,
}

/// The pages and who has them.
#[derive(Clone, Debug)]
pub(super) struct Residency {
    models: Box<[Model]>,
    free: u32,
    /// Pages of resident models that nobody uses.
    evictable: u32,
    /// The resident model that was used the longest ago, and the last one.
    oldest: u32,
    newest: u32,
    loading: Option<Loading>,
}

/// No neighbour. A plan has fewer models than this: their names are `u16` and one is left over.
const NONE: u32 = u32::MAX;

impl Residency {
    pub(super) fn new(config: &Config) -> Self {
        let model = |plan: &crate::ModelConfig| {
            let paged = plan.weights.filter(|_| config.pages > 0);
            Model {
                place: if paged.is_some() {
                    Place::Absent
                } else {
                    Place::Pinned
                },
                pages: paged.map_or(0, |w| w.pages),
                transfer: Estimate::seeded(paged.map_or(Nanos::ZERO, |w| w.load)),
                users: 0,
                claimed: false,
                earlier: NONE,
                later: NONE,
            }
        };
        Self {
            models: config.models.iter().map(model).collect(),
            free: config.pages,
            evictable: 0,
            oldest: NONE,
            newest: NONE,
            loading: None,
        }
    }

    pub(super) fn place(&self, model: ModelId) -> Place {
        self.models[model.index()].place
    }

    /// Whether an action may read the weights now.
    pub(super) fn is_resident(&self, model: ModelId) -> bool {
        matches!(self.place(model), Place::Pinned | Place::Resident)
    }

    /// When the weights could be there: `now` if they are; after their own transfer, and the one
    /// in flight before it, if not.
    pub(super) fn ready_at(&self, model: ModelId, now: Instant) -> Instant {
        let busy_until = self.loading.map_or(now, |l| l.until.max(now));
        match self.place(model) {
            Place::Pinned | Place::Resident => now,
            Place::Loading => busy_until,
            Place::Absent => busy_until + self.transfer(model),
        }
    }

    /// How long a transfer is expected to take.
    pub(super) fn transfer(&self, model: ModelId) -> Nanos {
        self.models[model.index()].transfer.value()
    }

    /// Whether a transfer can start: none is in flight, and with all evicted that nobody uses the
    /// weights fit.
    pub(super) fn can_load(&self, model: ModelId) -> bool {
        self.loading.is_none() && self.models[model.index()].pages <= self.free + self.evictable
    }

    /// The model to evict before `incoming` can be loaded; it is absent from now on. `None` when
    /// its weights fit.
    pub(super) fn evict_for(&mut self, incoming: ModelId) -> Option<ModelId> {
        if self.models[incoming.index()].pages <= self.free {
            return None;
        }
        let mut at = self.oldest;
        // At most one model an action in flight is skipped.
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

    /// The transfer starts; the pages are taken.
    pub(super) fn start_loading(&mut self, loading: Loading) {
        let model = &mut self.models[loading.model.index()];
        debug_assert!(model.place == Place::Absent && model.pages <= self.free);
        model.place = Place::Loading;
        self.free -= model.pages;
        self.loading = Some(loading);
    }

    /// The transfer in flight ended well. `None` if it is another's name.
    pub(super) fn loaded(&mut self, action: ActionId, took: Nanos) -> Option<ModelId> {
        let loading = self.loading.take_if(|l| l.action == action)?;
        let model = &mut self.models[loading.model.index()];
        model.transfer.measured(took);
        model.place = Place::Resident;
        (model.users, model.claimed) = (1, true);
        self.link_newest(loading.model);
        Some(loading.model)
    }

    /// The transfer in flight failed; its pages are free again.
    pub(super) fn load_failed(&mut self, action: ActionId) -> Option<ModelId> {
        let loading = self.loading.take_if(|l| l.action == action)?;
        let model = &mut self.models[loading.model.index()];
        model.place = Place::Absent;
        self.free += model.pages;
        Some(loading.model)
    }

    /// An action that reads the weights starts.
    pub(super) fn used(&mut self, model: ModelId) {
        if self.place(model) != Place::Resident {
            return;
        }
        let entry = &mut self.models[model.index()];
        if entry.users == 0 {
            self.evictable -= entry.pages;
        }
        // The first user takes the claim over.
        entry.users += u16::from(!entry.claimed);
        entry.claimed = false;
        self.unlink(model);
        self.link_newest(model);
    }

    /// An action that read the weights is over.
    pub(super) fn released(&mut self, model: ModelId) {
        let entry = &mut self.models[model.index()];
        if entry.place != Place::Resident {
            return;
        }
        entry.users -= 1;
        if entry.users == 0 {
            self.evictable += entry.pages;
        }
    }

    /// Nobody waits for the weights any more.
    pub(super) fn unclaim(&mut self, model: ModelId) {
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
