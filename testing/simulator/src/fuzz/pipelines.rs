//! Pipelines: in some cases of all, and in cases that have little else, whose world keeps its bounds.

use std::sync::Arc;

use punctual_core::{Criticality, Nanos, PolicySpec, StageId, TaskId};
use punctual_types::Random;

use super::Case;
use super::draw::{self, units};
use super::relations::fit_buffers;
use crate::arrivals::{Parts, Pattern};
use crate::scenario::Scenario;
use crate::timing::{Durations, Quantile};

/// In a third of the cases one task is a root, and some of the others are its followers.
pub(super) fn chain(random: &mut Random, scenario: &mut Scenario) {
    let tasks = scenario.tasks.len() as u64;
    if tasks < 2 || !random.one_in(3) {
        return;
    }
    let root = random.below(tasks);
    let others = (1..=random.within(1, 3.min(tasks - 1))).map(|next| (root + next) % tasks);
    for follower in others {
        follow(random, scenario, root as usize, follower as usize);
    }
    scenario.align_followers();
}

/// Makes a task a follower. Its deadline is later than the last part is prepared.
fn follow(random: &mut Random, scenario: &mut Scenario, root: usize, follower: usize) {
    let at_most = random.within(1, 8) as u8;
    let fan_out = match random.below(3) {
        0 => Some(f64::from(at_most)),
        1 => Some(random.unit() * f64::from(at_most)),
        _ => None,
    };
    let parts = Parts {
        of: TaskId(root as u16),
        at_most,
        fan_out,
        hand_over: units(random.below(4)),
        by_client: false,
    };
    let root = scenario.tasks[root].config.clone();
    let task = &mut scenario.tasks[follower];
    task.pattern = Pattern::Parts(parts);
    let config = &mut task.config;
    let longest = root.period.as_nanos() / (2 * u64::from(at_most));
    config.prepare = config.prepare.min(Nanos::new(longest));
    config.jitter = parts.jitter(config.prepare, root.deadline);
    let beyond = config.jitter.as_nanos().max(8_000) as f64 * (0.3 + random.unit() * 1.5);
    let deadline = config.jitter + Nanos::new(beyond as u64);
    config.deadline = config.deadline.map(|_| deadline);
}

impl Case {
    /// The case of a seed that has a pipeline or two, whose root is a camera that keeps its rate (with `extras`: that may
    /// exceed it), and other tasks. No stage exceeds its budget, and nothing fails.
    #[must_use]
    pub fn draw_pipelines(seed: u64, extras: bool) -> Self {
        let root = Random::new(seed);
        let mut random = root.stream("pipelines", 1);
        let policy: Arc<dyn PolicySpec> = Arc::new(draw::punctual(&mut random));
        let board = draw::board(&mut random, &*policy);
        let models: Vec<_> = (0..random.within(2, 4))
            .map(|index| draw::model(&mut random, index, board.units))
            .collect();
        let tasks: Vec<_> = (0..random.within(3, 7))
            .map(|index| draw::task(&mut random, index, &models))
            .collect();
        let mut scenario = Scenario {
            planned: draw::planned(&mut random, board.units, tasks.len()),
            durations: within_budgets(&mut random),
            name: format!("pipelines-{seed}"),
            ..Scenario::new(models, tasks, board, Nanos::ZERO)
        };
        let followers = random.within(1, 3.min(scenario.tasks.len() as u64 - 2)) as usize;
        camera(&mut random, &mut scenario, extras);
        flood(&mut random, &mut scenario);
        for follower in 1..=followers {
            let config = &mut scenario.tasks[follower].config;
            config.reserved = config.criticality == Criticality::RealTime;
            if random.one_in(2) {
                config.mandatory_exit = StageId(0);
            }
            follow(&mut random, &mut scenario, 0, follower);
        }
        scenario.align_followers();
        fit_buffers(&mut random, &mut scenario);
        let mut case = Self {
            seed,
            policy,
            scenario,
            share_max: 0,
        };
        draw::relax(&mut case, 10);
        // Queues follow the deadlines.
        fit_buffers(&mut random, &mut case.scenario);
        case.scenario.length = case.scenario.tasks[0].config.period.saturating_mul(40);
        case
    }
}

/// The worst, or any times up to it.
fn within_budgets(random: &mut Random) -> Durations {
    if random.one_in(2) {
        return Durations::default();
    }
    let points = [(0.0, 0.01), (0.5, random.unit().max(0.01)), (1.0, 1.0)];
    Durations {
        quantiles: points
            .map(|(share, factor)| Quantile { share, factor })
            .to_vec(),
        stopping_least: random.unit(),
        preparation_least: random.unit(),
        ..Durations::default()
    }
}

/// Makes the last task one that takes all time that is left where the first follower is.
fn flood(random: &mut Random, scenario: &mut Scenario) {
    let last = scenario.tasks.len() - 1;
    for (_, tasks) in &mut scenario.planned {
        tasks.retain(|task| *task != last);
        if tasks.contains(&1) {
            tasks.push(last);
        }
    }
    let task = &mut scenario.tasks[last];
    task.config.reserved = false;
    task.config.criticality = Criticality::RealTime;
    task.config.deadline = Some(units(random.within(20, 200)));
    (task.config.jitter, task.config.prepare) = (Nanos::ZERO, Nanos::ZERO);
    task.pattern = Pattern::ClosedLoop {
        outstanding: random.within(2, 6) as u16,
        think: Nanos::ZERO,
        retry: units(random.within(5, 50)),
    };
}

/// Makes the first task a promised camera.
fn camera(random: &mut Random, scenario: &mut Scenario, extras: bool) {
    let task = &mut scenario.tasks[0];
    task.clients = 1;
    let config = &mut task.config;
    config.criticality = Criticality::RealTime;
    config.reserved = true;
    let deadline = config.deadline.unwrap_or(config.period);
    config.deadline = Some(deadline);
    let behind = config.jitter.saturating_sub(config.prepare);
    let times = if extras {
        1.0 + 2.0 * random.unit()
    } else {
        1.0
    };
    // A nanosecond above the period: rounding must not bring two frames closer.
    task.pattern = Pattern::Periodic {
        rate_hz: 1e9 * times / (config.period.as_nanos() + 1) as f64,
        phase: units(random.below(20)),
        jitter: if random.one_in(2) {
            behind
        } else {
            Nanos::ZERO
        },
    };
}
