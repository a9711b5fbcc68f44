//! Layouts other than the first: why each keeps the promises, and what a change between two costs.

use punctual_core::{Config, Criticality, Layout as CoreLayout, Nanos, PartitionId, TaskConfig};
use punctual_diagnostics::Problems;
use serde::Serialize;

use super::load::CoreLoad;
use super::promises::{self, Promises};
use super::schedulability::PartitionReport;
use crate::manifest::Margins;
use crate::resolve::{Layout, Resolved};

/// A layout other than the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayoutPlan {
    pub name: String,
    /// The partition of each task. Position `t` is `TaskId(t)`.
    pub partitions: Vec<PartitionId>,
    /// Promised work on every core that the plan uses, while this is the layout.
    pub core_loads: Vec<CoreLoad>,
    /// Why the promises can be kept in this layout, a partition with tasks at a time.
    pub schedulability: Vec<PartitionReport>,
}

/// What it costs to change from one layout to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LayoutChange {
    /// The first layout is 0.
    pub from: usize,
    /// Counted likewise.
    pub to: usize,
    /// Those that have other tasks then, and wait.
    pub partitions: Vec<PartitionId>,
    /// The longest time for which none of them begins a stage.
    pub wait: Nanos,
}

/// The layouts as the scheduler knows them.
pub(super) fn of_scheduler(layouts: &[Layout]) -> Vec<CoreLayout> {
    let layouts = layouts.iter().map(|layout| CoreLayout {
        partitions: ids(&layout.partitions),
        load: layout.load,
    });
    layouts.collect()
}

fn ids(partitions: &[usize]) -> Vec<PartitionId> {
    let partitions = partitions.iter();
    partitions.map(|&at| PartitionId(at as u16)).collect()
}

/// Bound on a change once its partitions are idle: the scheduler decides once more and hands over. Nothing is moved:
/// each partition has its threads, its stream and its workspace from the start, and a mask is written when a stage
/// starts, which is part of the stage's measured time.
pub(super) fn switch_cost(layouts: &[Layout], margins: &Margins) -> Nanos {
    match layouts {
        [] => Nanos::ZERO,
        _ => margins.dispatch,
    }
}

/// Notes every promise that cannot be kept in a layout other than the first, but could be kept in the first.
pub(super) fn check(
    resolved: &Resolved<'_>,
    config: &Config,
    problems: &mut Problems<'_>,
) -> Vec<LayoutPlan> {
    let mut plans = Vec::new();
    for (position, layout) in resolved.layouts.iter().enumerate() {
        let within = config.in_layout(position + 1);
        let Promises {
            loads,
            schedulability,
        } = promises::check_layout(resolved, layout, (config, &within), problems);
        plans.push(LayoutPlan {
            name: layout.name.clone(),
            partitions: ids(&layout.partitions),
            core_loads: loads,
            schedulability,
        });
    }
    plans
}

/// Each pair of layouts.
pub(super) fn changes(config: &Config) -> Vec<LayoutChange> {
    let layouts: Vec<Config> = (0..=config.layouts.len())
        .map(|layout| config.in_layout(layout))
        .collect();
    let mut changes = Vec::new();
    for (from, now) in layouts.iter().enumerate() {
        for (to, then) in layouts.iter().enumerate().filter(|(to, _)| *to != from) {
            let partitions = (0..config.partitions.len()).map(|at| PartitionId(at as u16));
            let partitions: Vec<PartitionId> = partitions
                .filter(|&partition| !have_equal_tasks(now, then, partition))
                .collect();
            let longest = partitions.iter().map(|&partition| longest(now, partition));
            let wait = longest.max().unwrap_or(Nanos::ZERO) + config.switch_cost;
            changes.push(LayoutChange {
                from,
                to,
                partitions,
                wait,
            });
        }
    }
    changes
}

/// Whether a partition has the same tasks in two layouts.
pub(super) fn have_equal_tasks(one: &Config, other: &Config, partition: PartitionId) -> bool {
    let here = |task: &TaskConfig| task.partition == partition;
    let mut tasks = one.tasks.iter().zip(&other.tasks);
    tasks.all(|(one, other)| here(one) == here(other))
}

/// The longest time for which an action of a partition's tasks keeps it: a real-time one runs to its end, a
/// best-effort one is preempted.
fn longest(config: &Config, partition: PartitionId) -> Nanos {
    let tasks = config.tasks.iter();
    let tasks = tasks.filter(|task| task.partition == partition);
    let kept = tasks.map(|task| match task.criticality {
        Criticality::BestEffort => {
            config.partitions[partition.index()].preemption_bound + config.dispatch_cost
        }
        Criticality::RealTime => {
            let stages = config.models[task.model.index()].stages.iter();
            let times = stages.flat_map(|stage| &stage.times);
            let budgets = times.map(|time| time.on[partition.index()].budget);
            budgets.max().unwrap_or(Nanos::ZERO) + config.dispatch_cost
        }
    });
    kept.max().unwrap_or(Nanos::ZERO)
}
