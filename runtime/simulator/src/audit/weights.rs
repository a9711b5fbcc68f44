//! Paged weights: what is in the device's memory.

use std::collections::BTreeMap;

use punctual_core::{ActionId, Config, ModelId};

use super::violation::Violation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Loading,
    Present,
}

/// Weights by model. Without pages in the plan all are present for good.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pages: u64,
    taken: u64,
    sizes: Vec<u64>,
    states: Vec<State>,
    loads: BTreeMap<u64, ModelId>,
}

impl Memory {
    pub(super) fn new(config: &Config) -> Self {
        let size = |model: &punctual_core::ModelConfig| match (config.pages, &model.weights) {
            (0, _) | (_, None) => 0,
            (_, Some(weights)) => u64::from(weights.pages),
        };
        let sizes: Vec<u64> = config.models.iter().map(size).collect();
        let state = |&size: &u64| {
            if size == 0 {
                State::Present
            } else {
                State::Absent
            }
        };
        Self {
            pages: u64::from(config.pages),
            taken: 0,
            states: sizes.iter().map(state).collect(),
            sizes,
            loads: BTreeMap::new(),
        }
    }

    pub(super) fn is_present(&self, model: ModelId) -> bool {
        self.states.get(model.index()) == Some(&State::Present)
    }

    pub(super) fn load(&mut self, id: ActionId, model: ModelId) -> Result<(), Violation> {
        if self.states.get(model.index()) != Some(&State::Absent) {
            return Err(Violation::WrongWeights { model });
        }
        self.states[model.index()] = State::Loading;
        self.taken += self.sizes[model.index()];
        self.loads.insert(id.0, model);
        if self.taken > self.pages {
            return Err(Violation::PagesExceeded {
                model,
                taken: self.taken,
                pages: self.pages,
            });
        }
        Ok(())
    }

    /// A load was reported; `ok` if the weights are there now. False: it was no load.
    pub(super) fn loaded(&mut self, id: ActionId, ok: bool) -> bool {
        let Some(model) = self.loads.remove(&id.0) else {
            return false;
        };
        if ok {
            self.states[model.index()] = State::Present;
        } else {
            self.drop_weights(model);
        }
        true
    }

    /// `in_use`: an action on the model is in flight.
    pub(super) fn unload(&mut self, model: ModelId, in_use: bool) -> Result<(), Violation> {
        let paged = self.sizes.get(model.index()).is_some_and(|&size| size > 0);
        if !paged || in_use || !self.is_present(model) {
            return Err(Violation::WrongWeights { model });
        }
        self.drop_weights(model);
        Ok(())
    }

    fn drop_weights(&mut self, model: ModelId) {
        self.states[model.index()] = State::Absent;
        self.taken -= self.sizes[model.index()];
    }
}
