//! The definition of a schedulable plan, written out plainly (policy.md, section 2), to hold the
//! scheduler to it: nothing is shared with the test that the scheduler itself runs.
//!
//! For each partition, with the deadlines D less the egress bound and the dispatch cost in every
//! time: `U = sum C/T <= 0.999`, and `dbf(L) + B(L) <= L` for every L at which `dbf` steps, up to
//! the length beyond which its upper line stays below.

use punctual_core::{Config, Criticality, PartitionId, TaskConfig};

/// A real-time task on one partition, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Demand {
    work: i128,
    longest_stage: i128,
    deadline: i128,
    period: i128,
    jitter: i128,
    reserved: bool,
}

/// Lengths looked at before giving up; a plan beyond is not claimed to be schedulable.
const LENGTHS_MAX: i128 = 200_000;

/// Whether every conforming request of every reserved task on `partition` can be promised.
pub(crate) fn is_schedulable(config: &Config, partition: PartitionId) -> bool {
    let here = |of: Criticality| {
        let tasks = config.tasks.iter();
        tasks.filter(move |task| task.partition == partition && task.criticality == of)
    };
    let tasks: Vec<Demand> = here(Criticality::RealTime)
        .map(|task| demand(config, partition, task))
        .collect();
    let best_effort = here(Criticality::BestEffort).next().is_some();
    let dispatch = wide(config.dispatch_cost);
    let stop = wide(config.partitions[partition.index()].preemption_bound) + dispatch;
    holds(&tasks, if best_effort { stop } else { 0 })
}

fn wide(span: punctual_core::Nanos) -> i128 {
    i128::from(span.as_nanos())
}

fn demand(config: &Config, partition: PartitionId, task: &TaskConfig) -> Demand {
    let stages = &config.models[task.model.index()].stages[..=task.mandatory_exit.index()];
    let times: Vec<i128> = stages
        .iter()
        .map(|stage| wide(stage.times[0].on[partition.index()].budget) + wide(config.dispatch_cost))
        .collect();
    let deadline = task.deadline.map_or(0, wide) - wide(config.egress_bound);
    Demand {
        work: times.iter().sum::<i128>() * i128::from(task.burst),
        longest_stage: times.iter().copied().max().unwrap_or(0),
        deadline,
        period: wide(task.period),
        jitter: wide(task.jitter),
        reserved: task.reserved,
    }
}

fn holds(tasks: &[Demand], stop: i128) -> bool {
    let reserved: Vec<&Demand> = tasks.iter().filter(|task| task.reserved).collect();
    if reserved
        .iter()
        .any(|task| task.period <= 0 || task.deadline <= task.jitter)
    {
        return false;
    }
    let Some(horizon) = horizon(tasks, stop) else {
        return false;
    };
    let steps = |task: &Demand| (horizon - (task.deadline - task.jitter)) / task.period + 1;
    if reserved.iter().map(|task| steps(task).max(0)).sum::<i128>() > LENGTHS_MAX {
        return false;
    }
    reserved.iter().all(|task| {
        (0..steps(task).max(0)).all(|k| {
            let length = task.deadline - task.jitter + k * task.period;
            demand_bound(&reserved, length) + blocking(tasks, stop, length) <= length
        })
    })
}

/// The longest length that can fail; none if the utilisation is too high.
fn horizon(tasks: &[Demand], stop: i128) -> Option<i128> {
    let reserved = || tasks.iter().filter(|task| task.reserved);
    let utilisation: f64 = reserved().map(|t| t.work as f64 / t.period as f64).sum();
    if utilisation > 0.999 {
        return None;
    }
    let line: f64 = reserved()
        .map(|t| t.work as f64 * (1.0 + (t.jitter - t.deadline) as f64 / t.period as f64))
        .sum();
    let line = (stop as f64 + line) / (1.0 - utilisation);
    let longest = tasks.iter().map(|t| t.deadline).max().unwrap_or(0);
    // A little further than needed, for the rounding of the line above.
    Some(longest.max((line * 1.000_1) as i128 + 2))
}

/// The mandatory work of reserved requests that can be released and due within `length`.
fn demand_bound(reserved: &[&Demand], length: i128) -> i128 {
    let due = |task: &&Demand| {
        let since_first = length + task.jitter - task.deadline;
        if since_first < 0 {
            return 0;
        }
        task.work * (since_first / task.period + 1)
    };
    reserved.iter().map(due).sum()
}

/// The longest that less urgent work may hold the partition.
fn blocking(tasks: &[Demand], stop: i128, length: i128) -> i128 {
    let longer = tasks.iter().filter(|task| task.deadline > length);
    longer.map(|task| task.longest_stage).fold(stop, i128::max)
}
