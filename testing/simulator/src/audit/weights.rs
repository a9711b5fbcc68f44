//! Paged weights: what is in the device's memory.

use std::collections::BTreeMap;

use punctual_core::{ActionId, Config, Instant, ModelId, Nanos};

use super::violation::Violation;

/// A transfer that was ordered and has not been reported.
#[derive(Clone, Copy, Debug)]
struct Load {
    model: ModelId,
    /// From here on it is taken for lost (see the page of [`super`]).
    lost_from: Instant,
}

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
    /// The budget of a transfer, by model.
    budgets: Vec<Nanos>,
    states: Vec<State>,
    loads: BTreeMap<u64, Load>,
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
            budgets: config
                .models
                .iter()
                .map(|model| model.weights.map_or(Nanos::ZERO, |weights| weights.load))
                .collect(),
            states: sizes.iter().map(state).collect(),
            sizes,
            loads: BTreeMap::new(),
        }
    }

    pub(super) fn is_present(&self, model: ModelId) -> bool {
        self.states.get(model.index()) == Some(&State::Present)
    }

    /// Whether a model's weights come and go.
    pub(super) fn is_paged(&self, model: ModelId) -> bool {
        self.sizes.get(model.index()).is_some_and(|&size| size > 0)
    }

    /// Whether a transfer should have been reported long ago.
    pub(super) fn has_lost(&self, now: Instant) -> bool {
        self.loads.values().any(|load| load.lost_from <= now)
    }

    pub(super) fn load(
        &mut self,
        now: Instant,
        id: ActionId,
        model: ModelId,
    ) -> Result<(), Violation> {
        if self.states.get(model.index()) != Some(&State::Absent) {
            return Err(Violation::WrongWeights { model });
        }
        let under_way = self.loads.values().any(|load| load.lost_from > now);
        self.states[model.index()] = State::Loading;
        self.taken += self.sizes[model.index()];
        let patience = self.budgets[model.index()].saturating_mul(super::LOST_FACTOR);
        let lost_from = now + patience + super::LOST_FLOOR;
        self.loads.insert(id.0, Load { model, lost_from });
        if self.taken > self.pages {
            return Err(Violation::PagesExceeded {
                model,
                taken: self.taken,
                pages: self.pages,
            });
        }
        if under_way {
            return Err(Violation::TwoTransfers { model });
        }
        Ok(())
    }

    /// A load was reported; `ok` if the weights are there now. Whose they are; none: it was no load.
    pub(super) fn loaded(&mut self, id: ActionId, ok: bool) -> Option<ModelId> {
        let model = self.loads.remove(&id.0)?.model;
        if ok {
            self.states[model.index()] = State::Present;
        } else {
            self.drop_weights(model);
        }
        Some(model)
    }

    /// `in_use`: an action on the model is in flight, or promised.
    pub(super) fn unload(&mut self, model: ModelId, in_use: bool) -> Result<(), Violation> {
        if !self.is_paged(model) || in_use || !self.is_present(model) {
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
