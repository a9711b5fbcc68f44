//! The plan that a policy gets of a scenario: which partitions there are, which tasks run on each,
//! and how long stages take there.

use punctual_core::{
    BatchTime, Config, ModelConfig, ModelId, Nanos, PartitionConfig, PartitionId, Partitioning,
    PolicySpec, StageConfig, TaskConfig, Units,
};

use crate::scenario::{Lending, Model, Scenario, Stage};

impl Scenario {
    #[must_use]
    pub fn config(&self, policy: &dyn PolicySpec) -> Config {
        let contract = policy.contract();
        if let Some(recorded) = &self.recorded
            && contract.partitioning == Partitioning::Planned
        {
            return recorded.plan(contract.lends && self.lending.is_some());
        }
        let (ranges, of_task) = self.partitions(contract.partitioning);
        if let Some(lending) = self.lending.as_ref().filter(|_| contract.lends) {
            return self.lending_config(lending, policy);
        }
        let mut models: Vec<ModelConfig> = self
            .models
            .iter()
            .map(|model| model.config(&ranges))
            .collect();
        if let Some(recorded) = &self.recorded {
            recorded.inform(&mut models);
        }
        let mut pages = self.board.pages;
        if contract.promises && pages > 0 {
            pages = self.keep_reserved(&mut models, pages);
        }
        let tasks = self.tasks.iter().zip(of_task);
        Config {
            tasks: tasks
                .map(|(task, partition)| TaskConfig {
                    partition: PartitionId(partition as u16),
                    ..task.config.clone()
                })
                .collect(),
            models,
            partitions: ranges
                .iter()
                .map(|&units| PartitionConfig {
                    units,
                    preemption_bound: self.board.preemption_bound,
                    share_max: 1000,
                })
                .collect(),
            request_buffers: self.board.request_buffers,
            pages,
            dispatch_cost: self.board.dispatch_cost,
            egress_bound: self.board.egress_bound,
        }
    }

    /// The plan of a policy that lends: aligned homes, and places behind them.
    fn lending_config(&self, lending: &Lending, policy: &dyn PolicySpec) -> Config {
        let mut scenario = Self {
            lending: None,
            ..self.clone()
        };
        if !lending.homes.is_empty() {
            scenario.planned.clone_from(&lending.homes);
        }
        let homes = scenario.planned.len();
        let places = lending.places.iter().map(|units| (*units, Vec::new()));
        scenario.planned.extend(places);
        let mut config = scenario.config(policy);
        let places = homes..config.partitions.len();
        for (model, measured) in config.models.iter_mut().zip(&self.models) {
            let least = measured.fewest_units();
            let measured = |at: &usize| config.partitions[*at].units.count >= least;
            let places = places.clone().filter(measured);
            model.places = places.map(|at| PartitionId(at as u16)).collect();
            let stages = model.stages.iter_mut();
            let times = stages.flat_map(|stage| &mut stage.times);
            for time in times.flat_map(|time| &mut time.on[homes..]) {
                let stretch =
                    |span: Nanos| Nanos::new((span.as_nanos() as f64 * lending.corun) as u64);
                time.budget = stretch(time.budget);
                time.max_seen = stretch(time.max_seen);
            }
        }
        config
    }

    /// A policy that promises keeps the weights that reservations need for good; the pages that are
    /// left for the others, at least one.
    fn keep_reserved(&self, models: &mut [ModelConfig], pages: u32) -> u32 {
        let mut left = pages;
        for task in self.tasks.iter().filter(|task| task.config.reserved) {
            let kept = models[task.config.model.index()].weights.take();
            left = left.saturating_sub(kept.map_or(0, |weights| weights.pages));
        }
        left.max(1)
    }

    /// The partitions of a plan, and each task's.
    fn partitions(&self, partitioning: Partitioning) -> (Vec<Units>, Vec<usize>) {
        let whole = Units {
            first: 0,
            count: self.board.units,
        };
        match partitioning {
            Partitioning::Planned => {
                let of_task = (0..self.tasks.len()).map(|task| place(&self.planned, task));
                (
                    self.planned.iter().map(|(units, _)| *units).collect(),
                    of_task.collect(),
                )
            }
            Partitioning::Whole => {
                let workers = usize::from(self.board.workers.max(1));
                let device = |worker| Units {
                    first: worker as u16 * self.board.units,
                    count: self.board.units,
                };
                let of_task = (0..self.tasks.len()).map(|task| task % workers);
                ((0..workers).map(device).collect(), of_task.collect())
            }
            Partitioning::Ranges => {
                // The whole is the last one; tasks start there.
                let ranges: Vec<Units> = (1..=self.board.units)
                    .flat_map(|count| {
                        let firsts = 0..=self.board.units - count;
                        firsts.map(move |first| Units { first, count })
                    })
                    .collect();
                let last = ranges.len() - 1;
                (ranges, vec![last; self.tasks.len()])
            }
            Partitioning::PerTask => (
                vec![whole; self.tasks.len()],
                (0..self.tasks.len()).collect(),
            ),
        }
    }
}

impl Model {
    /// The model as the scheduler sees it, on partitions of these sizes.
    fn config(&self, ranges: &[Units]) -> ModelConfig {
        let exits = self.calibration.exit_accuracies(self.stages.len());
        let stages = self.stages.iter().zip(exits);
        ModelConfig {
            stages: stages
                .map(|(stage, exit)| StageConfig {
                    times: stage.batch_times(ranges),
                    accuracy: exit.accuracy,
                    deeper: exit.deeper,
                    follows: exit.follows,
                    answers: !stage.headless,
                    runs_as: stage.runs_as.map(|model| ModelId(model as u16)),
                })
                .collect(),
            weights: self.weights,
            places: Vec::new(),
        }
    }
}

impl Stage {
    fn batch_times(&self, ranges: &[Units]) -> Vec<BatchTime> {
        let mut batches: Vec<u8> = self.times.iter().map(|measured| measured.batch).collect();
        batches.sort_unstable();
        batches.dedup();
        let time = |batch| BatchTime {
            batch,
            on: ranges
                .iter()
                .map(|range| self.time(batch, range.count))
                .collect(),
        };
        batches.into_iter().map(time).collect()
    }
}

/// The partition that a task is on; the first if none names it.
fn place(planned: &[(Units, Vec<usize>)], task: usize) -> usize {
    let named = planned.iter().position(|(_, tasks)| tasks.contains(&task));
    named.unwrap_or(0)
}
