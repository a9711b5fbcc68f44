//! What is simulated: networks, tasks, a device, and when requests come. A scenario says nothing
//! of policies but how a plan for each is made from it ([`Scenario::config`]).

use punctual_core::{
    BatchTime, Config, ModelConfig, Nanos, PartitionConfig, PartitionId, Partitioning,
    PolicyConfig, StageConfig, StageTime, TaskConfig, Units, Weights,
};
use punctual_model::Calibration;

use crate::faults::Fault;
use crate::timing::Durations;

/// A network, as measured.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Where its figures come from.
    pub source: String,
    /// Its stages.
    pub stages: Vec<Stage>,
    /// What each exit says of held-out pictures, and whether it is right.
    pub calibration: Calibration,
    /// How it is paged in, if the device does not hold all weights.
    pub weights: Option<Weights>,
}

/// A stage's times, by batch and size of partition.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Every batch size with every number of units that was measured.
    pub times: Vec<Measured>,
}

/// Times of a stage at one batch size on one number of compute units.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Batch size.
    pub batch: u8,
    /// Compute units.
    pub units: u16,
    /// Budget and longest time.
    pub time: StageTime,
}

/// A task, with its name.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// What the scheduler knows of it. `partition` is set by [`Scenario::config`].
    pub config: TaskConfig,
}

/// The device.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// Compute units (TPCs, or cores).
    pub units: u16,
    /// Bound on stopping best-effort work.
    pub preemption_bound: Nanos,
    /// Cost of a decision and its hand-over.
    pub dispatch_cost: Nanos,
    /// Bound on the way of a verdict to its client.
    pub egress_bound: Nanos,
    /// Request buffers.
    pub request_buffers: u16,
    /// Pages of weights; 0: everything is resident.
    pub pages: u32,
    /// By how many thousandths an action stretches the time of each other one on a common compute
    /// unit: 1000 shares the unit evenly. Matters to policies that let partitions overlap.
    pub contention_permille: u64,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it is, and where it comes from.
    pub about: String,
    /// The networks.
    pub models: Vec<Model>,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The device.
    pub board: Board,
    /// The partitions for policies that take a plan: units, and the tasks that run there.
    pub planned: Vec<(Units, Vec<usize>)>,
    /// How long requests come.
    pub length: Nanos,
    /// How long things really take.
    pub durations: Durations,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

impl Scenario {
    /// The plan for a policy.
    #[must_use]
    pub fn config(&self, policy: &PolicyConfig) -> Config {
        let whole = Units {
            first: 0,
            count: self.board.units,
        };
        let (ranges, of_task): (Vec<Units>, Vec<usize>) = match policy.partitioning() {
            Partitioning::Planned => {
                let of = |task| {
                    self.planned
                        .iter()
                        .position(|(_, tasks)| tasks.contains(&task))
                };
                let of_task = (0..self.tasks.len()).map(|task| of(task).unwrap_or(0));
                (
                    self.planned.iter().map(|(units, _)| *units).collect(),
                    of_task.collect(),
                )
            }
            Partitioning::Whole => (vec![whole], vec![0; self.tasks.len()]),
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
        };
        let tasks = self.tasks.iter().zip(of_task);
        Config {
            policy: policy.clone(),
            tasks: tasks
                .map(|(task, partition)| TaskConfig {
                    partition: PartitionId(partition as u16),
                    ..task.config.clone()
                })
                .collect(),
            models: self
                .models
                .iter()
                .map(|model| model.config(&ranges))
                .collect(),
            partitions: ranges
                .iter()
                .map(|&units| PartitionConfig {
                    units,
                    preemption_bound: self.board.preemption_bound,
                    share_max: 1000,
                })
                .collect(),
            request_buffers: self.board.request_buffers,
            pages: self.board.pages,
            dispatch_cost: self.board.dispatch_cost,
            egress_bound: self.board.egress_bound,
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
                })
                .collect(),
            weights: self.weights,
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

    /// The time on that many units: between measured sizes that of the next smaller one, as more
    /// units do not help until the next wave fits; below the smallest that of the smallest.
    #[must_use]
    pub fn time(&self, batch: u8, units: u16) -> StageTime {
        let measured = self.times.iter().filter(|m| m.batch == batch);
        let below = measured.clone().filter(|m| m.units <= units);
        let nearest = below.max_by_key(|m| m.units);
        let nearest = nearest.or_else(|| measured.min_by_key(|m| m.units));
        nearest.expect("every batch size was measured").time
    }
}
