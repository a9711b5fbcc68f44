//! Weights on the device and off it, as the policies that page them see it (Clockwork, sections
//! 5.2 and 5.3): what is resident, what goes when something comes, what is on its way.
//!
//! Which models' weights are on the device, and which go when another's come: pages are counted, the least
//! recently used model goes first. Weights that were fetched stay until they were used once, or nobody waits
//! for them any more: in a small memory two models could else take the place from each other for ever.
//!
//! A transfer that is not reported in time is taken for lost ([`crate::lost`]). What it may still be
//! writing to stays taken, and its model is nobody's until it is reported; other transfers go on.

mod estimate;

use alloc::boxed::Box;

pub use estimate::Estimate;

use crate::config::{Config, StageTime};
use crate::ids::{ActionId, ModelId};
use crate::lost::lost_from;
use crate::time::{Instant, Nanos};

/// Where a model's weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the device, for good.
    Pinned,
    /// On the device until others need the pages.
    Resident,
    /// On their way.
    Loading,
    /// On their way for so long that nobody waits for them any more.
    Lost,
    /// In the host's memory only.
    Absent,
}

#[derive(Clone, Debug)]
struct Model {
    place: Place,
    pages: u32,
    /// The plan's budget of a transfer.
    budget: Nanos,
    transfer: Estimate,
    /// Who reads the weights, or was promised to; a claim counts as one.
    users: u16,
    /// Lost actions that may still be reading the weights; each is a user, too.
    lost_users: u16,
    /// The transfer that was taken for lost.
    lost_transfer: ActionId,
    /// Claimed by those the weights were fetched for, until the first of them uses them.
    claimed: bool,
    /// Neighbours in the order of use: used before, used after. Meaningful while resident.
    earlier: u32,
    later: u32,
}

/// The transfer in flight: there is one at a time, as each has the whole of the bus.
#[derive(Clone, Copy, Debug)]
struct Loading {
    action: ActionId,
    model: ModelId,
    /// When it should have ended.
    until: Instant,
    /// From when on it is taken for lost.
    lost_from: Instant,
}

/// The pages and who has them.
#[derive(Clone, Debug)]
pub struct Residency {
    models: Box<[Model]>,
    all: u32,
    free: u32,
    /// Pages that lost transfers and lost actions hold.
    locked: u32,
    /// Lost transfers that were not reported.
    lost: usize,
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

    /// Where a model's weights are now.
    pub fn place(&self, model: ModelId) -> Place {
        self.models[model.index()].place
    }

    /// Whether an action may read the weights now.
    pub fn is_resident(&self, model: ModelId) -> bool {
        matches!(self.place(model), Place::Pinned | Place::Resident)
    }

    /// When the weights could be there: `now` if they are; after their own transfer, and the one
    /// in flight before it, if not.
    pub fn ready_at(&self, model: ModelId, now: Instant) -> Instant {
        let busy_until = self.loading.map_or(now, |l| l.until.max(now));
        match self.place(model) {
            Place::Pinned | Place::Resident => now,
            Place::Loading => busy_until,
            Place::Absent => busy_until + self.transfer(model),
            Place::Lost => Instant::FAR_FUTURE,
        }
    }

    /// How long a transfer is expected to take.
    pub fn transfer(&self, model: ModelId) -> Nanos {
        self.models[model.index()].transfer.value()
    }

    /// Whether a transfer can start: none is in flight, and with all evicted that nobody uses the weights fit.
    pub fn can_load(&self, model: ModelId) -> bool {
        self.loading.is_none() && self.models[model.index()].pages <= self.free + self.evictable
    }

    /// The model to evict before `incoming` can be loaded; it is absent from now on. `None` when its weights fit.
    pub fn evict_for(&mut self, incoming: ModelId) -> Option<ModelId> {
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
    pub fn start_loading(&mut self, action: ActionId, model: ModelId, now: Instant) {
        let entry = &mut self.models[model.index()];
        debug_assert!(entry.place == Place::Absent && entry.pages <= self.free);
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

    /// A transfer ended well. `None` if it is another's name.
    pub fn loaded(&mut self, action: ActionId, took: Nanos) -> Option<ModelId> {
        let (id, lost) = self.over(action)?;
        let model = &mut self.models[id.index()];
        model.transfer.measured(took);
        model.place = Place::Resident;
        // Nobody waits for what was lost.
        (model.users, model.claimed) = (u16::from(!lost), !lost);
        self.evictable += if lost { model.pages } else { 0 };
        self.link_newest(id);
        Some(id)
    }

    /// A transfer failed; its pages are free again.
    pub fn load_failed(&mut self, action: ActionId) -> Option<ModelId> {
        let (id, _) = self.over(action)?;
        let model = &mut self.models[id.index()];
        model.place = Place::Absent;
        self.free += model.pages;
        Some(id)
    }

    /// Whose transfer it was that is over, and whether it was taken for lost.
    fn over(&mut self, action: ActionId) -> Option<(ModelId, bool)> {
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

    /// Takes the transfer in flight for lost, if it should have been reported long ago; whose
    /// weights it was to bring, then.
    pub fn give_up(&mut self, now: Instant) -> Option<ModelId> {
        let loading = self.loading.take_if(|l| l.lost_from <= now)?;
        let model = &mut self.models[loading.model.index()];
        (model.place, model.lost_transfer) = (Place::Lost, loading.action);
        self.lost += 1;
        self.locked += model.pages;
        Some(loading.model)
    }

    /// When the transfer in flight will be taken for lost.
    pub fn next_loss(&self) -> Option<Instant> {
        self.loading.map(|loading| loading.lost_from)
    }

    /// Whether a model's weights are on the device or can come there, now or once others are done
    /// with theirs: not if what was lost holds its pages.
    pub fn can_come(&self, model: ModelId) -> bool {
        match self.place(model) {
            Place::Pinned | Place::Resident | Place::Loading => true,
            Place::Absent => self.models[model.index()].pages <= self.all - self.locked,
            Place::Lost => false,
        }
    }

    /// A lost action may be reading the weights.
    pub fn lock(&mut self, model: ModelId) {
        let model = &mut self.models[model.index()];
        self.locked += if model.lost_users == 0 {
            model.pages
        } else {
            0
        };
        model.lost_users += 1;
    }

    /// A lost action that was locked is not lost any more.
    pub fn unlock(&mut self, model: ModelId) {
        let model = &mut self.models[model.index()];
        model.lost_users -= 1;
        self.locked -= if model.lost_users == 0 {
            model.pages
        } else {
            0
        };
    }

    /// Somebody relies on the weights from now on: an action that reads them, or a promise.
    pub fn used(&mut self, model: ModelId) {
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

    /// How many rely on a model's weights; `None` unless they can come and go and are there.
    pub fn users(&self, model: ModelId) -> Option<usize> {
        let entry = &self.models[model.index()];
        (entry.place == Place::Resident).then_some(usize::from(entry.users))
    }

    /// One who relied on the weights does so no longer.
    pub fn released(&mut self, model: ModelId) {
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
