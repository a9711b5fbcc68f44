//! Weights that come and go: which are there, to count what requests find.

use punctual_core::{ActionId, Config, ModelId, Nanos, TaskId};

use crate::metrics::{PagingMetrics, count};

/// Where a model's weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Pinned: on the device from start to end.
    Pinned,
    Absent,
    Coming(ActionId),
    Here,
}

/// What the scheduler thread knows of weights.
#[derive(Debug)]
pub struct WeightTracker {
    /// By model.
    places: Box<[Place]>,
    model_of_task: Box<[ModelId]>,
}

impl WeightTracker {
    /// As a plan begins: what is paged is absent.
    pub fn new(config: &Config) -> Self {
        let paged = config.models.iter();
        let paged = paged.map(|model| config.pages > 0 && model.weights.is_some());
        Self::of(paged, config.tasks.iter().map(|task| task.model))
    }

    /// For models of which some are paged, and tasks that ask them.
    pub fn of(
        paged: impl Iterator<Item = bool>,
        model_of_task: impl Iterator<Item = ModelId>,
    ) -> Self {
        let place = |paged| if paged { Place::Absent } else { Place::Pinned };
        Self {
            places: paged.map(place).collect(),
            model_of_task: model_of_task.collect(),
        }
    }

    /// A request of a task was taken in: does it find its weights?
    pub fn asked(&self, task: TaskId, metrics: &PagingMetrics) {
        match self.places[self.model_of_task[task.index()].index()] {
            Place::Pinned => {}
            Place::Here => count(&metrics.hits),
            Place::Absent | Place::Coming(_) => count(&metrics.misses),
        }
    }

    /// The device took an order to load.
    pub fn coming(&mut self, action: ActionId, model: ModelId) {
        self.places[model.index()] = Place::Coming(action);
    }

    /// The pages of a model are free.
    pub fn gone(&mut self, model: ModelId, metrics: &PagingMetrics) {
        self.places[model.index()] = Place::Absent;
        count(&metrics.evictions);
    }

    /// A load is over; `measured` if the weights are there. Whose they are; none: it was no load.
    pub fn over(
        &mut self,
        action: ActionId,
        measured: Option<Nanos>,
        metrics: &PagingMetrics,
    ) -> Option<ModelId> {
        let mut places = (0..).map(ModelId).zip(&mut self.places);
        let (model, place) = places.find(|(_, place)| **place == Place::Coming(action))?;
        match measured {
            Some(took) => {
                *place = Place::Here;
                metrics.loads.record(took.as_nanos());
            }
            None => {
                *place = Place::Absent;
                count(&metrics.failed);
            }
        }
        Some(model)
    }
}
