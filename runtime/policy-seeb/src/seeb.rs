//! `seeb`: SEEB-GPU (Subramaniyan, Joshi, Wang, Brocanelli: "SEEB-GPU: Early-Exit Aware Scheduling
//! and Batching for Edge GPU Inference", SEC 2025), its Algorithms 1 and 2 as published.
//!
//! Whenever TPCs are free and requests wait, the waiting requests of each task are one *group*.
//! Groups get contiguous ranges of the free TPCs in proportion to their sizes (`shares`), then each
//! a batch size and a threshold from a fitted latency model (`choice`, `latency`). A group runs on
//! its range batch by batch, each batch stage by stage; a member leaves at the first exit that
//! counts and reaches the threshold. Ranges are not preempted.
//!
//! What the paper leaves open, and what is done here:
//!
//! - *Which free TPCs, if they are not contiguous*: the longest free run first.
//! - *"Recomputed every 100 ms" although dispatched work is not preempted*: a group that has held
//!   its range for the interval gives it back at the end of its batch, and its members that have
//!   not begun are grouped anew.
//! - *The printed algorithm takes the batch of the least cost, section 5.4 says the largest that
//!   meets the deadline*: see `choice`; a parameter, the former by default.
//! - *Fixed batch sizes (Table 5)*: a group is dispatched once it has that number of members, or once its
//!   oldest has waited for the interval.
//! - *TPC masks off (Table 5)*: each task has its own stream on all TPCs, and at most one group in
//!   flight.
//! - *λ1, λ2, τ, Θ are not given*: parameters. With λ1 = λ2 = 1, a threshold is worth more than
//!   any latency below a second, so the largest feasible threshold is chosen.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::batch_runner::{Baseline, BaselineRules, BatchRunner, Job, Members};
use crate::latency::{LatencyModel, fit};
use crate::ranges::Ranges;
use punctual_core::bounded::List;
use punctual_core::{
    Actions, Answer, Confidence, Config, ConfigError, Contract, Instant, Nanos, PartitionId,
    Partitioning, Policy, PolicySpec, Rejection, StageId, TaskId, Units,
};

/// How Algorithm 2 chooses among batch sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeebBatch {
    /// The one of the least cost, as in the printed algorithm.
    #[default]
    Cheapest,
    /// The largest that is feasible, as section 5.4 describes the same algorithm.
    Largest,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SeebConfig {
    /// λ1: the cost of a second of latency.
    pub lambda1: f64,
    /// λ2: what a threshold of 1 is worth.
    pub lambda2: f64,
    /// τ: safety slack before the tightest deadline of a group.
    pub tau: Nanos,
    /// Θ: the thresholds to choose from, rising, at least one.
    #[serde(alias = "thetas")]
    pub thresholds: Vec<Confidence>,
    /// How a batch size is chosen.
    pub batch: SeebBatch,
    /// Ranges are computed anew at least so often.
    pub interval: Nanos,
    /// Not chosen, but always this one.
    pub fixed_threshold: Option<Confidence>,
    /// Not chosen, but always this one (or the largest that is compiled).
    pub fixed_batch: Option<u8>,
    /// Whether groups get ranges of TPCs; else each task has a stream on all of them.
    pub tpc_masks: bool,
}

impl Default for SeebConfig {
    fn default() -> Self {
        let tenth = |n: u32| Confidence((n * u32::from(u16::MAX) / 10) as u16);
        Self {
            lambda1: 1.0,
            lambda2: 1.0,
            tau: Nanos::from_millis(1),
            thresholds: (1..=9).map(tenth).collect(),
            batch: SeebBatch::Cheapest,
            interval: Nanos::from_millis(100),
            fixed_threshold: None,
            fixed_batch: None,
            tpc_masks: true,
        }
    }
}

impl PolicySpec for SeebConfig {
    fn name(&self) -> &'static str {
        "seeb"
    }

    fn summary(&self) -> &'static str {
        "TPC ranges, batch and threshold by a fitted latency model (SEEB-GPU)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(if self.tpc_masks {
            Partitioning::Ranges
        } else {
            Partitioning::PerTask
        })
    }

    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        if self.tpc_masks {
            Ranges::new(config).check(self.name())?;
        }
        self.obeys(self.broken_rule())
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Seeb::new(config, self))
    }
}

