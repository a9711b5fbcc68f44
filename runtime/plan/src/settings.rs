//! The scheduler's own part of the plan: its tables, from what was resolved and measured.

use punctual_core::{
    Confidence, Config, ModelConfig, ModelId, PartitionConfig, PartitionId, Partitioning, StageId,
    TaskConfig, Units, offline,
};

use crate::arrival::{self, Interference};
use crate::budgets::{Budgets, Margins};
use crate::load::SHARE_MAX;
use crate::models::{self, Model};
use crate::placement::Placement;
use crate::plan::ArrivalBound;
use crate::sharing::Sharing;
use crate::spill;
use crate::tasks::Task;
use punctual_diagnostics::Problems;

/// All tables. Figures that are missing from a profile are noted.
pub(crate) fn config(
    tasks: &[Task],
    (models, sharing): (&[Model<'_>], &Sharing),
    placement: &Placement,
    arrivals: &[ArrivalBound],
    margins: &Margins,
    partitioning: Partitioning,
    problems: &mut Problems<'_>,
) -> Config {
    let stretches: Vec<Vec<Interference>> = (0..placement.partitions.len())
        .map(|p| arrival::on_partition(p, tasks, models, placement, arrivals, margins))
        .collect();
    let budgets = Budgets {
        margins,
        stretches: &stretches,
    };
    let partitions = 0..placement.partitions.len();
    let settings = tasks.iter().zip(arrivals);
    let settings: Vec<TaskConfig> = settings
        .map(|(task, arrival)| TaskConfig {
            spill: spill::taker(task, tasks),
            ..task_config(task, *arrival)
        })
        .collect();
    Config {
        pages: 0,
        layouts: Vec::new(),
        switch_cost: punctual_core::Nanos::ZERO,
        request_buffers: request_buffers(tasks, &settings),
        tasks: settings,
        models: model_configs(
            (models, sharing),
            placement,
            tasks,
            partitioning,
            &budgets,
            problems,
        ),
        partitions: partitions
            .map(|partition| PartitionConfig {
                units: units(placement, partition),
                preemption_bound: models::preemption_bound(models, tasks, partition, &budgets),
                share_max: 1000,
            })
            .collect(),
        dispatch_cost: margins.dispatch,
        egress_bound: margins.egress,
    }
}

fn units(placement: &Placement, partition: usize) -> Units {
    let partition = &placement.partitions[partition];
    let cores = placement.units();
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
pub(crate) fn batches(models: &[Model<'_>], sharing: &Sharing, tasks: &[Task]) -> Vec<Vec<u8>> {
    (0..models.len())
        .map(|model| {
            let users = tasks.iter();
            let users = users.filter(|task| sharing.are_grouped(task.model, model));
            models::batches_up_to(users.map(|task| task.batch_max).max().unwrap_or(1))
        })
        .collect()
}

fn model_configs(
    (models, sharing): (&[Model<'_>], &Sharing),
    placement: &Placement,
    tasks: &[Task],
    partitioning: Partitioning,
    budgets: &Budgets<'_>,
    problems: &mut Problems<'_>,
) -> Vec<ModelConfig> {
    let batches = batches(models, sharing, tasks);
    let anywhere = partitioning == Partitioning::Ranges;
    let configs = models.iter().enumerate().map(|(position, model)| {
        let runs_on = |partition| {
            tasks
                .iter()
                .filter(|task| sharing.are_grouped(task.model, position))
                .any(|task| anywhere || task.partition == partition)
        };
        let (batches, partitions) = (&batches[position], &placement.partitions);
        models::config(model, batches, partitions, runs_on, budgets, problems)
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
        period: task.period.unwrap_or(punctual_core::SPAN_MAX),
        jitter: arrival.jitter(),
        prepare: arrival.prepare,
        mandatory_exit: StageId(task.mandatory_exit),
        threshold: Confidence::from_probability(task.threshold as f32),
        threshold_min: Confidence::from_probability(task.threshold_min as f32),
        batch_max: task.batch_max,
        queue_max: task.queue,
        reserved: task.reserved,
        eager: task.eager,
        weight: task.weight,
        spill: None,
        delivery: task.delivery,
    }
}

/// Places that must be kept for a task's promised frames.
pub(crate) fn kept(task: &Task, config: &TaskConfig) -> u64 {
    match task.promise().filter(|_| task.reserved) {
        Some((period, deadline)) => offline::buffers_kept(deadline, config.jitter, period),
        None => 0,
    }
}

/// As many buffers as all queues together, and one more than is kept for promised frames, so
/// that the others are not shut out. At most 64 queues of 64.
fn request_buffers(tasks: &[Task], settings: &[TaskConfig]) -> u16 {
    let queues: u64 = tasks.iter().map(|task| u64::from(task.queue)).sum();
    let kept = tasks.iter().zip(settings);
    let kept: u64 = kept
        .map(|(task, settings)| kept_at_most(task, settings))
        .sum();
    queues.max(kept + 1) as u16
}

fn kept_at_most(task: &Task, config: &TaskConfig) -> u64 {
    kept(task, config).min(u64::from(task.queue))
}
