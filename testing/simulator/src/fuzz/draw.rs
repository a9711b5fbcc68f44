//! A case from a seed: a plan, a workload, a policy, times and faults. Times are small multiples of
//! a microsecond, so that ties and tight fits are common.

use std::sync::Arc;

use punctual_core::{
    Answers, ClientId, Confidence, Criticality, Delivery, Instant, ModelId, Nanos, PartitionId,
    Partitioning, PolicySpec, PunctualConfig, Readiness, StageId, StageTime, TaskConfig, TaskId,
    Units, Weights,
};
use punctual_model::{Calibration, CalibrationExit, CalibrationSample};
use punctual_types::Random;

use super::world::{durations, faults};
use super::{Case, pipelines, relations};
use crate::arrivals::{Bursts, Pattern};
use crate::faults::Fault;
use crate::scenario::{Board, Measured, Model, Scenario, Stage, Task};

/// Whole units of time in a plan.
pub(super) fn units(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

pub(super) fn case(seed: u64, policies: &[Arc<dyn PolicySpec>]) -> Case {
    let root = Random::new(seed);
    let policy = policy(&mut root.stream("policy", 0), policies);
    let mut random = root.stream("plan", 0);
    let board = board(&mut random, &*policy);
    let models: Vec<Model> = (0..random.within(1, 3))
        .map(|index| model(&mut random, index, board.units))
        .collect();
    let count = random.within(1, 6);
    let tasks: Vec<Task> = (0..count)
        .map(|index| task(&mut random, index, &models))
        .collect();
    let clients: u16 = tasks.iter().map(|task| task.clients).sum();
    let mut scenario = Scenario {
        lending: None,
        name: format!("fuzz-{seed}"),
        about: String::new(),
        planned: planned(&mut random, board.units, tasks.len()),
        models,
        tasks,
        board,
        length: units(random.within(500, 6_000)),
        durations: durations(&mut root.stream("durations", 0)),
        faults: Vec::new(),
        recorded: None,
    };
    let paged = board.pages > 0;
    for model in scenario.models.iter_mut().filter(|_| paged) {
        model.weights = Some(Weights {
            pages: random.within(1, u64::from(board.pages)) as u32,
            load: units(random.within(1, 30)),
        });
    }
    let mut pages = root.stream("pages", 0);
    if policy.contract().promises && pages.one_in(2) {
        relations::page(&mut pages, &mut scenario);
    }
    relations::share(&mut root.stream("sharing", 0), &mut scenario);
    let drawn = &mut root.stream("faults", 0);
    scenario.faults = faults(drawn, scenario.length, clients, scenario.models.len());
    if scenario.board.pages > 0 && pages.one_in(5) {
        let nth = pages.below(20);
        scenario.faults.push(Fault::TransferLost { nth });
    }
    let lost = |fault: &Fault| {
        matches!(
            fault,
            Fault::CompletionLost { .. } | Fault::TransferLost { .. }
        )
    };
    if scenario.faults.iter().any(lost) && drawn.one_in(4) {
        // Long enough for requests to come after the action was taken for lost.
        scenario.length = Nanos::from_millis(drawn.within(110, 250));
    }
    loading(&mut root.stream("loading", 0), &mut scenario, &*policy);
    pipelines::chain(&mut root.stream("pipelines", 0), &mut scenario);
    relations::offload(&mut root.stream("spill", 0), &mut scenario);
    relations::deliver(&mut root.stream("delivery", 0), &mut scenario);
    relations::fit_buffers(&mut random, &mut scenario);
    relations::lend(&mut root.stream("lending", 0), &mut scenario);
    let mut case = Case {
        seed,
        policy,
        scenario,
        share_max: [0, 0, 900, 500][root.stream("extras", 0).below(4) as usize],
    };
    relax(&mut case, 4);
    case
}

/// The default policy half of the time, any other as often as the next.
fn policy(random: &mut Random, policies: &[Arc<dyn PolicySpec>]) -> Arc<dyn PolicySpec> {
    if random.one_in(2) {
        return Arc::new(punctual(random));
    }
    let chosen = random.below(policies.len() as u64) as usize;
    Arc::clone(&policies[chosen])
}

/// Its switches are on more often than not.
pub(super) fn punctual(random: &mut Random) -> PunctualConfig {
    // A stream of its own: seeds that found something stay what they were.
    let mut lead = random.stream("launch lead", 0);
    let mut on = || random.below(5) > 0;
    PunctualConfig {
        batching: on(),
        rebatching: on(),
        mandatory_first: on(),
        waiting: on(),
        launch_lead: units(lead.below(3) * lead.below(40)),
        price: on(),
        lending: true,
        price_margin: random.within(0, 200) as u16,
        ..PunctualConfig::default()
    }
}

pub(super) fn board(random: &mut Random, policy: &dyn PolicySpec) -> Board {
    // Every range of units is a partition of some policies' plans: not too many.
    let most = if policy.contract().partitioning == Partitioning::Ranges {
        5
    } else {
        8
    };
    let paged = policy.name() == "clockwork" && random.one_in(2);
    Board {
        units: random.within(1, most) as u16,
        preemption_bound: units(random.within(0, 4)),
        dispatch_cost: units(random.within(0, 1)),
        egress_bound: units(random.within(0, 2)),
        request_buffers: 0,
        pages: if paged { random.within(2, 6) as u32 } else { 0 },
        contention_permille: 1000 + random.within(0, 2) * 150,
        workers: 1,
    }
}

pub(super) fn model(random: &mut Random, index: u64, units: u16) -> Model {
    let stages: Vec<Stage> = (0..random.within(1, 4))
        .map(|_| stage(random, units))
        .collect();
    Model {
        name: format!("model-{index}"),
        source: "drawn".to_owned(),
        calibration: calibration(random, stages.len()),
        stages,
        weights: None,
    }
}

/// Compiled for 1 and perhaps 2, 4, 8; the time an image may fall or rise with the batch, and falls
/// (or does not) with the units.
fn stage(random: &mut Random, all: u16) -> Stage {
    let mut times = Vec::new();
    let mut alone = random.within(1, 12);
    for batch in [1, 2, 4, 8] {
        if batch > 1 && random.one_in(3) {
            break;
        }
        let factor = 1 + random.below(2);
        for count in [1, all.div_ceil(2), all] {
            let helped = if random.one_in(3) {
                1
            } else {
                u64::from(count)
            };
            let budget = units((alone * factor).div_ceil(helped));
            times.push(Measured {
                batch,
                units: count,
                time: StageTime {
                    budget,
                    max_seen: budget + units(random.below(4)),
                },
            });
        }
        alone += random.below(alone + 1);
    }
    times.dedup_by_key(|measured| (measured.batch, measured.units));
    Stage {
        times,
        ..Stage::default()
    }
}

fn calibration(random: &mut Random, exits: usize) -> Calibration {
    let exit = |random: &mut Random| {
        let confidence = random.below(65_536) as u16;
        CalibrationExit::judged(confidence, random.one_in(2))
    };
    let samples = if random.one_in(4) { 0 } else { 12 };
    Calibration {
        samples: (0..samples)
            .map(|_| CalibrationSample {
                exits: (0..exits).map(|_| exit(random)).collect(),
            })
            .collect(),
    }
}

pub(super) fn task(random: &mut Random, index: u64, models: &[Model]) -> Task {
    let asks = random.below(models.len() as u64);
    let stages = models[asks as usize].stages.len() as u64;
    let kind = random.below(10);
    let (real_time, reserved) = (kind < 8, kind < 6);
    let period = random.within(10, 200);
    let deadline = (period / 2 + random.below(period + 1)).max(8);
    let preparation = if random.one_in(2) {
        0
    } else {
        random.below(deadline / 6 + 1)
    };
    let jitter = preparation + random.below(deadline / 6 + 1);
    let threshold = random.below(65_536) as u16;
    let pattern = pattern(random, index, period, jitter);
    let config = TaskConfig {
        model: ModelId(asks as u16),
        partition: PartitionId(0),
        criticality: if real_time {
            Criticality::RealTime
        } else {
            Criticality::BestEffort
        },
        deadline: (real_time || random.one_in(2)).then(|| units(deadline)),
        period: units(period),
        burst: 1,
        jitter: units(jitter),
        prepare: units(preparation),
        mandatory_exit: StageId(random.below(stages) as u8),
        threshold: Confidence(threshold),
        threshold_min: Confidence(random.below(u64::from(threshold) + 1) as u16),
        batch_max: [1, 2, 4, 8][random.below(4) as usize],
        queue_max: 0,
        reserved,
        answers: [Answers::Final, Answers::Early, Answers::EachExit][random.below(3) as usize],
        weight: random.within(1, 3) as u16,
        offload_to: None,
        delivery: Delivery::EveryFrame,
    };
    Task {
        name: format!("task-{index}"),
        pattern,
        clients: random.within(1, 2) as u16,
        config,
    }
}

/// Mostly what the reservation is for, and much else.
fn pattern(random: &mut Random, index: u64, period: u64, jitter: u64) -> Pattern {
    let rate_hz = 1e6 / period as f64;
    let phase = units(random.below(period + 1));
    match random.below(12) {
        0..5 => Pattern::Periodic {
            rate_hz: rate_hz * [1.0, 1.0, 0.7, 0.5, 2.5][random.below(5) as usize],
            phase,
            jitter: if random.one_in(2) {
                Nanos::ZERO
            } else {
                units(random.below(jitter + 1))
            },
        },
        5 | 6 => Pattern::Poisson { rate_hz },
        7 => Pattern::Gamma {
            rate_hz,
            shape: 0.2 + random.unit() * 3.0,
        },
        8 => Pattern::Bursts(Bursts {
            groups_hz: rate_hz / 4.0,
            median: 2.0,
            sigma: 0.8,
            most: 12,
            deadlines: Vec::new(),
        }),
        9 => Pattern::ClosedLoop {
            outstanding: random.within(1, 4) as u16,
            think: units(random.below(20)),
            retry: units(random.within(1, 50)),
        },
        10 if index > 0 => Pattern::Dependent {
            after: vec![TaskId(random.below(index) as u16)],
        },
        11 if index > 0 => Pattern::Query {
            after: TaskId(random.below(index) as u16),
            fan_out: random.unit() * 2.5,
        },
        _ => Pattern::Periodic {
            rate_hz,
            phase,
            jitter: Nanos::ZERO,
        },
    }
}

/// Disjoint partitions of all units, and where the tasks go.
pub(super) fn planned(random: &mut Random, all: u16, tasks: usize) -> Vec<(Units, Vec<usize>)> {
    let parts = random.within(1, u64::from(all.min(3))) as u16;
    let mut planned: Vec<(Units, Vec<usize>)> = Vec::new();
    let mut first = 0;
    for part in 0..parts {
        let left = parts - part - 1;
        let count = if left == 0 {
            all - first
        } else {
            random.within(1, u64::from(all - first - left)) as u16
        };
        planned.push((Units { first, count }, Vec::new()));
        first += count;
    }
    for task in 0..tasks {
        let part = random.below(u64::from(parts)) as usize;
        planned[part].1.push(task);
    }
    planned
}

/// Models that are loaded in turn, in one case of four: nothing of them or a part at first, then more and more. Under the
/// default policy a device may say so only after it ran all of them.
fn loading(random: &mut Random, scenario: &mut Scenario, policy: &dyn PolicySpec) {
    if !random.one_in(4) {
        return;
    }
    let late = policy.contract().promises && random.one_in(4);
    for (index, model) in scenario.models.iter().enumerate() {
        let count = model.stages.len() as u64;
        let steps = random.below(4);
        let mut at: Vec<Instant> = (0..steps)
            .map(|_| moment(random, scenario.length))
            .collect();
        at.sort_unstable();
        if let Some(first) = at.first_mut().filter(|_| !late) {
            *first = Instant::ZERO;
        }
        let mut ready = 0;
        for (step, at) in at.into_iter().enumerate() {
            let last = step as u64 + 1 == steps && random.below(8) > 0;
            ready = if last {
                count
            } else {
                random.within(ready, count)
            };
            let as_measured = last || random.one_in(2);
            let said = Readiness {
                model: ModelId(index as u16),
                stages: ready as u8,
                as_measured,
                stays_general: !as_measured && random.one_in(4),
            };
            scenario.faults.push(Fault::Loading { at, said });
        }
    }
}

/// Makes a plan that a promising policy would refuse easier, up to `times`: so that most cases run, and many only just.
pub(super) fn relax(case: &mut Case, times: u32) {
    for _ in 0..times {
        if !case.promises() || case.is_schedulable() {
            return;
        }
        for task in &mut case.scenario.tasks {
            let config = &mut task.config;
            config.period = Nanos::new(config.period.as_nanos() * 3 / 2);
            config.deadline = config.deadline.map(|d| Nanos::new(d.as_nanos() * 3 / 2));
            if let Pattern::Periodic { rate_hz, .. } = &mut task.pattern {
                *rate_hz *= 2.0 / 3.0;
            }
        }
        case.scenario.align_followers();
    }
}

pub(super) fn client(random: &mut Random, clients: u16) -> ClientId {
    ClientId(random.below(u64::from(clients)) as u16)
}

/// A moment in the first `length`.
pub(super) fn moment(random: &mut Random, length: Nanos) -> Instant {
    Instant::from_nanos(random.below(length.as_nanos() + 1))
}
