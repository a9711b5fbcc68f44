//! `clockwork`: every batch and every transfer of weights is chosen centrally, from predicted times, and only
//! if it will end in time (Gujarati et al., "Serving DNNs like Clockwork", OSDI 2020, sections 4.5 and 5.3).
//!
//! - A request enters the batch queue of every compiled batch size b, and leaves it when it could
//!   not end in time in a batch of b any more: when its deadline is less than L(b) away. L(b) is
//!   the 99th percentile of the last ten measurements (`pages::Estimate`).
//! - A *strategy* is a model and a batch size whose queue holds at least b requests. Its *latest*
//!   is the deadline at the head of that queue less L(b). A free partition takes the strategy with
//!   the smallest latest (`queues`), and raises its batch while enough requests are there and the
//!   head still ends in time. Batches are full: none is padded.
//! - The action's window is from now to latest.
//! - A request that cannot end in time even alone is rejected before anything is done for it.
//! - Weights: while none are on their way, those of the absent model with the largest load
//!   priority are fetched; the least recently used ones make room (`pages`).
//!
//! What the paper leaves open or has differently, and what is done here:
//!
//! - A worker there is a GPU with its own memory, here a partition of one device: the partitions
//!   share the weights and the bus. With one memory, an absent model has no allocation on any
//!   GPU, so its load priority is its whole demand; models on the device are no candidates.
//! - Demand is the time of the waiting requests one by one, L(1) each. Those that cannot benefit
//!   from a transfer any more have been rejected, so they do not count.
//! - Profiles are by model and batch; there also by worker. Where partitions differ, the slowest
//!   seeds the estimate and the slowest of the last ten is what it says.
//! - There actions are handed over up to 5 ms ahead, to hide the network between controller and
//!   worker. Here nothing lies between: an action is chosen when its partition is free, which
//!   leaves more to choose from.
//! - A network runs stage by stage to its last exit, on one partition without a pause.
//! - A model's queue is by deadline; with one SLO a model that is the order of arrival. Requests
//!   without deadline count as due a century after capture, so that they come last and in turn.
//! - A model asked by several tasks runs batches that all of them allow.

mod queues;
mod ranking;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use punctual_core::residency::{Place, Residency};
use punctual_core::{
    Action, ActionId, Actions, Config, Contract, Instant, ModelId, Nanos, PartitionId,
    Partitioning, Policy, PolicySpec, Rejection,
};
use punctual_policy_seeb::batch_runner::{
    Baseline, BaselineRules, BatchRunner, Ended, Job, Members,
};

use queues::{Queues, Waiting};
use ranking::Ranking;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClockworkConfig {
    /// Added to every prediction of an inference. None is published; without one, a request that begins
    /// at its last moment is late whenever the prediction falls short by a microsecond.
    #[serde(default)]
    pub margin: Nanos,
}

/// When a request without a deadline counts as due, after its capture.
const PATIENCE: Nanos = Nanos::from_millis(100 * 365 * 24 * 3_600_000);

impl PolicySpec for ClockworkConfig {
    fn name(&self) -> &'static str {
        "clockwork"
    }

    fn summary(&self) -> &'static str {
        "only what will end in time, by the times of the last ten runs (Clockwork)"
    }

    fn contract(&self) -> Contract {
        Contract {
            pages_weights: true,
            ..Contract::best_effort(Partitioning::Whole)
        }
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Clockwork::new(config, self))
    }
}

#[derive(Debug)]
struct Clockwork {
    queues: Queues,
    residency: Residency,
    /// Models with waiting requests, by the last moment at which something must begin (the
    /// transfer, or the stages) for the request at the head to end in time alone.
    last_calls: Ranking,
    /// Absent models with waiting requests, by falling demand.
    demand: Ranking,
    /// When the job of a partition should end.
    busy_until: Box<[Instant]>,
    margin: Nanos,
}

impl Clockwork {
    fn new(config: &Config, parameters: &ClockworkConfig) -> Self {
        let models = config.models.len();
        Self {
            queues: Queues::new(config, parameters.margin),
            residency: Residency::new(config),
            last_calls: Ranking::new(models),
            demand: Ranking::new(models),
            margin: parameters.margin,
            busy_until: vec![Instant::ZERO; config.partitions.len()].into(),
        }
    }

    /// Something about a model changed: its queue, its estimates or where its weights are.
    fn refresh(&mut self, now: Instant, model: ModelId) {
        let place = self.residency.place(model);
        self.queues
            .refresh(now, model, self.residency.is_resident(model));
        let alone = self.queues.alone(model);
        let ahead = match place {
            Place::Absent => alone + self.residency.transfer(model),
            Place::Pinned | Place::Resident | Place::Loading | Place::Lost => alone,
        };
        let head = self.queues.head(model);
        let last_call = head.map(|head| head.due - ahead);
        self.last_calls
            .set(model.index(), last_call.map(Instant::as_nanos));
        let waiting = self.queues.waiting(model) as u64;
        let demanded = alone.saturating_mul(waiting).as_nanos();
        if waiting == 0 {
            self.residency.unclaim(model);
        }
        let wanted = place == Place::Absent && self.residency.can_come(model) && waiting > 0;
        self.demand
            .set(model.index(), wanted.then_some(u64::MAX - demanded));
    }

