//! A recording as a scenario for a plan, which may be another than its own.
//!
//! Tasks and models of two plans are the same if they have the same name, models only with as many stages.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::{
    Config, Instant, ModelConfig, ModelId, Nanos, Readiness, Scheduler, StageConfig, TaskConfig,
    TaskId, Units,
};
use punctual_model::Calibration;
use punctual_plan::PolicyChoice;
use punctual_recording::Names;
use punctual_simulator::arrivals::{Known, Pattern, Submission};
use punctual_simulator::faults::Fault;
use punctual_simulator::outcome::Served;
use punctual_simulator::recorded::{self, Measurements, Ran, Recorded, StageRun};
use punctual_simulator::scenario::{Board, Lending, Measured, Model, Scenario, Stage, Task};
use punctual_simulator::summary::{Summary, Tally};
use punctual_simulator::timing::{Durations, Quantile};
use punctual_types::Random;

use super::answers::answers;
use super::log::{Frame, Log};
use super::{Error, Opened, Planned};
use crate::report::Row;

/// Most compute units of a plan: some policies take a partition for each range of them.
pub const UNITS_MAX: u16 = 256;

/// A recording for a plan.
pub struct Played {
    pub scenario: Scenario,
    /// The plan's.
    pub policy: PolicyChoice,
    /// What became of the frames that are played, when they were recorded.
    pub served: Vec<Served>,
    /// Tasks of the recording that the plan does not have, with how many frames.
    pub without_task: BTreeMap<String, u64>,
    /// Models of the recording that the plan does not have, or has with other stages.
    pub without_model: Vec<String>,
}

/// Which of a plan's tasks and models a recording's are.
struct Matched {
    tasks: Vec<Option<TaskId>>,
    models: Vec<Option<ModelId>>,
}

impl Matched {
    /// Each its own.
    fn same(config: &Config) -> Self {
        let ids = |count: usize| (0..count).map(|index| index as u16);
        Self {
            tasks: ids(config.tasks.len()).map(|id| Some(TaskId(id))).collect(),
            models: ids(config.models.len())
                .map(|id| Some(ModelId(id)))
                .collect(),
        }
    }

    /// By name.
    fn by_name(opened: &Opened<'_>, to: &Planned) -> Self {
        let from = &opened.setting;
        let task = |index: usize| {
            let name = from.names.task(TaskId(index as u16));
            let mut of = (0..to.config.tasks.len()).map(|index| TaskId(index as u16));
            of.find(|id| to.names.task(*id) == name)
        };
        let model = |index: usize| {
            let name = from.names.model(ModelId(index as u16));
            let stages = from.config.models[index].stages.len();
            let mut of = (0..to.config.models.len()).map(|index| ModelId(index as u16));
            let same = |id: &ModelId| {
                let model = &to.config.models[id.index()];
                to.names.model(*id) == name && model.stages.len() == stages
            };
            of.find(same)
        };
        Self {
            tasks: (0..from.config.tasks.len()).map(task).collect(),
            models: (0..from.config.models.len()).map(model).collect(),
        }
    }

    fn run(&self, run: StageRun) -> Option<StageRun> {
        let model = *self.models.get(run.model.index())?;
        Some(StageRun {
            model: model?,
            ..run
        })
    }
}

impl Played {
    /// A recording as it was planned.
    ///
    /// # Errors
    /// If its plan is none, or it has nothing to play.
    pub fn again(opened: &Opened<'_>, log: &Log) -> Result<Self, Error> {
        let plan = opened.plan();
        Self::new(opened, log, &plan, &Matched::same(&plan.config))
    }

    /// A recording under another plan.
    ///
    /// # Errors
    /// If either plan is none, or the plan has no task of the recording.
    pub fn under(opened: &Opened<'_>, log: &Log, plan: &Planned) -> Result<Self, Error> {
        Self::new(opened, log, plan, &Matched::by_name(opened, plan))
    }