impl SeebConfig {
    /// What a parameter must be, if one is not.
    fn broken_rule(&self) -> Option<&'static str> {
        let rising = self.thresholds.is_sorted_by(|a, b| a < b);
        if self.thresholds.is_empty() || !rising {
            return Some("`thresholds` must be a list of at least one, each above the one before");
        }
        if !(self.lambda1.is_finite() && self.lambda2.is_finite()) {
            return Some("lambda1 and lambda2 must be finite numbers");
        }
        None
    }

    pub(crate) fn candidates(&self) -> &[Confidence] {
        match &self.fixed_threshold {
            Some(fixed) => core::slice::from_ref(fixed),
            None => &self.thresholds,
        }
    }
}

/// Requests of a task that were dispatched together, by the partition that they run on.
#[derive(Clone, Copy, Debug)]
struct Group {
    partition: PartitionId,
    units: Units,
    batch: usize,
    threshold: Confidence,
    /// When it got its range.
    since: Instant,
}

/// A request of a group that has not begun.
#[derive(Clone, Copy, Debug)]
struct Assigned {
    partition: PartitionId,
    buffer: u16,
}

#[derive(Debug)]
pub struct Seeb {
    rules: SeebConfig,
    /// By task.
    models: Box<[LatencyModel]>,
    ranges: Ranges,
    /// Whether a unit belongs to a group's range.
    taken: Box<[bool]>,
    /// By task, in order of arrival.
    waiting: Box<[List<u16>]>,
    groups: List<Group>,
    /// In order of arrival within a group.
    assigned: List<Assigned>,
    /// Scratch: tasks that an assignment is for.
    ready: List<TaskId>,
    /// Scratch: the ranges that they got.
    given: List<(TaskId, Units)>,
}

impl Seeb {
    pub fn new(config: &Config, rules: &SeebConfig) -> Self {
        let tasks = config.tasks.len();
        let models = (0..tasks).map(|t| fit(config, TaskId(t as u16), rules.candidates()));
        let ranges = Ranges::new(config);
        let all = usize::from(ranges.all());
        let buffers = usize::from(config.request_buffers);
        Self {
            models: models.collect(),
            ranges,
            taken: alloc::vec![false; all].into(),
            waiting: (0..tasks).map(|_| List::with_capacity(buffers)).collect(),
            // Each group has at least one unit, or (without masks) its task's stream.
            groups: List::with_capacity(all.max(tasks)),
            assigned: List::with_capacity(buffers),
            ready: List::with_capacity(tasks),
            given: List::with_capacity(tasks),
            rules: rules.clone(),
        }
    }

    /// Goes on with the groups whose partition is free: next batch, or the end of the group.
    fn go_on(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        let mut at = 0;
        while at < self.groups.len() {
            let group = self.groups[at];
            let mine = |a: &&Assigned| a.partition == group.partition;
            let left = self.assigned.iter().filter(mine).count();
            if !runner.is_free(group.partition) {
                at += 1;
            } else if left > 0 && runner.now.since(group.since) < self.rules.interval {
                self.start_batch(runner, group, actions);
                at += 1;
            } else {
                self.dissolve(runner, at);
            }
        }
    }

    /// Takes the range from a group whose partition is free.
    fn dissolve(&mut self, runner: &BatchRunner, at: usize) {
        let group = self.groups.remove(at);
        if self.rules.tpc_masks {
            self.mark(group.units, false);
        }
        let of_group = |a: &Assigned| a.partition == group.partition;
        while let Some(first) = self.assigned.iter().position(of_group) {
            let buffer = self.assigned.remove(first).buffer;
            self.wait(runner, buffer);
        }
    }

    /// Puts a request among the waiting ones of its task.
    fn wait(&mut self, runner: &BatchRunner, buffer: u16) {
        let request = runner.request(buffer);
        let queue = &mut self.waiting[request.task.index()];
        let at = queue.partition_point(|&b| runner.request(b).order < request.order);
        queue.insert(at, buffer);
    }

    fn start_batch(&mut self, runner: &mut BatchRunner, group: Group, actions: &mut Actions) {
        let mut members = Members::new();
        let of_group = |a: &Assigned| a.partition == group.partition;
        while members.len() < group.batch {
            let Some(next) = self.assigned.iter().position(of_group) else {
                break;
            };
            let buffer = self.assigned.remove(next).buffer;
            members.push(buffer).expect("a batch is at most BATCH_MAX");
        }
        let whenever = Instant::FAR_FUTURE;
        runner.start(group.partition, members, true, whenever, actions);
    }

