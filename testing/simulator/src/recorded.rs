//! A world that was recorded, played again: the same frames at the same times, with the same answers, and stages that take
//! the time that they took.
//!
//! A stage takes what was measured for the same frame, batch size and number of compute units. Where that was not measured, as
//! another policy goes deeper or chooses another batch, it is drawn from what was measured for other frames; where the stage never ran
//! so, what it took otherwise is scaled as the budgets say; where it never ran, it takes the plan's budget. [`TimeSources`] says how
//! often each was the case.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::{
    Confidence, Config, Infer, Instant, ModelConfig, ModelId, Nanos, PartitionConfig, PolicySpec,
    Reply, StageId, StageTime,
};
use punctual_types::Random;
use serde::Serialize;

use crate::arrivals::{Source, Submission};
use crate::observer::Observer;
use crate::outcome::Outcome;
use crate::run::{RunError, Settings, run_on};
use crate::samples::{Answers, Samples};
use crate::scenario::Scenario;
use crate::virtual_device::{Course, Ending, Timing, VirtualDevice};

/// What is known of a recorded world.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The plan for policies that take one as it is. Others divide the scenario's board.
    pub config: Config,
    /// By rising time of submission.
    pub frames: Vec<Frame>,
    /// How long stages took.
    pub times: BTreeMap<StageRun, Measurements>,
    /// How long transfers of a model's weights took.
    pub transfers: BTreeMap<ModelId, Vec<Nanos>>,
}

#[derive(Clone, Debug)]
pub struct Frame {
    pub submission: Submission,
    /// One entry a stage of its model.
    pub stages: Vec<FrameStage>,
}

/// What is known of a frame at a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameStage {
    pub confidence: Confidence,
    /// Whether the answer there is right.
    pub right: bool,
    /// How it ran, if it did.
    pub ran: Option<Ran>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    pub run: StageRun,
    pub took: Nanos,
}

/// A stage at a batch size on a number of compute units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StageRun {
    pub model: ModelId,
    pub stage: StageId,
    pub batch: u8,
    pub units: u16,
}

/// How long a stage took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurements {
    /// What it was planned to take.
    pub budget: Nanos,
    /// In the order of the recording.
    pub took: Vec<Nanos>,
}

impl Measurements {
    /// None yet.
    #[must_use]
    pub const fn with(budget: Nanos) -> Self {
        Self {
            budget,
            took: Vec::new(),
        }
    }
}

/// Where the times of the stages that ran come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeSources {
    /// Measured for the same frame.
    pub own: u64,
    /// Drawn from what was measured for other frames.
    pub drawn: u64,
    /// Measured at another batch size or on other units, and scaled as the budgets say.
    pub scaled: u64,
    /// The plan's budget.
    pub planned: u64,
}

impl Recorded {
    /// The plan, with or without the places of its models.
    pub(crate) fn plan(&self, with_places: bool) -> Config {
        let mut config = self.config.clone();
        if !with_places {
            config
                .models
                .iter_mut()
                .for_each(|model| model.places.clear());
        }
        config
    }

    /// Tells models what the recorded scheduler knew of their answers.
    pub(crate) fn inform(&self, models: &mut [ModelConfig]) {
        for (model, known) in models.iter_mut().zip(&self.config.models) {
            for (stage, known) in model.stages.iter_mut().zip(&known.stages) {
                stage.accuracy = known.accuracy;
                stage.deeper.clone_from(&known.deeper);
                stage.follows = known.follows;
            }
        }
    }

    /// A frame's answer at a stage; none if there is no such frame or stage.
    pub(crate) fn answer(&self, sample: u32, stage: usize) -> Option<(Confidence, bool)> {
        let stage = self.frames.get(sample as usize)?.stages.get(stage)?;
        Some((stage.confidence, stage.right))
    }

    /// How a stage of a frame ran.
    fn ran(&self, sample: u32, run: StageRun) -> Option<Ran> {
        let frame = self.frames.get(sample as usize)?;
        let ran = frame.stages.get(run.stage.index())?.ran?;
        (ran.run.model == run.model).then_some(ran)
    }

    /// What a stage takes at a batch size and on units, by how it ran otherwise.
    fn scaled(&self, ran: Ran, budget: Nanos) -> Option<Nanos> {
        let planned = self.times.get(&ran.run)?.budget.as_nanos().max(1);
        let took = u128::from(ran.took.as_nanos()) * u128::from(budget.as_nanos());
        Some(Nanos::new(
            u64::try_from(took / u128::from(planned)).unwrap_or(u64::MAX),
        ))
    }

    /// How a stage ran for other frames, whatever the batch size and the units; a random one.
    fn any(&self, run: StageRun, random: &mut Random) -> Option<Ran> {
        let (least, most) = ((u8::MIN, u16::MIN), (u8::MAX, u16::MAX));
        let sized = |(batch, units)| StageRun {
            batch,
            units,
            ..run
        };
        let all = self.times.range(sized(least)..=sized(most));
        let runs = all.clone().count() as u64;
        let (run, measured) = all.clone().nth(random.below(runs.max(1)) as usize)?;
        let took = drawn(random, &measured.took)?;
        Some(Ran { run: *run, took })
    }
}