    fn new(
        opened: &Opened<'_>,
        log: &Log,
        plan: &Planned,
        matched: &Matched,
    ) -> Result<Self, Error> {
        check(opened, plan)?;
        let names = &opened.setting.names;
        let mut without_task: BTreeMap<String, u64> = BTreeMap::new();
        let frames = Frames::new(opened, log, plan, matched);
        let (mut played, mut served) = (Vec::new(), Vec::new());
        for (position, frame) in log.frames.iter().enumerate() {
            let from = frame.arrival.task;
            match matched.tasks[from.index()] {
                Some(task) => {
                    let sample = played.len() as u32;
                    let made = frames.frame(frame, position as u64, task, sample);
                    served.extend(frames.served(frame, &made));
                    played.push(made);
                }
                None => *without_task.entry(names.task(from)).or_default() += 1,
            }
        }
        if played.is_empty() {
            let path = opened.path.to_owned();
            return Err(Error::NoFrames { path });
        }
        let models = matched.models.iter().enumerate();
        let without_model = models.filter(|(_, to)| to.is_none());
        let without_model = without_model.map(|(from, _)| names.model(ModelId(from as u16)));
        Ok(Self {
            without_model: without_model.collect(),
            scenario: frames.scenario(played),
            policy: plan.policy.clone(),
            served,
            without_task,
        })
    }

    /// The figures of the recording.
    #[must_use]
    pub fn recorded(&self, name: &str, policy: &str) -> Row {
        let policy = format!("recorded ({policy})");
        Row::new(name, &policy, 1.0, 0, &self.summary(None))
    }

    /// The figures of a task in the recording, or of all.
    #[must_use]
    pub fn summary(&self, task: Option<TaskId>) -> Summary {
        let mut tally = Tally::default();
        let of = |served: &&Served| task.is_none_or(|task| served.task == task);
        self.served
            .iter()
            .filter(of)
            .for_each(|served| tally.count(served));
        Summary::new(&tally, self.scenario.length)
    }
}

/// Whether the plan is one, and can be divided as policies ask for it.
fn check(opened: &Opened<'_>, plan: &Planned) -> Result<(), Error> {
    let path = || opened.path.to_owned();
    let refused = |source| Error::Plan {
        path: path(),
        source,
    };
    Scheduler::new(&plan.config, &plan.policy).map_err(refused)?;
    let recorded = &opened.setting.config;
    Scheduler::new(recorded, &opened.policy).map_err(refused)?;
    match units(&plan.config) {
        units if units > UNITS_MAX => Err(Error::Units {
            path: path(),
            units,
        }),
        _ => Ok(()),
    }
}

fn units(config: &Config) -> u16 {
    let ends = config.partitions.iter().map(|p| p.units.end());
    ends.max().unwrap_or(1).max(1)
}

/// What a recording's frames become under a plan.
struct Frames<'a> {
    opened: &'a Opened<'a>,
    log: &'a Log,
    plan: &'a Planned,
    matched: &'a Matched,
    /// The instant of the recording at which it begins to be played.
    origin: Instant,
    random: Random,
}

impl<'a> Frames<'a> {
    fn new(opened: &'a Opened<'a>, log: &'a Log, plan: &'a Planned, matched: &'a Matched) -> Self {
        // A first frame was captured before it came; older claims than that are none of a clock that works.
        let earliest = log.begins - Nanos::from_millis(1_000);
        let captured = log.frames.iter().map(|frame| frame.arrival.captured);
        let origin = captured.fold(log.begins, Instant::min).max(earliest);
        Self {
            opened,
            log,
            plan,
            matched,
            origin,
            random: Random::new(0),
        }
    }

    fn at(&self, recorded: Instant) -> Instant {
        Instant::ZERO + recorded.since(self.origin)
    }

