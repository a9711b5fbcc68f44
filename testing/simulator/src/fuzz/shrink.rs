//! Makes a failing case smaller: tries one simplification after the other and keeps those under
//! which it still fails in the same way, until none is left.

use std::sync::Arc;

use punctual_core::{Answers, ClientId, Delivery, Nanos, PunctualConfig, Readiness, TaskId};

use super::Case;
use super::check::{Failure, Passed};
use crate::arrivals::Pattern;
use crate::faults::Fault;
use crate::scenario::Task;
use crate::timing::Durations;

/// The smallest case found in at most `tries` runs of `check`, and how it fails.
#[must_use]
pub fn shrink(
    case: &Case,
    failure: &Failure,
    tries: u32,
    check: impl Fn(&Case) -> Result<Passed, Failure>,
) -> (Case, Failure) {
    let mut smallest = (case.clone(), failure.clone());
    let mut left = tries;
    loop {
        let smaller = candidates(&smallest.0).into_iter().find_map(|candidate| {
            left = left.checked_sub(1)?;
            let found = check(&candidate).err()?;
            found.is_like(failure).then_some((candidate, found))
        });
        match smaller {
            Some(found) => smallest = found,
            None => return smallest,
        }
    }
}

/// Takes a change that makes a case simpler.
type Add<'a> = dyn FnMut(&dyn Fn(&mut Case)) + 'a;

/// Every case that is one step simpler, the largest steps first.
fn candidates(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Case)| {
        let mut simpler = case.clone();
        change(&mut simpler);
        all.push(simpler);
    };
    let scenario = &case.scenario;
    if scenario.length > Nanos::from_micros(50) {
        add(&|c| c.scenario.length = Nanos::new(c.scenario.length.as_nanos() / 2));
        add(&|c| c.scenario.length = Nanos::new(c.scenario.length.as_nanos() / 8 * 7));
    }
    for task in (0..scenario.tasks.len()).filter(|_| scenario.tasks.len() > 1) {
        add(&|c| drop_task(c, task));
    }
    for fault in 0..scenario.faults.len() {
        add(&|c| {
            c.scenario.faults.remove(fault);
        });
    }
    for part in 0..scenario.durations_parts() {
        add(&|c| c.scenario.simplify_durations(part));
    }
    if let Some(lending) = &scenario.lending {
        add(&|c| c.scenario.lending = None);
        for place in 0..lending.places.len() {
            add(&|c| {
                let lending = c.scenario.lending.as_mut();
                lending.map(|lending| lending.places.remove(place));
            });
        }
    }
    if case.share_max > 0 {
        add(&|c| c.share_max = 0);
    }
    for partition in 1..scenario.planned.len() {
        add(&|c| merge_partition(c, partition));
    }
    if case.promises() {
        add(&|c| c.policy = Arc::new(PunctualConfig::default()));
    }
    for task in 0..scenario.tasks.len() {
        simplify_task(case, task, &mut add);
    }
    for model in 0..scenario.models.len() {
        let asks = |task: &Task| task.config.model.index() == model;
        if scenario.models.len() > 1 && !scenario.tasks.iter().any(asks) {
            add(&|c| drop_model(c, model));
        }
        simplify_model(case, model, &mut add);
    }
    let board = &scenario.board;
    if board.dispatch_cost + board.egress_bound > Nanos::ZERO {
        add(&|c| c.scenario.board.dispatch_cost = Nanos::ZERO);
        add(&|c| c.scenario.board.egress_bound = Nanos::ZERO);
    }
    all.retain(|simpler| simpler.to_string() != case.to_string());
    all
}

/// Removes a task, with its clients, its place in the plan, and what waits for its answers.
fn drop_task(case: &mut Case, gone: usize) {
    let scenario = &mut case.scenario;
    let first: u16 = scenario.tasks[..gone]
        .iter()
        .map(|t| t.clients.max(1))
        .sum();
    let clients = scenario.tasks[gone].clients.max(1);
    scenario.tasks.remove(gone);
    for (_, tasks) in &mut scenario.planned {
        tasks.retain(|&task| task != gone);
        for task in tasks.iter_mut().filter(|task| **task > gone) {
            *task -= 1;
        }
    }
    for client in scenario.faults.iter_mut().filter_map(client_of) {
        if client.0 >= first + clients {
            client.0 -= clients;
        } else if client.0 >= first {
            // It may take the fault, if not whose: to drop it is another step.
            client.0 = 0;
        }
    }
    let moved = |task: &mut TaskId| {
        task.0 -= u16::from(task.index() > gone);
    };
    for task in &mut scenario.tasks {
        let taker = &mut task.config.offload_to;
        *taker = taker.filter(|taker| taker.index() != gone);
        taker.iter_mut().for_each(moved);
        let waits_for_it = match &mut task.pattern {
            Pattern::Dependent { after } => {
                let waits = after.iter().any(|task| task.index() == gone);
                after.iter_mut().for_each(moved);
                waits
            }
            Pattern::Query { after, .. } => {
                let waits = after.index() == gone;
                moved(after);
                waits
            }
            Pattern::Parts(parts) => {
                let waits = parts.of.index() == gone;
                moved(&mut parts.of);
                waits
            }
            _ => false,
        };
        if waits_for_it {
            alone(task);
        }
    }
}