/// Plays a scenario's recording `load` times as fast under a policy.
pub(crate) fn simulate<O: Observer>(
    scenario: &Scenario,
    recorded: &Arc<Recorded>,
    policy: &dyn PolicySpec,
    load: f64,
    settings: Settings,
    observer: &mut O,
) -> Result<Outcome, RunError> {
    let config = scenario.config(policy);
    let refused = |reason| RunError::Plan {
        policy: policy.name(),
        reason,
    };
    let source = Played::new(Arc::clone(recorded), load, Instant::ZERO + scenario.length);
    let device = VirtualDevice::new(
        config.models.clone(),
        &config.partitions,
        config.request_buffers,
        Measured::new(Arc::clone(recorded), &config, settings.seed),
        Answers::new(Samples::new(scenario), config.request_buffers),
    )
    .with_contention(scenario.board.contention_permille)
    .with_cache(config.pages);
    let ran = run_on(
        device, scenario, &config, policy, source, settings, observer,
    );
    let (mut outcome, device) = ran.map_err(refused)?;
    outcome.times = Some(device.timing().sources);
    Ok(outcome)
}

/// The frames, at their times.
struct Played {
    recorded: Arc<Recorded>,
    next: usize,
    load: f64,
    end: Instant,
}

impl Played {
    fn new(recorded: Arc<Recorded>, load: f64, end: Instant) -> Self {
        Self {
            recorded,
            next: 0,
            load,
            end,
        }
    }

    /// When a moment of the recording comes. The usual load leaves it exactly as it is.
    fn at(&self, recorded: Instant) -> Instant {
        if self.load == 1.0 {
            return recorded;
        }
        Instant::from_nanos((recorded.as_nanos() as f64 / self.load) as u64)
    }
}

impl Source for Played {
    fn peek(&self) -> Option<Instant> {
        let frame = self.recorded.frames.get(self.next)?;
        Some(self.at(frame.submission.submitted)).filter(|at| *at < self.end)
    }

    /// A frame is as old when it is submitted as it was, and has as much time.
    fn take(&mut self) -> Option<Submission> {
        let submitted = self.peek()?;
        let recorded = self.recorded.frames[self.next].submission;
        self.next += 1;
        let moved = |at: Instant| {
            if at < recorded.submitted {
                submitted - recorded.submitted.since(at)
            } else {
                submitted + at.since(recorded.submitted)
            }
        };
        Some(Submission {
            intended: moved(recorded.intended),
            submitted,
            captured: moved(recorded.captured),
            deadline: recorded.deadline.map(moved),
            ..recorded
        })
    }

    fn replied(&mut self, _: Instant, _: u64, _: &Reply) {}
}

/// Times as they were measured.
struct Measured {
    recorded: Arc<Recorded>,
    /// Of each partition.
    units: Vec<u16>,
    in_buffer: Vec<u32>,
    random: Random,
    sources: TimeSources,
}

impl Measured {
    fn new(recorded: Arc<Recorded>, config: &Config, seed: u64) -> Self {
        let partitions = config.partitions.iter();
        Self {
            recorded,
            units: partitions.map(|partition| partition.units.count).collect(),
            in_buffer: vec![u32::MAX; usize::from(config.request_buffers)],
            random: Random::new(seed).stream("recorded", 0),
            sources: TimeSources::default(),
        }
    }

    fn time(&mut self, infer: &Infer, budget: Nanos) -> Nanos {
        let run = StageRun {
            model: infer.model,
            stage: infer.stage,
            batch: infer.batch,
            units: self.units[infer.partition.index()],
        };
        let members = infer.members.iter();
        let samples = members.map(|member| self.in_buffer[usize::from(member.buffer)]);
        let ran: Vec<Ran> = samples
            .filter_map(|sample| self.recorded.ran(sample, run))
            .collect();
        let own = ran.iter().filter(|ran| ran.run == run);
        if let Some(own) = own.map(|ran| ran.took).max() {
            self.sources.own += 1;
            return own;
        }
        let others = self.recorded.times.get(&run);
        if let Some(drawn) = others.and_then(|others| drawn(&mut self.random, &others.took)) {
            self.sources.drawn += 1;
            return drawn;
        }
        let own = ran
            .iter()
            .filter_map(|ran| self.recorded.scaled(*ran, budget));
        let scaled = own.max().or_else(|| {
            let any = self.recorded.any(run, &mut self.random)?;
            self.recorded.scaled(any, budget)
        });
        if let Some(scaled) = scaled {
            self.sources.scaled += 1;
            return scaled;
        }
        self.sources.planned += 1;
        budget
    }
}

fn drawn(random: &mut Random, from: &[Nanos]) -> Option<Nanos> {
    if from.is_empty() {
        return None;
    }
    from.get(random.below(from.len() as u64) as usize).copied()
}

impl Timing for Measured {
    fn course(&mut self, infer: &Infer, _: Instant, time: StageTime) -> Course {
        Course {
            took: self.time(infer, time.budget).max(Nanos::new(1)),
            ending: Ending::Finished,
        }
    }

    fn stopping(&mut self, partition: &PartitionConfig) -> Nanos {
        partition.preemption_bound
    }

    fn transfer(&mut self, model: ModelId, _: Instant, load: Nanos) -> Nanos {
        let measured = self.recorded.transfers.get(&model);
        let drawn = measured.and_then(|took| drawn(&mut self.random, took));
        drawn.unwrap_or(load).max(Nanos::new(1))
    }

    fn shows(&mut self, buffer: u16, sample: u32) {
        self.in_buffer[usize::from(buffer)] = sample;
    }
}
