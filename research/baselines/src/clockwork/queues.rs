//! The waiting requests by model, and the strategies made of them (Clockwork, section 5.3).

use super::ranking::Ranking;
use punctual_core::bounded::List;
use punctual_core::residency::Estimate;
use punctual_core::{Config, Instant, ModelId, Nanos};
use punctual_policy_seeb::batch_runner::Members;

/// A request in a model's queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) due: Instant,
    /// Ties: order of arrival.
    pub(super) order: u64,
    pub(super) buffer: u16,
}

/// A batch that can run now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strategy {
    pub(super) model: ModelId,
    /// Position in the model's queue of its first member; the others follow it.
    first: usize,
    batch: usize,
    /// L(batch).
    pub(super) length: Nanos,
    /// When it must have begun for its first member to end in time.
    pub(super) latest: Instant,
}

/// A compiled batch size of a model.
#[derive(Clone, Debug)]
struct Size {
    batch: usize,
    /// L(batch).
    length: Estimate,
}

#[derive(Clone, Debug)]
struct Model {
    /// By (due, order). The batch queue of a size is the part of it from the first request that
    /// is due L(batch) from now or later: all sizes share the one list.
    queue: List<Waiting>,
    sizes: Box<[Size]>,
    /// What is added to measurements: the dispatch cost of all stages, and the margin.
    overhead: Nanos,
    /// The strategy of its first size; the others follow it.
    strategy: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Queues {
    models: Box<[Model]>,
    /// Which model a strategy is of.
    model_of: Box<[ModelId]>,
    /// Strategies whose batch queue holds enough requests, by latest.
    strategies: Ranking,
}

impl Queues {
    pub(super) fn new(config: &Config, margin: Nanos) -> Self {
        let mut model_of = Vec::new();
        let mut models = Vec::with_capacity(config.models.len());
        let demands = Asked::by_model(config);
        for (index, (plan, asked)) in config.models.iter().zip(demands).enumerate() {
            let id = ModelId(index as u16);
            // Whole networks run: every stage must be compiled for it.
            let largest = plan.stages.iter().filter_map(|stage| stage.times.last());
            let largest = largest
                .map(|time| usize::from(time.batch))
                .min()
                .unwrap_or(1);
            let compiled = plan.stages[0]
                .times
                .iter()
                .map(|time| usize::from(time.batch));
            let sizes = compiled.filter(|&batch| batch <= asked.batch_max.min(largest));
            let strategy = model_of.len();
            let sizes: Box<[Size]> = sizes
                .map(|batch| Size {
                    batch,
                    length: Estimate::seeded(profiled(config, id, batch) + margin),
                })
                .collect();
            model_of.extend(sizes.iter().map(|_| id));
            models.push(Model {
                queue: List::with_capacity(asked.queue_max),
                sizes,
                overhead: margin
                    + config
                        .dispatch_cost
                        .saturating_mul(plan.stages.len() as u64),
                strategy,
            });
        }
        Self {
            models: models.into(),
            strategies: Ranking::new(model_of.len()),
            model_of: model_of.into(),
        }
    }

    /// L(1).
    pub(super) fn alone(&self, model: ModelId) -> Nanos {
        self.models[model.index()].sizes[0].length.value()
    }

    /// How many requests wait for a model.
    pub(super) fn waiting(&self, model: ModelId) -> usize {
        self.models[model.index()].queue.len()
    }

    /// The one of them that is due first.
    pub(super) fn head(&self, model: ModelId) -> Option<&Waiting> {
        self.models[model.index()].queue.first()
    }

    /// Takes the head off.
    ///
    /// # Panics
    /// If nothing waits.
    pub(super) fn pop(&mut self, model: ModelId) -> Waiting {
        self.models[model.index()].queue.remove(0)
    }

    pub(super) fn insert(&mut self, model: ModelId, waiting: Waiting) {
        let queue = &mut self.models[model.index()].queue;
        let key = (waiting.due, waiting.order);
        let at = queue.partition_point(|w| (w.due, w.order) < key);
        queue.insert(at, waiting);
    }