    fn frame(&self, frame: &Frame, position: u64, task: TaskId, sample: u32) -> recorded::Frame {
        let arrival = &frame.arrival;
        let captured = self.at(arrival.captured.min(frame.submitted));
        let known = Known {
            sample,
            preparation: frame.preparation,
        };
        let submission = Submission {
            task,
            client: frame.client,
            intended: captured,
            submitted: self.at(frame.submitted),
            captured,
            deadline: arrival.deadline.map(|deadline| self.at(deadline)),
            egress: arrival.egress,
            tag: 0,
            known: Some(known),
        };
        let from = self.opened.setting.config.tasks[arrival.task.index()].model;
        let to = self.plan.config.tasks[task.index()].model;
        let is_same = self.matched.models[from.index()] == Some(to);
        let reached = if is_same { &frame.stages[..] } else { &[] };
        let random = self.random.stream("answers", position);
        let model = &self.plan.config.models[to.index()];
        let mut stages = answers(model, reached, random);
        for (stage, reached) in stages.iter_mut().zip(reached) {
            let run = reached.ran.and_then(|ran| self.matched.run(ran.run));
            stage.ran = reached.ran.zip(run).map(|(ran, run)| Ran { run, ..ran });
        }
        recorded::Frame { submission, stages }
    }

    /// What became of a frame when it was recorded.
    fn served(&self, frame: &Frame, made: &recorded::Frame) -> Option<Served> {
        let verdict = frame.verdict?;
        let exit = frame.exit();
        let right = |exit: usize| made.stages.get(exit).is_some_and(|stage| stage.right);
        let submission = &made.submission;
        Some(Served {
            task: submission.task,
            intended: submission.intended,
            submitted: submission.submitted,
            deadline: self.at(verdict.deadline),
            ended: self.at(frame.ended),
            verdict: Some(verdict.verdict),
            exit,
            correct: exit.is_some_and(|exit| right(exit.index())),
            correct_at_full_depth: made.stages.last().is_some_and(|stage| stage.right),
            sample: submission.known.map_or(0, |known| known.sample),
        })
    }

    fn scenario(&self, frames: Vec<recorded::Frame>) -> Scenario {
        let config = &self.plan.config;
        let names = &self.plan.names;
        let length = frames.last().map_or(Nanos::ZERO, |frame| {
            frame.submission.submitted.since(Instant::ZERO) + Nanos::new(1)
        });
        let stem = self.opened.path.file_stem().unwrap_or_default();
        let recorded = Recorded {
            times: self.times(),
            transfers: self.transfers(),
            config: config.clone(),
            frames,
        };
        let tasks = config.tasks.iter().enumerate();
        let tasks = tasks.map(|(index, task)| named_task(names, index, task));
        let models = config.models.iter().enumerate();
        let models = models.map(|(index, model)| named_model(names, index, model, config));
        let nothing = Lending {
            homes: Vec::new(),
            places: Vec::new(),
            corun: 1.0,
        };
        Scenario {
            name: stem.to_string_lossy().into_owned(),
            about: format!("a recording of {} frames", recorded.frames.len()),
            planned: planned(config),
            lending: config.has_places().then_some(nothing),
            durations: self.durations(&recorded),
            faults: self.faults(),
            recorded: Some(Arc::new(recorded)),
            ..Scenario::new(models.collect(), tasks.collect(), board(config), length)
        }
    }

    fn times(&self) -> BTreeMap<StageRun, Measurements> {
        let times = self.log.times.iter();
        let matched = times.filter_map(|(run, took)| Some((self.matched.run(*run)?, took.clone())));
        matched.collect()
    }

    fn transfers(&self) -> BTreeMap<ModelId, Vec<Nanos>> {
        let transfers = self.log.transfers.iter();
        let matched = transfers.filter_map(|(model, took)| {
            let model = *self.matched.models.get(model.index())?;
            Some((model?, took.clone()))
        });
        matched.collect()
    }

    /// What the bound on all schedulers needs to know of the times: the least of each, as a multiple of what was planned.
    fn durations(&self, recorded: &Recorded) -> Durations {
        let config = &recorded.config;
        let stages = recorded.times.iter().filter_map(|(run, took)| {
            let budget = least_budget(config, run)?.as_nanos();
            Some(took.took.iter().min()?.as_nanos() as f64 / budget.max(1) as f64)
        });
        let preparations = recorded.frames.iter().filter_map(|frame| {
            let prepare = config.tasks[frame.submission.task.index()].prepare;
            let took = frame.submission.known?.preparation?.took.as_nanos();
            Some(took as f64 / prepare.as_nanos().max(1) as f64)
        });
        Durations {
            quantiles: vec![Quantile {
                share: 0.0,
                factor: stages.fold(1.0, f64::min),
            }],
            preparation_least: preparations.fold(1.0, f64::min),
            ..Durations::default()
        }
    }