/// Removes a network without requests.
fn drop_model(case: &mut Case, gone: usize) {
    let scenario = &mut case.scenario;
    scenario.models.remove(gone);
    for task in &mut scenario.tasks {
        task.config.model.0 -= u16::from(task.config.model.index() > gone);
    }
    scenario.faults.retain_mut(|fault| {
        let (Fault::ProfileLies { model, .. }
        | Fault::Loading {
            said: Readiness { model, .. },
            ..
        }) = fault
        else {
            return true;
        };
        let kept = model.index() != gone;
        model.0 -= u16::from(model.index() > gone);
        kept
    });
}

fn client_of(fault: &mut Fault) -> Option<&mut ClientId> {
    match fault {
        Fault::ClientGone { client, .. }
        | Fault::ClientStalled { client, .. }
        | Fault::PayloadUnreadable { client, .. }
        | Fault::ClockStep { client, .. }
        | Fault::SlowClient { client, .. } => Some(client),
        _ => None,
    }
}

/// Lets a task wait for no other: one frame a period.
fn alone(task: &mut Task) {
    let period = task.config.period.as_nanos().max(1);
    task.config.burst = 1;
    task.pattern = Pattern::Periodic {
        rate_hz: 1e9 / period as f64,
        phase: Nanos::ZERO,
        jitter: Nanos::ZERO,
    };
}

/// Gives a partition's units and tasks to the one before it.
fn merge_partition(case: &mut Case, partition: usize) {
    let (units, tasks) = case.scenario.planned.remove(partition);
    let (before, theirs) = &mut case.scenario.planned[partition - 1];
    before.count += units.count;
    theirs.extend(tasks);
}

fn simplify_task(case: &Case, index: usize, add: &mut Add) {
    let task = &case.scenario.tasks[index];
    if task.clients > 1 && case.scenario.faults.is_empty() {
        add(&|c| c.scenario.tasks[index].clients = 1);
    }
    add(&|c| alone(&mut c.scenario.tasks[index]));
    if task.config.jitter > Nanos::ZERO {
        add(&|c| {
            let config = &mut c.scenario.tasks[index].config;
            (config.jitter, config.prepare) = (Nanos::ZERO, Nanos::ZERO);
        });
    }
    if task.config.delivery == Delivery::LatestFrame {
        add(&|c| c.scenario.tasks[index].config.delivery = Delivery::EveryFrame);
    }
    if task.config.offload_to.is_some() {
        add(&|c| c.scenario.tasks[index].config.offload_to = None);
    }
    if task.config.batch_max > 1 {
        add(&|c| c.scenario.tasks[index].config.batch_max = 1);
    }
    add(&|c| {
        let config = &mut c.scenario.tasks[index].config;
        (config.answers, config.weight) = (Answers::Final, 1);
    });
}

fn simplify_model(case: &Case, index: usize, add: &mut Add) {
    let model = &case.scenario.models[index];
    if !model.calibration.samples.is_empty() {
        add(&|c| c.scenario.models[index].calibration.samples.clear());
    }
    if model.stages.len() > 1 {
        add(&|c| {
            let scenario = &mut c.scenario;
            let last = scenario.models[index].stages.len() - 1;
            scenario.models[index].stages.truncate(last);
            for sample in &mut scenario.models[index].calibration.samples {
                sample.exits.truncate(last);
            }
            for task in scenario
                .tasks
                .iter_mut()
                .filter(|t| t.config.model.index() == index)
            {
                let exit = &mut task.config.mandatory_exit.0;
                *exit = (*exit).min(last as u8 - 1);
            }
        });
    }
    let largest = model
        .stages
        .iter()
        .flat_map(|s| &s.times)
        .map(|t| t.batch)
        .max();
    if let Some(largest) = largest.filter(|&largest| largest > 1) {
        add(&|c| {
            for stage in &mut c.scenario.models[index].stages {
                stage.times.retain(|time| time.batch < largest);
            }
        });
    }
}

/// The parts of a scenario's durations that can be made simple one by one.
impl crate::scenario::Scenario {
    const fn durations_parts(&self) -> usize {
        6
    }

    fn simplify_durations(&mut self, part: usize) {
        let simple = Durations::default();
        let durations = &mut self.durations;
        match part {
            0 => durations.failures = simple.failures,
            1 => durations.overruns = simple.overruns,
            2 => durations.slow = simple.slow,
            3 => durations.tail = simple.tail,
            4 => durations.quantiles = simple.quantiles,
            _ => {
                durations.stopping_least = simple.stopping_least;
                durations.preparation_least = simple.preparation_least;
            }
        }
    }
}
