//! The scheduler's own part of the plan: its tables, from what was resolved and measured.

use punctual_core::{
    Confidence, Config, ModelConfig, ModelId, PartitionConfig, PartitionId, Partitioning,
    PolicySpec as _, SPAN_MAX, StageId, TaskConfig, Units, offline,
};
use punctual_diagnostics::Problems;

use super::arrival::{self, ArrivalBound, Interference};
use super::load::SHARE_MAX;
use super::preemption;
use super::sharing::Sharing;
use super::times::{self, Budgets};
use crate::resolve::{Placement, Resolved, Task, batches_up_to, groups, taker};

/// All tables. Figures that are missing from a profile are noted.
pub(super) fn config(
    resolved: &Resolved<'_>,
    sharing: &Sharing,
    batches: &[Vec<u8>],
    arrivals: &[ArrivalBound],
    problems: &mut Problems<'_>,
) -> Config {
    let (tasks, placement) = (&resolved.tasks, &resolved.placement);
    let margins = &resolved.manifest.daemon.margins;
    let stretches = stretches(resolved, arrivals);
    let budgets = Budgets {
        margins,
        stretches: &stretches,
    };
    let partitions = 0..placement.partitions.len();
    let settings = tasks.iter().zip(arrivals);
    let settings: Vec<TaskConfig> = settings
        .map(|(task, arrival)| TaskConfig {
            offload_to: taker(task, tasks),
            ..task_config(task, *arrival)
        })
        .collect();
    Config {
        pages: 0,
        request_buffers: request_buffers(tasks, &settings),
        tasks: settings,
        models: model_configs(resolved, sharing, batches, &budgets, problems),
        partitions: partitions
            .map(|partition| PartitionConfig {
                units: units(placement, partition),
                preemption_bound: preemption::bound(resolved, partition, &budgets),
                share_max: 1000,
            })
            .collect(),
        dispatch_cost: margins.dispatch,
        egress_bound: margins.egress,
    }
}

/// For each partition, what stretches whatever runs on it.
pub(super) fn stretches(
    resolved: &Resolved<'_>,
    arrivals: &[ArrivalBound],
) -> Vec<Vec<Interference>> {
    (0..resolved.placement.partitions.len())
        .map(|partition| arrival::on_partition(partition, resolved, arrivals))
        .collect()
}

fn units(placement: &Placement, partition: usize) -> Units {
    let (position, partition) = (partition, &placement.partitions[partition]);
    let cores = placement.units();
    if partition.fills() {
        // To the scheduler a device of its own: it never waits for the partitions that run at the same time.
        let all = placement.partitions.iter();
        let tpcs = all
            .filter_map(|p| p.tpcs.last())
            .max()
            .map_or(0, |last| last + 1);
        let before = placement.partitions[..position]
            .iter()
            .filter(|p| p.fills());
        return Units {
            first: cores.len() as u16 + tpcs + before.count() as u16,
            count: 1,
        };
    }
    let first = match partition.tpcs.first() {
        Some(tpc) => cores.len() + usize::from(*tpc),
        None => {
            let leader = cores.iter().position(|unit| *unit == partition.cores[0]);
            leader.unwrap_or_default()
        }
    };
    Units {
        first: first as u16,
        count: partition.unit_count() as u16,
    }
}

/// Real-time threads leave a share of their cores to the kernel, which would otherwise take it.
/// (Ordinary threads cannot keep a core from it for too long.)
pub(crate) fn leave_share(config: &mut Config) {
    for partition in &mut config.partitions {
        partition.share_max = SHARE_MAX;
    }
}

/// For each model, the batch sizes that its tasks need, and those of the models that it shares stages with.
pub(super) fn batches(resolved: &Resolved<'_>, sharing: &Sharing) -> Vec<Vec<u8>> {
    (0..resolved.models.len())
        .map(|model| {
            let users = resolved.tasks.iter();
            let users = users.filter(|task| sharing.are_grouped(task.model, model));
            batches_up_to(users.map(|task| task.batch_max).max().unwrap_or(1))
        })
        .collect()
}

fn model_configs(
    resolved: &Resolved<'_>,
    sharing: &Sharing,
    batches: &[Vec<u8>],
    budgets: &Budgets<'_>,
    problems: &mut Problems<'_>,
) -> Vec<ModelConfig> {
    let contract = resolved.manifest.daemon.policy.value.contract();
    let anywhere = contract.partitioning == Partitioning::Ranges;
    let configs = resolved.models.iter().enumerate().map(|(position, model)| {
        let (batches, partitions) = (&batches[position], &resolved.placement.partitions);
        let runs_on = |partition: usize| {
            let place = &partitions[partition];
            let lent = place.is_place() && place.device == model.device;
            let tasks = resolved.tasks.iter();
            tasks
                .filter(|task| sharing.are_grouped(task.model, position))
                .any(|task| anywhere || lent || task.partition == partition)
        };
        times::config(model, batches, partitions, runs_on, budgets, problems)
    });
    let mut configs: Vec<ModelConfig> = configs.collect();
    sharing.apply(&mut configs);
    configs
}

fn task_config(task: &Task, arrival: ArrivalBound) -> TaskConfig {
    TaskConfig {
        model: ModelId(task.model as u16),
        partition: PartitionId(task.partition as u16),
        criticality: task.criticality,
        deadline: task.deadline,
        // Nothing is promised to a best-effort task, so its period is of no account.
        period: task.period.unwrap_or(SPAN_MAX),
        burst: task.burst,
        jitter: arrival.jitter(),
        prepare: arrival.prepare,
        mandatory_exit: StageId(task.mandatory_exit),
        threshold: Confidence::from_probability(task.threshold as f32),
        threshold_min: Confidence::from_probability(task.threshold_min as f32),
        batch_max: task.batch_max,
        queue_max: task.queue_depth,
        reserved: task.reserved,
        answers: task.answers,
        weight: task.weight,
        offload_to: None,
        delivery: task.delivery,
    }
}

/// Places that must be kept for a task's promised frames.
pub(crate) fn kept(task: &Task, config: &TaskConfig) -> u64 {
    match task.promise().filter(|_| task.reserved) {
        Some((period, deadline)) => {
            let bursts = offline::buffers_reserved(deadline, config.jitter, period);
            bursts * u64::from(config.burst)
        }
        None => 0,
    }
}

/// As many buffers as all queues together, or as the clients of a group of tasks can have frames without a verdict, and one
/// more than is kept for promised frames, so that the others are not shut out.
fn request_buffers(tasks: &[Task], settings: &[TaskConfig]) -> u16 {
    let of_group = |group: &[Task]| {
        let queues: u64 = group.iter().map(|task| u64::from(task.queue_depth)).sum();
        let of_frame = if group.iter().any(Task::is_part) {
            group.iter().map(|task| u64::from(task.burst)).sum()
        } else {
            1
        };
        let submitted = u64::from(group[0].clients) * u64::from(group[0].channel().results);
        queues.min(submitted * of_frame)
    };
    let queues: u64 = groups(tasks).map(of_group).sum();
    let kept = tasks.iter().zip(settings);
    let kept: u64 = kept
        .map(|(task, settings)| kept_at_most(task, settings))
        .sum();
    // The scheduler refuses a plan that keeps more.
    u16::try_from(queues.max(kept + 1)).unwrap_or(u16::MAX)
}

fn kept_at_most(task: &Task, config: &TaskConfig) -> u64 {
    kept(task, config).min(u64::from(task.queue_depth))
}
