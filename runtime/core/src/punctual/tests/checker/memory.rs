//! What is in the device's memory, by the checker's own books.

use std::vec::Vec;

use super::Violation;
use crate::{ActionId, Config, Instant, ModelId, Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Pinned,
    Absent,
    /// And when it is taken for lost.
    Coming(ActionId, Instant),
    /// Brought by this transfer.
    Here(ActionId),
}

/// Weights by model, and the pages left.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    places: Vec<Place>,
    pages: Vec<u32>,
    loads: Vec<Nanos>,
    free: u32,
}

impl Memory {
    pub(super) fn new(config: &Config) -> Self {
        let paged = |model: &crate::ModelConfig| model.weights.filter(|_| config.pages > 0);
        let models = config.models.iter().map(paged);
        Self {
            places: models
                .clone()
                .map(|weights| weights.map_or(Place::Pinned, |_| Place::Absent))
                .collect(),
            loads: models
                .clone()
                .map(|weights| weights.map_or(Nanos::ZERO, |w| w.load))
                .collect(),
            pages: models
                .map(|weights| weights.map_or(0, |w| w.pages))
                .collect(),
            free: config.pages,
        }
    }

    pub(super) fn is_paged(&self, model: ModelId) -> bool {
        self.places[model.index()] != Place::Pinned
    }

    pub(super) fn is_present(&self, model: ModelId) -> bool {
        matches!(self.places[model.index()], Place::Pinned | Place::Here(_))
    }

    /// Whether a transfer should have been reported long ago.
    pub(super) fn has_lost(&self, now: Instant) -> bool {
        let mut places = self.places.iter();
        places.any(|place| matches!(place, Place::Coming(_, lost) if *lost <= now))
    }

    /// Whose weights a transfer brought that was the last one to do so.
    pub(super) fn brought(&self, id: ActionId) -> Option<ModelId> {
        let model = self
            .places
            .iter()
            .position(|place| *place == Place::Here(id))?;
        Some(ModelId(model as u16))
    }

    pub(super) fn load(
        &mut self,
        now: Instant,
        id: ActionId,
        model: ModelId,
    ) -> Result<(), Violation> {
        let coming = |place: &Place| matches!(place, Place::Coming(_, lost) if *lost > now);
        if self.places[model.index()] != Place::Absent || self.places.iter().any(coming) {
            return Err(Violation::Paging);
        }
        let pages = self.pages[model.index()];
        self.free = self.free.checked_sub(pages).ok_or(Violation::Paging)?;
        let patience = self.loads[model.index()].saturating_mul(16) + Nanos::from_millis(100);
        self.places[model.index()] = Place::Coming(id, now + patience);
        Ok(())
    }

    pub(super) fn unload(&mut self, model: ModelId) -> Result<(), Violation> {
        if !matches!(self.places[model.index()], Place::Here(_)) {
            return Err(Violation::Paging);
        }
        self.places[model.index()] = Place::Absent;
        self.free += self.pages[model.index()];
        Ok(())
    }

    /// A transfer was reported, if `id` was one.
    pub(super) fn over(&mut self, id: ActionId, well: bool) {
        let coming = |place: &Place| matches!(place, Place::Coming(of, _) if *of == id);
        let Some(model) = self.places.iter().position(coming) else {
            return;
        };
        if well {
            self.places[model] = Place::Here(id);
        } else {
            self.places[model] = Place::Absent;
            self.free += self.pages[model];
        }
    }
}
