//! The requests of a run, as a clairvoyant sees them.

use std::collections::BTreeSet;

use punctual_core::{Confidence, Instant, Nanos, StageId, TaskId};
use punctual_model::{CalibrationExit, ExitAccuracy, bin_of};

use super::company::most_at_once;
use super::frontier::Frontier;
use super::{Answer, Bound, Job, bound};
use punctual_simulator::faults::Fault;
use punctual_simulator::outcome::Served;
use punctual_simulator::samples::Samples;
use punctual_simulator::scenario::{Scenario, Task};

/// What the clairvoyant knows of an answer beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Whether it will be right. The bound is on the share of right answers.
    Answers,
    /// How confident it will be, and how often such an answer is right by the calibration. The bound is on the
    /// share of right answers to be expected: less than the other by what confidences do not tell.
    Confidences,
}

/// The bound on the share of right answers before their deadlines among all requests
/// (`accuracy_on_time`; `accuracy_all` where nothing is answered late) that any policy could have
/// reached on the requests of a run.
///
/// Of the device it takes the best in everything: each stage at the batch and partition sizes that use
/// least of its units' time, in batches of no more than are there at once, among those by which the
/// request can be on time at all; all as fast as the fastest draw, weights always there, no cost of
/// a decision. Where partitions that share units slow each other down by less than an even share, it
/// is as fast as with all tasks at once on all its units.
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
    let windows: Vec<Window> = served.iter().map(|served| trace.window(served)).collect();
    let company = trace.company(served, &windows);
    let each = served.iter().zip(windows).zip(company);
    let jobs: Vec<Job> = each
        .map(|((served, window), most)| trace.job(served, window, most))
        .collect();
    bound(&jobs)
}

/// When work on a request is of use.
#[derive(Clone, Copy)]
struct Window {
    release: Instant,
    deadline: Instant,
}

struct Trace {
    samples: Samples,
    tasks: Vec<Costs>,
    knowledge: Knowledge,
}

/// What a task's answers cost, and how often they are right by the calibration.
struct Costs {
    /// By the largest batch, one of those that were measured: of each exit, the work up to it.
    work: Vec<(u8, Vec<Frontier>)>,
    model: usize,
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
        let to_each_exit = |largest| {
            let stages = 0..model.stages.len();
            let exits = stages.scan(Frontier::nothing(), |before, stage| {
                *before = before.then(&Frontier::of(ways(task, stage, largest, scenario)));
                Some(before.clone())
            });
            (largest, exits.collect())
        };
        let sizes = model.stages.iter().flat_map(|stage| &stage.times);
        let sizes: BTreeSet<u8> = sizes.map(|measured| measured.batch).collect();
        let prepare = task.config.prepare.as_nanos() as f64;
        let prepare = prepare * scenario.durations.preparation_least;
        let bins = model.calibration.samples.iter().map(|sample| {
            let bin = |exit: &CalibrationExit| bin_of(Confidence(exit.confidence));
            sample.exits.iter().map(bin).collect()
        });
        Self {
            work: sizes.into_iter().map(to_each_exit).collect(),
            model: task.config.model.index(),
            mandatory: task.config.mandatory_exit.index(),
            prepare: Nanos::new(prepare as u64),
            deadline: task.config.deadline,
            accuracies: model.calibration.exit_accuracies(model.stages.len()),
            bins: bins.collect(),
        }
    }
}

/// The ways to run a stage for one request in batches of at most `largest`: how long it takes at
/// least, and the request's part of the time of all devices together.
fn ways(task: &Task, stage: usize, largest: u8, scenario: &Scenario) -> Vec<(u64, f64)> {
    let stage = &scenario.models[task.config.model.index()].stages[stage];
    let (board, fastest) = (scenario.board, fastest_factor(task, scenario));
    let devices = f64::from(board.workers.max(1)) / at_once(scenario);
    let sizes = stage.times.iter().map(|measured| measured.batch);
    let sizes: BTreeSet<u8> = sizes.filter(|batch| *batch <= largest).collect();
    let mut ways = Vec::new();
    for batch in sizes {
        for units in 1..=board.units {
            let time = stage.time(batch, units).budget.as_nanos() as f64 * fastest;
            let share = f64::from(units) / f64::from(board.units) / devices;
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
    fn window(&self, served: &Served) -> Window {
        let costs = &self.tasks[served.task.index()];
        // What was lost has no deadline in the record.
        let configured = costs
            .deadline
            .map_or(Instant::FAR_FUTURE, |d| served.submitted + d);
        Window {
            release: served.submitted + costs.prepare,
            deadline: if served.verdict.is_some() {
                served.deadline
            } else {
                configured
            },
        }
    }

    /// Of each request, the most of its model that can be in one batch with it in time.
    fn company(&self, served: &[Served], windows: &[Window]) -> Vec<u32> {
        let model = |index: usize| self.tasks[served[index].task.index()].model;
        let mut company = vec![1; served.len()];
        let models: BTreeSet<usize> = self.tasks.iter().map(|costs| costs.model).collect();
        for wanted in models {
            let of_model: Vec<usize> = (0..served.len()).filter(|i| model(*i) == wanted).collect();
            let spans = of_model.iter().map(|&index| {
                let Window { release, deadline } = windows[index];
                (release.as_nanos(), deadline.max(release).as_nanos())
            });
            let most = most_at_once(&spans.collect::<Vec<_>>());
            for (index, most) in of_model.into_iter().zip(most) {
                company[index] = most;
            }
        }
        company
    }

    fn job(&self, served: &Served, window: Window, company: u32) -> Job {
        let costs = &self.tasks[served.task.index()];
        let Window { release, deadline } = window;
        // Between measured sizes as if there were enough for the larger one, full.
        let level = costs
            .work
            .partition_point(|(largest, _)| u32::from(*largest) < company);
        let (_, work) = &costs.work[level.min(costs.work.len() - 1)];
        let exits = costs.mandatory..work.len();
        let answer = |exit: usize| {
            let work = work[exit].least_work(deadline.since(release))?;
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
