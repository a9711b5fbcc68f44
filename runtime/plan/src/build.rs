//! From inputs to a plan: the order of the steps. Every step works on what the ones before could
//! make sense of, so that one attempt finds all problems that can be found.

use punctual_core::{
    Confidence, Config, Criticality, ModelId, Nanos, PartitionConfig, PartitionId,
};
use punctual_core::{Scheduler, StageId, TaskConfig, TaskId, offline};

use crate::arrival::{self, Interference};
use crate::budgets::Budgets;
use crate::cause::Cause;
use crate::inputs::PlanInputs;
use crate::load;
use crate::manifest::Manifest;
use crate::memory::{self, MemoryBudget};
use crate::models::{self, Model};
use crate::placement::{self, Placement, Priorities};
use crate::plan::{ArrivalBound, ClientSlotPlan, PartitionPlan, Plan, PlanHash, TaskPlan};
use crate::problem::{Place, PlanErrors, Problems};
use crate::schedulability;
use crate::tasks::{self, Task};
use crate::warning;

impl Plan {
    /// Validates everything and freezes it.
    ///
    /// # Errors
    /// All problems that were found.
    pub fn build(inputs: &PlanInputs) -> Result<Self, PlanErrors> {
        let mut problems = Problems::new(&inputs.manifest_path, &inputs.manifest_text);
        let plan = assemble(inputs, &mut problems);
        problems.into_result().map(|()| plan)
    }
}

/// The plan so far as it can be made; it counts only if no problem was noted.
fn assemble(inputs: &PlanInputs, problems: &mut Problems<'_>) -> Plan {
    let manifest = Manifest::read(&inputs.manifest_text, problems);
    let power_mode = board_and_power_mode(&manifest, inputs, problems);
    let placement = Placement::new(&manifest, &available_cores(inputs), problems);
    let models = models::find(&manifest, inputs, &power_mode, problems);
    let tasks = tasks::resolve(&manifest, &models, &placement.partitions, problems);
    let shared = placement.shared().next().is_some();
    let priorities = Priorities::new(&manifest.daemon.priority, &tasks, shared, problems);
    let threads = placement::threads(&placement, &priorities, &tasks, inputs.host.realtime);

    let margins = manifest.daemon.margins;
    let batches = batches(&models, &tasks);
    let before = problems.count();
    let arrivals = arrival::bounds(&tasks, &models, &placement, &margins, problems);
    let stretches: Vec<Vec<Interference>> = (0..placement.partitions.len())
        .map(|p| arrival::on_partition(p, &tasks, &models, &placement, &arrivals, &margins))
        .collect();
    let budgets = Budgets {
        margins: &margins,
        stretches: &stretches,
    };
    let mut config = Config {
        tasks: tasks
            .iter()
            .zip(&arrivals)
            .map(|(task, arrival)| task_config(task, *arrival))
            .collect(),
        models: model_configs(&models, &batches, &placement, &tasks, &budgets, problems),
        partitions: partition_configs(&models, &tasks, &placement, &budgets),
        request_buffers: 0,
        dispatch_cost: margins.dispatch,
        egress_bound: margins.egress,
    };
    config.request_buffers = request_buffers(&tasks, &config);
    // With figures missing nothing can be said of promises.
    if problems.count() == before {
        deadlines(&tasks, &config, &arrivals, problems);
        queues(&tasks, &config, problems);
        load::check(&tasks, &models, &placement, &config, problems);
    }
    // A task that cannot be on time even alone would only be named again.
    let schedulability = if problems.count() == before {
        schedulability::test(&config, &placement.partitions, &tasks, problems)
    } else {
        Vec::new()
    };
    let memory = memory_budget(inputs, &manifest, problems, || {
        let (buffers, threads) = (config.request_buffers, threads.len());
        memory::items(&models, &batches, &placement, &tasks, buffers, threads)
    });
    if problems.count() == 0
        && let Err(error) = Scheduler::new(config.clone())
    {
        problems.add(&Place::default(), Cause::SchedulerRefuses { error });
    }
    let warnings = warning::all(inputs, &manifest, &placement, &models, &tasks, &config);

    let mut plan = Plan {
        hash: PlanHash::default(),
        manifest: inputs.manifest_path.clone(),
        board: inputs.board.name.clone(),
        power_mode,
        socket: manifest.daemon.socket.into(),
        drain_bound: manifest.daemon.drain,
        realtime: inputs.host.realtime,
        margins,
        threads,
        housekeeping_cores: placement.system.clone(),
        partitions: placement
            .partitions
            .iter()
            .map(|partition| PartitionPlan {
                name: partition.name.clone(),
                cores: partition.cores.clone(),
            })
            .collect(),
        models: models
            .iter()
            .zip(&batches)
            .map(|(model, batches)| model.plan(batches))
            .collect(),
        client_slots: client_slots(&tasks),
        tasks: task_plans(&tasks, &arrivals),
        memory,
        scheduler: config,
        schedulability,
        warnings,
    };
    plan.hash = PlanHash::of(&plan);
    plan
}

