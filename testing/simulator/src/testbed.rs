//! A small scenario for tests: two cameras, one network of two exits, one best-effort task.

use punctual_core::{
    Action, Answers, ClientId, Confidence, Criticality, Delivery, Event, Instant, ModelId, Nanos,
    PartitionId, PolicySpec, PunctualConfig, Reply, StageId, StageTime, TaskConfig, TaskId, Units,
};
use punctual_model::{Calibration, CalibrationExit, CalibrationSample};
use punctual_types::Random;

use crate::arrivals::{Parts, Pattern, Source, Submission};
use crate::faults::Fault;
use crate::observer::{Observer, Span};
use crate::outcome::Outcome;
use crate::run::{Settings, run};
use crate::scenario::{Board, Measured, Model, Scenario, Stage, Task};
use crate::timing::Durations;

pub fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

pub fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// Records of which a half is sure and right at the first exit; the others are right only at the second.
fn calibration() -> Calibration {
    let exit = |(confidence, correct)| CalibrationExit::judged(confidence, correct);
    let easy = [(65_000, true), (65_000, true)].map(exit).to_vec();
    let hard = [(10_000, false), (65_000, true)].map(exit).to_vec();
    let sample = |index: usize| CalibrationSample {
        exits: if index.is_multiple_of(2) {
            easy.clone()
        } else {
            hard.clone()
        },
    };
    Calibration {
        samples: (0..100).map(sample).collect(),
    }
}

/// Two stages: 2 ms and 3 ms alone, half as much again for two.
fn model() -> Model {
    let stage = |millis: u64| {
        let measured = |batch: u8| {
            let budget = Nanos::from_micros(millis * (500 + 500 * u64::from(batch)));
            Measured {
                batch,
                units: 1,
                time: StageTime {
                    budget,
                    max_seen: budget,
                },
            }
        };
        Stage {
            times: vec![measured(1), measured(2)],
            ..Stage::default()
        }
    };
    Model {
        name: "small".to_owned(),
        source: "made up".to_owned(),
        stages: vec![stage(2), stage(3)],
        calibration: calibration(),
        weights: None,
    }
}

pub fn task(name: &str, criticality: Criticality, period: u64) -> Task {
    let real_time = criticality == Criticality::RealTime;
    Task {
        name: name.to_owned(),
        config: TaskConfig {
            model: ModelId(0),
            partition: PartitionId(0),
            criticality,
            deadline: real_time.then_some(ms(20)),
            period: ms(period),
            burst: 1,
            jitter: ms(1),
            prepare: Nanos::from_micros(500),
            mandatory_exit: StageId(0),
            threshold: Confidence::from_probability(0.9),
            threshold_min: Confidence(0),
            batch_max: 2,
            queue_max: 8,
            reserved: real_time,
            answers: Answers::Final,
            weight: 1,
            offload_to: None,
            delivery: Delivery::EveryFrame,
        },
        pattern: Pattern::Periodic {
            rate_hz: 1_000.0 / period as f64,
            phase: Nanos::ZERO,
            jitter: Nanos::ZERO,
        },
        clients: 1,
    }
}

/// Two cameras every 33 ms, and best-effort work.
pub fn scenario() -> Scenario {
    Scenario {
        lending: None,
        name: "two cameras".to_owned(),
        about: "made up".to_owned(),
        models: vec![model()],
        tasks: vec![
            task("left", Criticality::RealTime, 33),
            task("right", Criticality::RealTime, 33),
            task("spare", Criticality::BestEffort, 10),
        ],
        board: Board {
            units: 1,
            workers: 1,
            preemption_bound: Nanos::from_micros(100),
            dispatch_cost: Nanos::from_micros(10),
            egress_bound: Nanos::from_micros(10),
            request_buffers: 32,
            pages: 0,
            contention_permille: 1000,
        },
        planned: vec![(Units { first: 0, count: 1 }, vec![0, 1, 2])],
        length: ms(10_000),
        durations: Durations::default(),
        faults: Vec::new(),
        recorded: None,
    }
}

