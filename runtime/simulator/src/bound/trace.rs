//! The requests of a run, as a clairvoyant sees them.

use punctual_core::{Confidence, Instant, Nanos, StageId, TaskId};
use punctual_model::{CalibrationExit, ExitAccuracy, bin_of};

use super::frontier::Frontier;
use super::{Answer, Bound, Job, bound};
use crate::faults::Fault;
use crate::outcome::Served;
use crate::samples::Samples;
use crate::scenario::{Scenario, Task};

/// What the clairvoyant knows of an answer beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Whether it will be right. The bound is on the share of right answers.
    Answers,
    /// How confident it will be, and what calibration says of that confidence. The bound is on the
    /// share of right answers to be expected: less than the other by what confidences do not tell.
    Confidences,
}

/// The bound on the share of right answers before their deadlines among all requests
/// (`accuracy_on_time`; `accuracy_all` where nothing is answered late) that any policy could have
/// reached on the requests of a run.
///
/// Of the device it takes the best in everything: each stage at the batch and partition sizes that use
/// least of its units' time, among those by which the request can be on time at all; all as fast as
/// the fastest draw, weights always there, no cost of a decision. Where partitions that share units slow each other down by less than an even share,
/// it is as fast as with all tasks at once on all its units.
#[must_use]
pub fn of_run(scenario: &Scenario, served: &[Served], knowledge: Knowledge) -> Bound {
    let trace = Trace {
        samples: Samples::new(scenario),
        tasks: scenario
            .tasks
            .iter()
            .map(|task| Costs::of(task, scenario))
            .collect(),
        knowledge,
    };
    let jobs: Vec<Job> = served.iter().map(|served| trace.job(served)).collect();
    bound(&jobs)
}

struct Trace {
    samples: Samples,
    tasks: Vec<Costs>,
    knowledge: Knowledge,
}

/// What a task's answers cost, and what calibration says of them.
struct Costs {
    /// Of each exit, the work up to it.
    work: Vec<Frontier>,
    mandatory: usize,
    /// Until its input is ready, at least.
    prepare: Nanos,
    deadline: Option<Nanos>,
    accuracies: Vec<ExitAccuracy>,
    /// Of each picture, the confidence bin at each exit.
    bins: Vec<Vec<usize>>,
}

impl Costs {
    fn of(task: &Task, scenario: &Scenario) -> Self {
        let model = &scenario.models[task.config.model.index()];
        let mut before = Frontier::nothing();
        let mut work = Vec::with_capacity(model.stages.len());
        for stage in 0..model.stages.len() {
            before = before.then(&Frontier::of(ways(task, stage, scenario)));
            work.push(before.clone());
        }
        let prepare = task.config.prepare.as_nanos() as f64;
        let prepare = prepare * scenario.durations.preparation_least;
        let bins = model.calibration.samples.iter().map(|sample| {
            let bin = |exit: &CalibrationExit| bin_of(Confidence(exit.confidence));
            sample.exits.iter().map(bin).collect()
        });
        Self {
            work,
            mandatory: task.config.mandatory_exit.index(),
            prepare: Nanos::new(prepare as u64),
            deadline: task.config.deadline,
            accuracies: model.calibration.exit_accuracies(model.stages.len()),
            bins: bins.collect(),
        }
    }
}

/// The ways to run a stage for one of its requests: how long it takes at least, and the request's
/// part of the time of all devices together.
fn ways(task: &Task, stage: usize, scenario: &Scenario) -> Vec<(u64, f64)> {
    let stage = &scenario.models[task.config.model.index()].stages[stage];
    let (board, fastest) = (scenario.board, fastest_factor(task, scenario));
    let devices = f64::from(board.workers.max(1)) / at_once(scenario);
    let mut batches: Vec<u8> = stage.times.iter().map(|measured| measured.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let mut ways = Vec::new();
    for batch in batches {
        for size in 1..=board.units {
            let time = stage.time(batch, size).budget.as_nanos() as f64 * fastest;
            let share = f64::from(size) / f64::from(board.units) / devices;
            // Rounded down, so that it stays a bound.
            ways.push((time as u64, time * share / f64::from(batch)));
        }
    }
    ways
}

/// The part of its time that a task's work takes if all tasks share all units at once.
fn at_once(scenario: &Scenario) -> f64 {
    let tasks = scenario.tasks.len() as f64;
    let stretched = 1.0 + (tasks - 1.0) * scenario.board.contention_permille as f64 / 1e3;
    (stretched / tasks).min(1.0)
}

/// The least multiple of its budget that a stage can take.
fn fastest_factor(task: &Task, scenario: &Scenario) -> f64 {
    let durations = &scenario.durations;
    let phases = durations.slow.iter().map(|phase| phase.factor.min(1.0));
    let overruns = durations
        .overruns
        .map_or(1.0, |overruns| overruns.factor.min(1.0));
    // As the device draws: the first that is about the model holds.
    let lie = scenario.faults.iter().find_map(|fault| match fault {
        Fault::ProfileLies { model, factor } if *model == task.config.model => Some(*factor),
        _ => None,
    });
    let lies = lie.unwrap_or(1.0);
    durations.quantile(0.0) * phases.product::<f64>() * overruns * lies
}

impl Trace {
    fn job(&self, served: &Served) -> Job {
        let costs = &self.tasks[served.task.index()];
        // What was lost has no deadline in the record.
        let configured = costs
            .deadline
            .map_or(Instant::FAR_FUTURE, |d| served.submitted + d);
        let deadline = if served.verdict.is_some() {
            served.deadline
        } else {
            configured
        };
        let release = served.submitted + costs.prepare;
        let window = deadline.since(release);
        let exits = costs.mandatory..costs.work.len();
        let answer = |exit: usize| {
            let work = costs.work[exit].least_work(window)?;
            Some(Answer {
                work: Nanos::new(work as u64),
                value: self.value(served.task, served.sample, exit),
            })
        };
        Job {
            release,
            deadline,
            answers: exits.filter_map(answer).collect(),
        }
    }

    fn value(&self, task: TaskId, sample: u32, exit: usize) -> f64 {
        let costs = &self.tasks[task.index()];
        let bins = costs.bins.get(sample as usize);
        match (self.knowledge, bins) {
            (Knowledge::Confidences, Some(bins)) => {
                f64::from(costs.accuracies[exit].accuracy[bins[exit]]) / f64::from(u16::MAX)
            }
            // A model without calibration is always right.
            _ => f64::from(u8::from(self.samples.correct(
                task,
                sample,
                StageId(exit as u8),
            ))),
        }
    }
}