    fn faults(&self) -> Vec<Fault> {
        let gone = self.log.gone.iter().map(|(at, client)| Fault::ClientGone {
            client: *client,
            at: self.at(*at),
        });
        let holds = self.log.holds.iter();
        let holds = holds.map(|(from, until)| Fault::BestEffortShed {
            from: self.at(*from),
            until: self.at(*until),
        });
        let readiness = self.log.readiness.iter().filter_map(|(at, said)| {
            let model = (*self.matched.models.get(said.model.index())?)?;
            let (at, said) = (self.at(*at), Readiness { model, ..*said });
            Some(Fault::Loading { at, said })
        });
        gone.chain(holds).chain(readiness).collect()
    }
}

fn named_task(names: &Names, index: usize, config: &TaskConfig) -> Task {
    Task {
        name: names.task(TaskId(index as u16)),
        config: config.clone(),
        // Its frames are the recording's.
        pattern: Pattern::Trace {
            entries: Vec::new(),
            span: None,
        },
        clients: 1,
    }
}

fn named_model(names: &Names, index: usize, model: &ModelConfig, config: &Config) -> Model {
    let stage = |stage: &StageConfig| Stage {
        times: widths(stage, config),
        headless: !stage.answers,
        runs_as: stage.runs_as.map(ModelId::index),
    };
    Model {
        name: names.model(ModelId(index as u16)),
        source: "a recording".to_owned(),
        stages: model.stages.iter().map(stage).collect(),
        // Its frames know their own answers.
        calibration: Calibration::default(),
        weights: model.weights,
    }
}

/// A stage's times by number of units: those of the partitions that tasks run on, before those of places.
fn widths(stage: &StageConfig, config: &Config) -> Vec<Measured> {
    let homes = home_of_tasks(config);
    let (first, then): (Vec<usize>, Vec<usize>) =
        (0..config.partitions.len()).partition(|at| homes[*at]);
    let mut widths: BTreeMap<(u8, u16), Measured> = BTreeMap::new();
    for partition in first.into_iter().chain(then) {
        let units = config.partitions[partition].units.count;
        for time in &stage.times {
            let batch = time.batch;
            let time = time.on[partition];
            let measured = Measured { batch, units, time };
            widths.entry((batch, units)).or_insert(measured);
        }
    }
    widths.into_values().collect()
}

fn home_of_tasks(config: &Config) -> Vec<bool> {
    let mut homes = vec![false; config.partitions.len()];
    for task in &config.tasks {
        homes[task.partition.index()] = true;
    }
    homes
}

/// The least budget of a stage at a batch size and on a number of units.
fn least_budget(config: &Config, run: &StageRun) -> Option<Nanos> {
    let model = config.models.get(run.model.index())?;
    let stage = model.stages.get(run.stage.index())?;
    let time = stage.times.iter().find(|time| time.batch == run.batch)?;
    let partitions = config.partitions.iter().zip(&time.on);
    let of_width = partitions.filter(|(partition, _)| partition.units.count == run.units);
    of_width.map(|(_, time)| time.budget).min()
}

fn planned(config: &Config) -> Vec<(Units, Vec<usize>)> {
    let partitions = config.partitions.iter().enumerate();
    let tasks_on = |at: usize| {
        let tasks = config.tasks.iter().enumerate();
        let here = tasks.filter(move |(_, task)| task.partition.index() == at);
        here.map(|(index, _)| index).collect()
    };
    partitions
        .map(|(at, partition)| (partition.units, tasks_on(at)))
        .collect()
}

fn board(config: &Config) -> Board {
    let bounds = config.partitions.iter().map(|p| p.preemption_bound);
    Board {
        preemption_bound: bounds.max().unwrap_or_default(),
        dispatch_cost: config.dispatch_cost,
        egress_bound: config.egress_bound,
        request_buffers: config.request_buffers,
        pages: config.pages,
        ..Board::of(units(config))
    }
}