/// A camera whose frames have up to three parts for each of two followers, the second of which is best-effort.
pub fn pipeline(fan_out: Option<f64>) -> Scenario {
    let at_most = 3;
    let hand_over = Nanos::from_micros(100);
    let mut scenario = scenario();
    scenario.tasks.truncate(1);
    let root = &mut scenario.tasks[0].config;
    root.deadline = Some(ms(10));
    for criticality in [Criticality::RealTime, Criticality::BestEffort] {
        let mut follower = task("parts", criticality, 33);
        let config = &mut follower.config;
        config.deadline = Some(ms(30));
        config.burst = at_most;
        config.queue_max = 16;
        let prepared = config.prepare.saturating_mul(u64::from(at_most));
        config.jitter = ms(10) + hand_over + prepared;
        follower.pattern = Pattern::Parts(Parts {
            of: TaskId(0),
            at_most,
            fan_out,
            hand_over,
            by_client: false,
        });
        scenario.tasks.push(follower);
    }
    scenario
}

/// Cameras with their tasks' periods and a phase of their own, a client each.
struct Cameras {
    next: Vec<(Instant, Nanos)>,
    until: Instant,
}

impl Cameras {
    fn new(scenario: &Scenario, load: u64, seed: u64) -> Self {
        let camera = |(index, task): (usize, &Task)| {
            let period = Nanos::new(task.config.period.as_nanos() / load);
            let mut random = Random::new(seed).stream("arrivals", index as u64);
            let phase = Nanos::new(random.below(period.as_nanos()));
            (Instant::ZERO + phase, period)
        };
        Self {
            next: scenario.tasks.iter().enumerate().map(camera).collect(),
            until: Instant::ZERO + scenario.length,
        }
    }

    fn soonest(&self) -> Option<(Instant, usize)> {
        let due = self.next.iter().enumerate();
        let soonest = due.map(|(task, (at, _))| (*at, task)).min()?;
        Some(soonest).filter(|(at, _)| *at < self.until)
    }
}

impl Source for Cameras {
    fn peek(&self) -> Option<Instant> {
        self.soonest().map(|(at, _)| at)
    }

    fn take(&mut self) -> Option<Submission> {
        let (at, task) = self.soonest()?;
        let (next, period) = &mut self.next[task];
        *next = *next + *period;
        Some(Submission {
            task: TaskId(task as u16),
            client: ClientId(task as u16),
            intended: at,
            submitted: at,
            captured: at,
            deadline: None,
            egress: Nanos::ZERO,
            tag: 0,
            known: None,
        })
    }

    fn replied(&mut self, _: Instant, _: u64, _: &Reply) {}
}

/// Everything that an observer is told.
#[derive(Debug, Default, PartialEq)]
pub struct Record {
    pub events: Vec<(Instant, Event)>,
    pub actions: Vec<(Instant, Action)>,
    pub spans: Vec<Span>,
}

impl Observer for Record {
    fn event(&mut self, now: Instant, event: &Event) {
        self.events.push((now, event.clone()));
    }

    fn action(&mut self, now: Instant, action: &Action) {
        self.actions.push((now, action.clone()));
    }

    fn ran(&mut self, span: &Span) {
        self.spans.push(*span);
    }
}

pub fn run_at(
    scenario: &Scenario,
    policy: &dyn PolicySpec,
    load: u64,
    seed: u64,
) -> (Outcome, Record) {
    let mut record = Record::default();
    let settings = Settings {
        seed,
        keep_requests: true,
    };
    let cameras = Cameras::new(scenario, load, seed);
    let outcome = run(scenario, policy, cameras, settings, &mut record);
    (outcome.expect("a valid plan"), record)
}

pub fn run_with_faults(faults: &[Fault]) -> (Outcome, Record) {
    let scenario = Scenario {
        faults: faults.to_vec(),
        ..scenario()
    };
    run_at(&scenario, &PunctualConfig::default(), 1, 1)
}
