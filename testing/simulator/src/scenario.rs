//! What is simulated: networks, tasks, a device, and when requests come. A scenario says nothing
//! of policies; how a plan for each is made from it is in [`crate::plan`].

use std::sync::Arc;

use punctual_core::{
    Answers, BATCH_MAX, Confidence, Criticality, Delivery, ModelId, Nanos, PartitionId,
    PunctualConfig, StageId, StageTime, TaskConfig, TaskId, Units, Weights, offline,
};
use punctual_model::Calibration;
use punctual_types::Random;

use crate::arrivals::{Arrivals, Pattern, PatternError};
use crate::audit::{Follower, Pipeline};
use crate::faults::Fault;
use crate::layout;
use crate::recorded::Recorded;
use crate::timing::Durations;

/// A network, as measured.
#[derive(Clone, Debug)]
pub struct Model {
    pub name: String,
    pub source: String,
    pub stages: Vec<Stage>,
    /// What each exit answers for held-out pictures, and whether it is right.
    pub calibration: Calibration,
    /// How it is paged in, if the device does not hold all weights.
    pub weights: Option<Weights>,
}

/// A stage's times, by batch and size of partition.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Every batch size with every number of units that was measured.
    pub times: Vec<Measured>,
    /// It ends in no exit. Its calibration repeats that of the exit before.
    pub headless: bool,
    /// The model, by position, whose stage it is as well.
    pub runs_as: Option<usize>,
}

/// Times of a stage at one batch size on one number of compute units.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub batch: u8,
    pub units: u16,
    pub time: StageTime,
}

/// A task, with its name.
#[derive(Clone, Debug)]
pub struct Task {
    pub name: String,
    /// What the scheduler knows of it. `partition` is set by [`Scenario::config`].
    pub config: TaskConfig,
    pub pattern: Pattern,
    /// How many clients take turns in sending them.
    pub clients: u16,
}

#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// Compute units (TPCs, or cores).
    pub units: u16,
    /// How many such devices there are, 1 if not said otherwise. Policies that take the whole
    /// device get one partition each; those that divide it divide the first.
    pub workers: u16,
    /// Bound on stopping best-effort work.
    pub preemption_bound: Nanos,
    /// Cost of a decision and its hand-over.
    pub dispatch_cost: Nanos,
    /// Bound on the way of a verdict to its client.
    pub egress_bound: Nanos,
    pub request_buffers: u16,
    /// Pages of weights; 0: everything is resident.
    pub pages: u32,
    /// By how many thousandths an action stretches the time of each other one on a common compute
    /// unit: 1000 shares the unit evenly. Matters to policies that let partitions overlap.
    pub contention_permille: u64,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    /// What it is, and where it comes from.
    pub about: String,
    pub models: Vec<Model>,
    pub tasks: Vec<Task>,
    pub board: Board,
    /// The partitions for policies that take a plan: units, and the tasks that run there.
    pub planned: Vec<(Units, Vec<usize>)>,
    /// Where a policy that lends may run stages in addition to their homes.
    pub lending: Option<Lending>,
    pub length: Nanos,
    pub durations: Durations,
    pub faults: Vec<Fault>,
    /// The world that it is a recording of: arrivals, answers and times are its own then, not those of patterns,
    /// calibrations and `durations`.
    pub recorded: Option<Arc<Recorded>>,
}

/// The homes and places of a policy that lends idle compute units.
#[derive(Clone, Debug)]
pub struct Lending {
    /// The partitions with their tasks, aligned to the cells; none: those of the plan.
    pub homes: Vec<(Units, Vec<usize>)>,
    /// Ranges on which stages of all models may run while they are idle.
    pub places: Vec<Units>,
    /// The factor on all times on places but a model's own home: other stages run next to it there.
    pub corun: f64,
}

impl Board {
    /// A device of `units` units that hold all weights, stop best-effort work within 100 us, and
    /// are told what to do within 20 us.
    #[must_use]
    pub const fn of(units: u16) -> Self {
        Self {
            units,
            workers: 1,
            preemption_bound: Nanos::from_micros(100),
            dispatch_cost: Nanos::from_micros(20),
            egress_bound: Nanos::from_micros(20),
            request_buffers: 256,
            pages: 0,
            contention_permille: 1000,
        }
    }
}