    pub(super) fn remove(&mut self, model: ModelId, buffer: u16) {
        let queue = &mut self.models[model.index()].queue;
        if let Some(at) = queue.iter().position(|w| w.buffer == buffer) {
            queue.remove(at);
        }
    }

    pub(super) fn measured(&mut self, model: ModelId, batch: usize, took: Nanos) {
        let model = &mut self.models[model.index()];
        if let Some(size) = model.sizes.iter_mut().find(|size| size.batch == batch) {
            size.length.measured(took + model.overhead);
        }
    }

    /// Makes the strategies of a model anew: one a batch queue that holds enough requests, if the weights are there.
    pub(super) fn refresh(&mut self, now: Instant, model: ModelId, resident: bool) {
        let model = &self.models[model.index()];
        for (index, size) in model.sizes.iter().enumerate() {
            let length = size.length.value();
            let first = first_in_time(&model.queue, now + length);
            let holds_enough = model.queue.len() - first >= size.batch;
            let latest = (resident && holds_enough).then(|| model.queue[first].due - length);
            self.strategies
                .set(model.strategy + index, latest.map(Instant::as_nanos));
        }
    }

    /// The strategy with the smallest latest, with its batch raised as far as it goes.
    pub(super) fn choose(&mut self, now: Instant) -> Option<Strategy> {
        loop {
            let (latest, index) = self.strategies.first()?;
            let id = self.model_of[index];
            if latest < now.as_nanos() {
                // Its head has left the batch queue: there is another head, or not enough.
                self.refresh(now, id, true);
                continue;
            }
            let model = &self.models[id.index()];
            let mut size = &model.sizes[index - model.strategy];
            let first = first_in_time(&model.queue, now + size.length.value());
            let head = &model.queue[first];
            for larger in &model.sizes[index - model.strategy..] {
                let in_time = now + larger.length.value() <= head.due;
                if in_time && model.queue.len() - first >= larger.batch {
                    size = larger;
                }
            }
            let length = size.length.value();
            return Some(Strategy {
                model: id,
                first,
                batch: size.batch,
                length,
                latest: head.due - length,
            });
        }
    }

    /// Takes the members of a strategy that was just chosen off the queue.
    pub(super) fn take(&mut self, strategy: &Strategy, members: &mut Members) {
        let queue = &mut self.models[strategy.model.index()].queue;
        for waiting in queue.drain(strategy.first..strategy.first + strategy.batch) {
            members
                .push(waiting.buffer)
                .expect("compiled batches fit an action");
        }
    }
}

/// The first request of a queue that is due at `end` or later.
fn first_in_time(queue: &[Waiting], end: Instant) -> usize {
    queue.partition_point(|waiting| waiting.due < end)
}

/// What the tasks that ask a model want of it.
#[derive(Clone, Copy)]
struct Asked {
    batch_max: usize,
    queue_max: usize,
}

impl Asked {
    fn by_model(config: &Config) -> Vec<Self> {
        let nothing = Self {
            batch_max: usize::MAX,
            queue_max: 0,
        };
        let mut asked = vec![nothing; config.models.len()];
        for task in &config.tasks {
            let asked = &mut asked[task.model.index()];
            asked.batch_max = asked.batch_max.min(usize::from(task.batch_max));
            let queue_max = asked.queue_max + usize::from(task.queue_max);
            asked.queue_max = queue_max.min(usize::from(config.request_buffers));
        }
        asked
    }
}

/// L(batch) from the profile, on the partition where it is the longest.
fn profiled(config: &Config, model: ModelId, batch: usize) -> Nanos {
    let stages = &config.models[model.index()].stages;
    let on = |partition: usize| {
        stages.iter().fold(Nanos::ZERO, |sum, stage| {
            let holds = stage
                .times
                .iter()
                .find(|time| usize::from(time.batch) >= batch);
            let time = holds
                .or(stage.times.last())
                .expect("validated: a stage has times");
            sum + time.on[partition].budget + config.dispatch_cost
        })
    };
    (0..config.partitions.len())
        .map(on)
        .max()
        .unwrap_or(Nanos::ZERO)
}