    /// The earliest time at which a partition should be free.
    fn free_at(&self, runner: &BatchRunner) -> Instant {
        let partitions = self.busy_until.iter().enumerate();
        let free = partitions.map(|(index, until)| {
            if runner.is_free(PartitionId(index as u16)) {
                runner.now
            } else {
                runner.now.max(*until)
            }
        });
        free.min().unwrap_or(runner.now)
    }

    /// Rejects what can no longer end in time.
    fn reject_hopeless(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        while let Some((key, index)) = self.last_calls.first() {
            if key >= runner.now.as_nanos() {
                return;
            }
            let model = ModelId(index as u16);
            let hopeless = self.queues.pop(model);
            runner.reject(hopeless.buffer, Rejection::NoSlack, actions);
            self.refresh(runner.now, model);
        }
    }

    /// Takes a transfer for lost, if it is time, and rejects requests that can no longer be served: those for its weights,
    /// or for others that do not fit into memory together with it.
    fn give_up_transfer(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        if self.residency.give_up(runner.now).is_none() {
            return;
        }
        for index in 0..runner.config.models.len() {
            let model = ModelId(index as u16);
            if self.residency.can_come(model) {
                continue;
            }
            while self.queues.waiting(model) > 0 {
                let waiting = self.queues.pop(model);
                runner.reject(waiting.buffer, Rejection::NoSlack, actions);
            }
            self.refresh(runner.now, model);
        }
    }

    /// Gives a free partition the strategy with the smallest latest. False: there is none.
    fn infer(
        &mut self,
        runner: &mut BatchRunner,
        partition: PartitionId,
        actions: &mut Actions,
    ) -> bool {
        let Some(strategy) = self.queues.choose(runner.now) else {
            return false;
        };
        let model = strategy.model;
        let mut members = Members::new();
        self.queues.take(&strategy, &mut members);
        self.residency.used(model);
        self.busy_until[partition.index()] =
            runner.now + strategy.length.saturating_sub(self.margin);
        runner.start(partition, members, true, strategy.latest, actions);
        self.refresh(runner.now, model);
        true
    }

    /// Fetches the weights that are wanted most.
    fn load(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        let Some((_, index)) = self.demand.first() else {
            return;
        };
        let model = ModelId(index as u16);
        if !self.residency.can_load(model) {
            return;
        }
        while let Some(evicted) = self.residency.evict_for(model) {
            actions.push(Action::Unload { model: evicted });
            self.refresh(runner.now, evicted);
        }
        let id = runner.name_action();
        actions.push(Action::Load { id, model });
        self.residency.start_loading(id, model, runner.now);
        self.refresh(runner.now, model);
    }
}

impl BaselineRules for Clockwork {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        let request = runner.request(buffer);
        let model = runner.config.tasks[request.task.index()].model;
        let due = match request.due {
            Instant::FAR_FUTURE => request.captured + PATIENCE,
            due => due,
        };
        let alone = self.queues.alone(model);
        if runner.now + alone > due {
            return Err(Rejection::LateOnArrival);
        }
        let start = self
            .free_at(runner)
            .max(self.residency.ready_at(model, runner.now));
        if start + alone > due || !self.residency.can_come(model) {
            return Err(Rejection::NoSlack);
        }
        let order = request.order;
        self.queues.insert(model, Waiting { due, order, buffer });
        self.refresh(runner.now, model);
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        let model = runner.config.tasks[runner.request(buffer).task.index()].model;
        self.queues.remove(model, buffer);
        self.refresh(runner.now, model);
    }

    fn ended(&mut self, runner: &mut BatchRunner, job: &Job, how: Ended) {
        self.residency.released(job.model);
        if how == Ended::Finished {
            self.queues.measured(job.model, job.size, job.measured);
        }
        self.refresh(runner.now, job.model);
    }

    fn loaded(&mut self, runner: &mut BatchRunner, action: ActionId, measured: Option<Nanos>) {
        let model = match measured {
            Some(took) => self.residency.loaded(action, took),
            None => self.residency.load_failed(action),
        };
        if let Some(model) = model {
            self.refresh(runner.now, model);
        }
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        self.give_up_transfer(runner, actions);
        self.reject_hopeless(runner, actions);
        for index in 0..self.busy_until.len() {
            let partition = PartitionId(index as u16);
            if runner.is_free(partition) && !self.infer(runner, partition, actions) {
                break;
            }
        }
        self.load(runner, actions);
    }

    fn next_timer(&self, _runner: &BatchRunner) -> Option<Instant> {
        let last_call = self.last_calls.first();
        let last_call = last_call.map(|(at, _)| Instant::from_nanos(at) + Nanos::new(1));
        last_call
            .into_iter()
            .chain(self.residency.next_loss())
            .min()
    }
}