impl Scenario {
    /// Tasks on a board, whose stages take what their profiles say. Without a name, and with all
    /// tasks on the whole device: see [`planned`](Self::planned).
    #[must_use]
    pub fn new(models: Vec<Model>, tasks: Vec<Task>, board: Board, length: Nanos) -> Self {
        let whole = Units {
            first: 0,
            count: board.units,
        };
        Self {
            name: String::new(),
            about: String::new(),
            planned: vec![(whole, (0..tasks.len()).collect())],
            lending: None,
            models,
            tasks,
            board,
            length,
            durations: Durations::default(),
            faults: Vec::new(),
            recorded: None,
        }
    }

    /// Keeps the reservations only if all of them can be kept: otherwise every request is admitted
    /// by what is left when it arrives.
    #[must_use]
    pub fn reserved_if_possible(mut self) -> Self {
        let config = self.config(&PunctualConfig::default());
        let possible = (0..config.partitions.len()).all(|partition| {
            let partition = PartitionId(partition as u16);
            offline::test_partition(&config, partition).outcome.is_ok()
        });
        for task in &mut self.tasks {
            task.config.reserved &= possible;
        }
        self
    }

    /// The requests of a run: the rates times `load`, the draws from `random`.
    pub fn arrivals(&self, load: f64, random: &Random) -> Result<Arrivals, PatternError> {
        let tasks: Vec<(&Pattern, u16)> = self
            .tasks
            .iter()
            .map(|task| (&task.pattern, task.clients))
            .collect();
        Arrivals::new(&tasks, load, self.length, random)
    }

    /// Gives the tasks that take parts what follows from the root of their pipeline: a burst in each of its periods, and the
    /// time until the last part is prepared.
    pub fn align_followers(&mut self) {
        for index in 0..self.tasks.len() {
            let Pattern::Parts(parts) = self.tasks[index].pattern else {
                continue;
            };
            let Some(root) = self.tasks.get(parts.of.index()) else {
                continue;
            };
            let (period, deadline, reserved) = (
                root.config.period,
                root.config.deadline,
                root.config.reserved,
            );
            let config = &mut self.tasks[index].config;
            config.burst = parts.at_most;
            config.period = period;
            config.reserved &= reserved;
            config.jitter = parts.jitter(config.prepare, deadline);
        }
    }

    /// The pipelines among its tasks, for an auditor.
    #[must_use]
    pub fn pipelines(&self) -> Vec<Pipeline> {
        let followers = |root: usize| {
            let tasks = self.tasks.iter().enumerate();
            let follower = tasks.filter_map(move |(index, task)| match task.pattern {
                Pattern::Parts(parts) if parts.of.index() == root => Some(Follower {
                    task: TaskId(index as u16),
                    at_most: parts.at_most,
                }),
                _ => None,
            });
            follower.collect::<Vec<_>>()
        };
        let roots = 0..self.tasks.len();
        let pipelines = roots.map(|root| Pipeline {
            root: TaskId(root as u16),
            followers: followers(root),
        });
        pipelines.filter(|of| !of.followers.is_empty()).collect()
    }

    /// With the partitions that [`layout::choose`] finds. Policies that lend get homes that consist of whole cells.
    #[must_use]
    pub fn planned(mut self) -> Self {
        self.planned = layout::choose(&self);
        if !self.has_narrow_times() {
            return self;
        }
        let cell = layout::cell_size(self.board.units);
        let homes = layout::aligned(&self, cell);
        self.with_places(homes, cell, 1.0)
    }

    /// With these partitions, which policies that lend divide into cells.
    #[must_use]
    pub fn partitioned(mut self, partitions: Vec<(Units, Vec<usize>)>) -> Self {
        self.planned.clone_from(&partitions);
        if !self.has_narrow_times() {
            return self;
        }
        let cell = layout::cell_size(self.board.units);
        self.with_places(partitions, cell, 1.0)
    }