    /// Algorithm 1, for each run of free TPCs, longest first, while groups wait.
    fn assign_ranges(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        while let Some(free) = longest_run(&self.taken) {
            self.ready.clear();
            for task in 0..self.waiting.len() {
                if self.may_go(runner, task) {
                    self.ready.push(TaskId(task as u16));
                }
            }
            if self.ready.is_empty() {
                return;
            }
            let images = self.ready.iter();
            let images = images.map(|task| self.waiting[task.index()].len() as u32);
            self.given.clear();
            let (ready, given) = (&self.ready, &mut self.given);
            crate::shares::assign(images, free, |index, range| {
                given.push((ready[index], range))
            });
            for at in 0..self.given.len() {
                let (task, units) = self.given[at];
                self.mark(units, true);
                let partition = self.ranges.partition(units);
                self.dispatch_group(runner, task, units, partition, actions);
            }
        }
    }

    /// Without masks: each task on its own stream, of all TPCs.
    fn assign_streams(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        for task in 0..self.waiting.len() {
            let partition = runner.config.tasks[task].partition;
            let idle = self.groups.iter().all(|g| g.partition != partition);
            if idle && self.may_go(runner, task) {
                let units = runner.config.partitions[partition.index()].units;
                self.dispatch_group(runner, TaskId(task as u16), units, partition, actions);
            }
        }
    }

    /// Whether the waiting requests of a task may be dispatched.
    fn may_go(&self, runner: &BatchRunner, task: usize) -> bool {
        let queue = &self.waiting[task];
        let Some(&oldest) = queue.first() else {
            return false;
        };
        let full = self
            .rules
            .fixed_batch
            .is_none_or(|fixed| queue.len() >= usize::from(fixed));
        full || runner.request(oldest).captured + self.rules.interval <= runner.now
    }

    /// Algorithm 2 for one group, and its first batch.
    fn dispatch_group(
        &mut self,
        runner: &mut BatchRunner,
        task: TaskId,
        units: Units,
        partition: PartitionId,
        actions: &mut Actions,
    ) {
        let queue = &self.waiting[task.index()];
        let due = queue.iter().map(|&buffer| runner.request(buffer).due);
        let due = due.min().unwrap_or(Instant::FAR_FUTURE);
        let largest = runner.sizes(task).next_back().map_or(1, usize::from);
        let chosen = crate::choice::choose(
            &self.models[task.index()],
            queue.len(),
            largest,
            units.count,
            nanoseconds_until(due, runner.now + self.rules.tau),
            &self.rules,
        );
        for at in 0..queue.len() {
            let buffer = self.waiting[task.index()][at];
            self.assigned.push(Assigned { partition, buffer });
        }
        self.waiting[task.index()].clear();
        let group = Group {
            partition,
            units,
            batch: chosen.batch,
            threshold: chosen.threshold,
            since: runner.now,
        };
        self.groups.push(group);
        self.start_batch(runner, group, actions);
    }

    fn mark(&mut self, units: Units, taken: bool) {
        self.taken[usize::from(units.first)..usize::from(units.end())].fill(taken);
    }
}

/// `until - from`, negative if it is past.
fn nanoseconds_until(until: Instant, from: Instant) -> f64 {
    until.as_nanos() as f64 - from.as_nanos() as f64
}

/// The longest run of units that are not taken; the first of several.
fn longest_run(taken: &[bool]) -> Option<Units> {
    let mut best: Option<Units> = None;
    let mut first = 0;
    for run in taken.chunk_by(|a, b| a == b) {
        let count = run.len() as u16;
        if !run[0] && best.is_none_or(|b| b.count < count) {
            best = Some(Units { first, count });
        }
        first += count;
    }
    best
}

impl BaselineRules for Seeb {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        self.wait(runner, buffer);
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        let queue = &mut self.waiting[runner.request(buffer).task.index()];
        if let Some(at) = queue.iter().position(|&queued| queued == buffer) {
            queue.remove(at);
        } else if let Some(at) = self.assigned.iter().position(|a| a.buffer == buffer) {
            self.assigned.remove(at);
        }
    }

    fn leaves(
        &self,
        runner: &BatchRunner,
        job: &Job,
        buffer: u16,
        exit: StageId,
        answer: Answer,
    ) -> bool {
        let task = &runner.config.tasks[runner.request(buffer).task.index()];
        let group = self.groups.iter().find(|g| g.partition == job.partition);
        exit >= task.mandatory_exit && group.is_some_and(|g| answer.confidence >= g.threshold)
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        self.go_on(runner, actions);
        if self.rules.tpc_masks {
            self.assign_ranges(runner, actions);
        } else {
            self.assign_streams(runner, actions);
        }
    }

    fn next_timer(&self, runner: &BatchRunner) -> Option<Instant> {
        // Everything else is an answer to an event.
        self.rules.fixed_batch?;
        let oldest = self.waiting.iter().filter_map(|queue| queue.first());
        let due = oldest.map(|&buffer| runner.request(buffer).captured + self.rules.interval);
        due.filter(|due| *due > runner.now).min()
    }
}