fn available_cores(inputs: &PlanInputs) -> Vec<u16> {
    let mut available = inputs.host.cores.clone();
    available.sort_unstable();
    available.dedup();
    available
}

fn board_and_power_mode(
    manifest: &Manifest,
    inputs: &PlanInputs,
    problems: &mut Problems<'_>,
) -> String {
    let board = &inputs.board;
    if let Some(named) = manifest
        .daemon
        .board
        .as_ref()
        .filter(|at| at.value != board.name)
    {
        let cause = Cause::OtherBoard {
            manifest: named.value.clone(),
            board: board.name.clone(),
        };
        problems.add(&named.place, cause);
    }
    let Some(mode) = &manifest.daemon.power_mode else {
        return board.default_power_mode().to_owned();
    };
    if !board.power_modes.value.contains(&mode.value) {
        let cause = Cause::NotOneOf {
            value: mode.value.clone(),
            allowed: board.power_modes.value.clone(),
        };
        problems.add(&mode.place, cause);
    }
    mode.value.clone()
}

/// For each model, the batch sizes that its tasks need.
fn batches(models: &[Model<'_>], tasks: &[Task]) -> Vec<Vec<u8>> {
    (0..models.len())
        .map(|model| {
            let users = tasks.iter().filter(|task| task.model == model);
            models::batches_up_to(users.map(|task| task.batch_max).max().unwrap_or(1))
        })
        .collect()
}

fn model_configs(
    models: &[Model<'_>],
    batches: &[Vec<u8>],
    placement: &Placement,
    tasks: &[Task],
    budgets: &Budgets<'_>,
    problems: &mut Problems<'_>,
) -> Vec<punctual_core::ModelConfig> {
    models
        .iter()
        .enumerate()
        .map(|(position, model)| {
            let runs_on = |partition| {
                tasks
                    .iter()
                    .any(|task| task.model == position && task.partition == partition)
            };
            let (batches, partitions) = (&batches[position], &placement.partitions);
            models::config(model, batches, partitions, runs_on, budgets, problems)
        })
        .collect()
}

fn partition_configs(
    models: &[Model<'_>],
    tasks: &[Task],
    placement: &Placement,
    budgets: &Budgets<'_>,
) -> Vec<PartitionConfig> {
    (0..placement.partitions.len())
        .map(|partition| PartitionConfig {
            preemption_bound: models::preemption_bound(models, tasks, partition, budgets),
        })
        .collect()
}

fn task_config(task: &Task, arrival: ArrivalBound) -> TaskConfig {
    TaskConfig {
        model: ModelId(task.model as u16),
        partition: PartitionId(task.partition as u8),
        criticality: task.criticality,
        deadline: task.deadline,
        // Nothing is promised to a best-effort task, so its period is of no account.
        period: task.period.unwrap_or(punctual_core::SPAN_MAX),
        jitter: arrival.jitter(),
        prepare: arrival.prepare,
        mandatory_exit: StageId(task.mandatory_exit),
        threshold: Confidence::from_probability(task.threshold as f32),
        batch_max: task.batch_max,
        queue_max: task.queue,
        reserved: task.reserved,
        eager: task.eager,
        weight: task.weight,
    }
}

/// Places that must be kept for a task's promised frames.
fn kept(task: &Task, config: &TaskConfig) -> u64 {
    match task.promise().filter(|_| task.reserved) {
        Some((period, deadline)) => offline::buffers_kept(deadline, config.jitter, period),
        None => 0,
    }
}

/// As many buffers as all queues together, and one more than is kept for promised frames, so
/// that the others are not shut out. At most 64 queues of 64.
fn request_buffers(tasks: &[Task], config: &Config) -> u16 {
    let queues: u64 = tasks.iter().map(|task| u64::from(task.queue)).sum();
    let kept = tasks.iter().zip(&config.tasks);
    let kept: u64 = kept
        .map(|(task, settings)| kept_at_most(task, settings))
        .sum();
    queues.max(kept + 1) as u16
}

fn kept_at_most(task: &Task, config: &TaskConfig) -> u64 {
    kept(task, config).min(u64::from(task.queue))
}

/// Whether each queue holds its promised frames.
fn queues(tasks: &[Task], config: &Config, problems: &mut Problems<'_>) {
    for (task, settings) in tasks.iter().zip(&config.tasks) {
        let (queue, least) = (task.queue, kept(task, settings));
        // A jitter beyond the deadline was noted as such; its queue of thousands would be noise.
        let hopeless = task
            .deadline
            .is_some_and(|deadline| settings.jitter >= deadline);
        if u64::from(queue) < least && !hopeless {
            problems.add(&task.queue_place, Cause::QueueTooShort { queue, least });
        }
    }
}

/// Whether each task could be on time if it were alone.
fn deadlines(
    tasks: &[Task],
    config: &Config,
    arrivals: &[ArrivalBound],
    problems: &mut Problems<'_>,
) {
    let egress = config.egress_bound;
    for ((task, settings), arrival) in tasks.iter().zip(&config.tasks).zip(arrivals) {
        let Some(deadline) = task.deadline else {
            continue;
        };
        let available = deadline.saturating_sub(egress);
        let jitter = arrival.jitter();
        if jitter >= available {
            let cause = Cause::ArrivalTooSlow {
                jitter,
                channel: arrival.channel,
                prepare: arrival.prepare_worst,
                egress,
                available,
            };
            problems.add(&task.deadline_place, cause);
            continue;
        }
        let stages = &config.models[task.model].stages[..=usize::from(task.mandatory_exit)];
        let work = stages.iter().fold(Nanos::ZERO, |sum, stage| {
            sum + stage.times[0].on[settings.partition.index()].budget + config.dispatch_cost
        });
        let needed = jitter + work;
        if needed > available && task.criticality == Criticality::RealTime {
            let cause = Cause::DeadlineUnreachable {
                needed,
                jitter,
                work,
                exit: task.mandatory_exit,
                egress,
                available,
            };
            problems.add(&task.deadline_place, cause);
        }
    }
}

fn memory_budget(
    inputs: &PlanInputs,
    manifest: &Manifest,
    problems: &mut Problems<'_>,
    items: impl FnOnce() -> Vec<memory::MemoryItem>,
) -> MemoryBudget {
    let asked = manifest.daemon.memory_bytes.as_ref();
    let board = inputs.board.memory_bytes.as_ref().map(|fact| fact.value);
    let there = board.map_or(inputs.host.memory_bytes, |bytes| {
        bytes.min(inputs.host.memory_bytes)
    });
    let budget = MemoryBudget {
        items: items(),
        limit_bytes: asked.map_or(there, |at| at.value.min(there)),
    };
    let total = budget.total_bytes();
    if total > budget.limit_bytes {
        let largest = budget.items.iter().max_by_key(|item| item.total_bytes());
        let cause = Cause::MemoryExceeded {
            total,
            limit: budget.limit_bytes,
            largest: largest.map(ToString::to_string).unwrap_or_default(),
            largest_bytes: largest.map_or(0, memory::MemoryItem::total_bytes),
        };
        let place = asked.map_or_else(
            || Place {
                key: "daemon.memory_mb".to_owned(),
                span: None,
            },
            |at| at.place.clone(),
        );
        problems.add(&place, cause);
    }
    budget
}

fn client_slots(tasks: &[Task]) -> Vec<ClientSlotPlan> {
    let mut slots = Vec::new();
    for (position, task) in tasks.iter().enumerate() {
        let slot = ClientSlotPlan {
            task: TaskId(position as u16),
        };
        slots.extend(std::iter::repeat_n(slot, usize::from(task.clients)));
    }
    slots
}

fn task_plans(tasks: &[Task], arrivals: &[ArrivalBound]) -> Vec<TaskPlan> {
    let mut next_slot = 0;
    let mut plans = Vec::new();
    for (task, arrival) in tasks.iter().zip(arrivals) {
        plans.push(TaskPlan {
            name: task.name.clone(),
            model: ModelId(task.model as u16),
            partition: PartitionId(task.partition as u8),
            criticality: task.criticality,
            period: task.period,
            deadline: task.deadline,
            mandatory_exit: StageId(task.mandatory_exit),
            threshold: Confidence::from_probability(task.threshold as f32),
            batch_max: task.batch_max,
            queue: task.queue,
            client_slots: (next_slot..next_slot + task.clients).collect(),
            frame: task.frame,
            channel: task.channel(),
            arrival: *arrival,
        });
        next_slot += task.clients;
    }
    plans
}