    /// With places for policies that lend: the cells of the homes, and their own ranges for the others.
    #[must_use]
    pub fn with_places(mut self, homes: Vec<(Units, Vec<usize>)>, cell: u16, corun: f64) -> Self {
        let mut places: Vec<Units> = homes
            .iter()
            .flat_map(|(home, _)| layout::cells(*home, cell))
            .chain(homes.iter().map(|(home, _)| *home))
            .collect();
        places.sort_unstable_by_key(|units| (units.count, units.first));
        places.dedup();
        self.lending = Some(Lending {
            homes,
            places,
            corun,
        });
        self
    }

    /// Whether any model was measured on fewer units than the whole device.
    fn has_narrow_times(&self) -> bool {
        let stages = self.models.iter().flat_map(|model| &model.stages);
        let mut times = stages.flat_map(|stage| &stage.times);
        times.any(|measured| measured.units < self.board.units)
    }

    /// The time of all stages of `model` up to `exit` for a batch on `units` units, by profile.
    #[must_use]
    pub fn time(&self, model: ModelId, exit: StageId, batch: u8, units: u16) -> Nanos {
        let stages = &self.models[model.index()].stages[..=exit.index()];
        let budgets = stages.iter().map(|stage| stage.time(batch, units).budget);
        budgets.fold(Nanos::ZERO, |sum, budget| sum + budget)
    }
}

impl Task {
    /// A real-time task without a reservation, for the first exit at least and as deep as it takes to be 95%
    /// sure. It has no preparation and no jitter: its input is taken to be there, as in the papers' measurements.
    #[must_use]
    pub fn real_time(name: &str, model: ModelId, deadline: Nanos, pattern: Pattern) -> Self {
        let period = match pattern.rate_hz() {
            Some(rate_hz) => Nanos::new((1e9 / rate_hz).clamp(1.0, 1e12) as u64),
            None => deadline,
        };
        let sure = Confidence((0.95 * f64::from(u16::MAX)) as u16);
        let config = TaskConfig {
            model,
            partition: PartitionId(0),
            criticality: Criticality::RealTime,
            deadline: Some(deadline),
            period,
            burst: 1,
            jitter: Nanos::ZERO,
            prepare: Nanos::ZERO,
            mandatory_exit: StageId(0),
            threshold: sure,
            threshold_min: sure,
            batch_max: BATCH_MAX as u8,
            queue_max: 64,
            reserved: false,
            answers: Answers::Final,
            weight: 1,
            offload_to: None,
            delivery: Delivery::EveryFrame,
        };
        Self {
            name: name.into(),
            config,
            pattern,
            clients: 1,
        }
    }

    /// A best-effort task without a deadline, to full depth.
    #[must_use]
    pub fn best_effort(name: &str, model: ModelId, pattern: Pattern) -> Self {
        let mut task = Self::real_time(name, model, Nanos::from_millis(1_000), pattern);
        task.config.criticality = Criticality::BestEffort;
        task.config.threshold_min = Confidence(0);
        task.config.deadline = None;
        task
    }

    /// With capacity reserved for one request a `period`.
    #[must_use]
    pub fn reserved(mut self, period: Nanos) -> Self {
        self.config.period = period;
        self.config.reserved = true;
        self
    }

    /// With the answer of `exit` as the shallowest that counts.
    #[must_use]
    pub fn mandatory(mut self, exit: StageId) -> Self {
        self.config.mandatory_exit = exit;
        self
    }
}

impl Model {
    /// The fewest units on which all its stages were measured.
    #[must_use]
    pub fn fewest_units(&self) -> u16 {
        let stage = |stage: &Stage| stage.times.iter().map(|m| m.units).min().unwrap_or(1);
        self.stages.iter().map(stage).max().unwrap_or(1)
    }

    /// The accuracy of each exit over all records.
    #[must_use]
    pub fn accuracies(&self) -> Vec<f64> {
        let records = &self.calibration.samples;
        let right = |exit: usize| {
            let right = records
                .iter()
                .filter(move |record| record.exits[exit].is_right());
            right.count()
        };
        (0..self.stages.len())
            .map(|exit| right(exit) as f64 / records.len().max(1) as f64)
            .collect()
    }
}

impl Stage {
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
