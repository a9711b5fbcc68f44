//! Checks of a plan before anything runs: the relations that the scheduler's promises depend on.

use alloc::vec::Vec;

use crate::config::{Config, Criticality, ModelConfig, SHARE_WHOLE, TaskConfig};
use crate::error::{COUNT_MAX, ConfigError, QUEUED_MAX, SPAN_MAX};
use crate::ids::{BATCH_MAX, ModelId, PartitionId, STAGES_MAX, StageId, TaskId};
use crate::offline;
use crate::policy::{Contract, Partitioning, PolicySpec};
use crate::punctual::PLACED_PARTITIONS_MAX;
use crate::time::Nanos;

/// Checks a plan for a policy. The offline test is made at the first scale level only: at higher levels the
/// policy itself drops guarantees until the test passes.
pub(crate) fn check(config: &Config, policy: &dyn PolicySpec) -> Result<(), ConfigError> {
    let contract = policy.contract();
    check_counts(config)?;
    if config.partitions.is_empty() {
        return Err(ConfigError::NoPartition);
    }
    plan_span("the dispatch cost", config.dispatch_cost)?;
    plan_span("the egress bound", config.egress_bound)?;
    for partition in &config.partitions {
        plan_span("a preemption bound", partition.preemption_bound)?;
        if !(1..=SHARE_WHOLE).contains(&partition.share_max) {
            return Err(ConfigError::Share(partition.share_max));
        }
    }
    for (index, model) in config.models.iter().enumerate() {
        check_model(ModelId(index as u16), model, config.partitions.len())?;
        check_weights(ModelId(index as u16), model, config, contract)?;
        check_sharing(ModelId(index as u16), config)?;
    }
    for (index, task) in config.tasks.iter().enumerate() {
        check_task(TaskId(index as u16), task, config, contract)?;
    }
    // After all tasks: these checks read the models of two tasks, which must exist.
    for (index, task) in config.tasks.iter().enumerate() {
        check_offload(TaskId(index as u16), task, config)?;
    }
    check_places(config)?;
    check_buffers(config)?;
    policy.check(config)?;
    // The other kinds of policy need partitions that overlap.
    if matches!(
        contract.partitioning,
        Partitioning::Planned | Partitioning::Whole
    ) {
        check_disjoint(config)?;
    }
    if contract.promises {
        check_promises(config)?;
    }
    Ok(())
}

/// Positions are ids, and each partition has queues with room for all requests.
fn check_counts(config: &Config) -> Result<(), ConfigError> {
    for (what, count) in [
        ("tasks", config.tasks.len()),
        ("models", config.models.len()),
        ("partitions", config.partitions.len()),
    ] {
        if count > COUNT_MAX {
            return Err(ConfigError::Count { what, count });
        }
    }
    let (partitions, buffers) = (config.partitions.len(), config.request_buffers);
    if partitions.saturating_mul(usize::from(buffers)) > QUEUED_MAX {
        return Err(ConfigError::Queues {
            partitions,
            buffers,
        });
    }
    Ok(())
}

/// Places are partitions to which no task is assigned, so that the budgets and the scale of a home are those of its
/// own work.
fn check_places(config: &Config) -> Result<(), ConfigError> {
    let partitions = config.partitions.len();
    for (index, model) in config.models.iter().enumerate() {
        for &place in &model.places {
            let reason = match place {
                _ if place.index() >= partitions => {
                    "there is no such partition; name one of the plan's, counted from 0"
                }
                _ if config.tasks.iter().any(|task| task.partition == place) => {
                    "it is the partition of a task; add a partition with the same units as the place"
                }
                _ => continue,
            };
            let model = ModelId(index as u16);
            return Err(ConfigError::Place {
                model,
                place,
                reason,
            });
        }
    }
    if config.has_places() && partitions > PLACED_PARTITIONS_MAX {
        return Err(ConfigError::PlacedPartitions {
            partitions,
            limit: PLACED_PARTITIONS_MAX,
        });
    }
    Ok(())
}

/// No two partitions that tasks run on share a compute unit: the proof has one partition at a time
/// (docs/proof.md, assumption 6).
fn check_disjoint(config: &Config) -> Result<(), ConfigError> {
    let used: Vec<PartitionId> = config.tasks.iter().map(|task| task.partition).collect();
    for (position, &a) in used.iter().enumerate() {
        for &b in used[..position].iter().filter(|&&b| b != a) {
            let units = |at: PartitionId| config.partitions[at.index()].units;
            if units(a).overlaps(units(b)) {
                return Err(ConfigError::Overlap { a, b });
            }
        }
    }
    Ok(())
}

/// Each partition passes the offline test.
fn check_promises(config: &Config) -> Result<(), ConfigError> {
    for index in 0..config.partitions.len() {
        let partition = PartitionId(index as u16);
        let outcome = offline::test_partition(config, partition).outcome;
        outcome.map_err(|reason| ConfigError::Infeasible { partition, reason })?;
    }
    Ok(())
}

fn plan_span(what: &'static str, span: Nanos) -> Result<(), ConfigError> {
    if span > SPAN_MAX {
        return Err(ConfigError::PlanSpan { what, span });
    }
    Ok(())
}

fn check_model(id: ModelId, model: &ModelConfig, partitions: usize) -> Result<(), ConfigError> {
    let stages = model.stages.len();
    if stages == 0 || stages > STAGES_MAX {
        return Err(ConfigError::Stages { model: id, stages });
    }
    let last = StageId(stages as u8 - 1);
    if !model.stages[last.index()].answers {
        return Err(ConfigError::NoExit {
            model: id,
            stage: last,
        });
    }
    for (index, stage) in model.stages.iter().enumerate() {
        let at = StageId(index as u8);
        let rising = stage.times.windows(2).all(|w| w[0].batch < w[1].batch);
        let bounded = stage.times.first().is_some_and(|t| t.batch == 1)
            && stage
                .times
                .last()
                .is_some_and(|t| usize::from(t.batch) <= BATCH_MAX);
        let everywhere = stage.times.iter().all(|t| t.on.len() == partitions);
        if !(rising && bounded && everywhere) {
            return Err(ConfigError::Batches {
                model: id,
                stage: at,
            });
        }
        for time in stage.times.iter().flat_map(|t| &t.on) {
            plan_span("a stage's budget", time.budget)?;
            plan_span("a stage's longest time", time.max_seen)?;
        }
        let exits = stages - 1 - index;
        if stage.deeper.len() != exits {
            return Err(ConfigError::Calibration {
                model: id,
                stage: at,
                rows: stage.deeper.len(),
                exits,
            });
        }
    }
    Ok(())
}

/// If weights are paged, those of the model fit the device, and the policy can load them.
fn check_weights(
    id: ModelId,
    model: &ModelConfig,
    config: &Config,
    contract: Contract,
) -> Result<(), ConfigError> {
    // Without pages, the device holds all weights, whatever the models say.
    let Some(weights) = model.weights.filter(|_| config.pages > 0) else {
        return Ok(());
    };
    plan_span("a transfer of weights", weights.load)?;
    if weights.pages > config.pages {
        return Err(ConfigError::Pages {
            model: id,
            needed: weights.pages,
            pages: config.pages,
        });
    }
    if !contract.pages_weights {
        return Err(ConfigError::NotResident { model: id });
    }
    Ok(())
}

/// A stage that runs as another model's stage is equal to it in all that the scheduler sees, and both models'
/// weights are resident. Requests of both run in one batch.
fn check_sharing(id: ModelId, config: &Config) -> Result<(), ConfigError> {
    let is_paged = |model: &ModelConfig| config.pages > 0 && model.weights.is_some();
    let model = &config.models[id.index()];
    for (index, stage) in model.stages.iter().enumerate() {
        let Some(with) = stage.runs_as else {
            continue;
        };
        let other = config.models.get(with.index());
        let reason = match other.and_then(|other| Some((other, other.stages.get(index)?))) {
            None => "there is no such stage; name a model that has one",
            // So no two stages can each run as the other.
            Some(_) if with.index() >= id.index() => {
                "runs_as must name a model with a lower number; swap the two"
            }
            Some((_, of)) if of.runs_as.is_some() => {
                "that stage itself runs as a third model's; name the third model"
            }
            Some((_, of)) if of.times != stage.times => {
                "the times of the two stages differ; give both the same"
            }
            Some((_, of)) if of.answers != stage.answers => {
                "only one of the two stages ends in an exit; only equal stages can be shared"
            }
            Some((other, _)) if is_paged(other) || is_paged(model) => {
                "the weights of one of the two models are paged; only models with resident weights share stages"
            }
            Some(_) => continue,
        };
        return Err(ConfigError::NotShared {
            model: id,
            stage: StageId(index as u8),
            with,
            reason,
        });
    }
    Ok(())
}

fn check_task(
    id: TaskId,
    task: &TaskConfig,
    config: &Config,
    contract: Contract,
) -> Result<(), ConfigError> {
    let Some(model) = config.models.get(task.model.index()) else {
        return Err(ConfigError::UnknownModel {
            task: id,
            model: task.model,
            models: config.models.len(),
        });
    };
    if task.partition.index() >= config.partitions.len() {
        return Err(ConfigError::UnknownPartition {
            task: id,
            partition: task.partition,
            partitions: config.partitions.len(),
        });
    }
    if task.mandatory_exit.index() >= model.stages.len() {
        return Err(ConfigError::MandatoryExit {
            task: id,
            exit: task.mandatory_exit,
            stages: model.stages.len(),
        });
    }
    if !model.stages[task.mandatory_exit.index()].answers {
        return Err(ConfigError::NoExit {
            model: task.model,
            stage: task.mandatory_exit,
        });
    }
    if task.threshold_min > task.threshold {
        return Err(ConfigError::Thresholds {
            task: id,
            least: task.threshold_min,
            most: task.threshold,
        });
    }
    for (what, bound) in [
        ("batch_max", u16::from(task.batch_max)),
        ("burst", u16::from(task.burst)),
        ("queue_max", task.queue_max),
    ] {
        if bound == 0 {
            return Err(ConfigError::Zero { task: id, what });
        }
    }
    check_times(id, task, config, contract)
}

/// A task that serves another task's frames can promise deadlines, offloads nothing itself, and gives answers
/// that count for the other task. It has no reservation, so all of those frames are extras there.
fn check_offload(id: TaskId, task: &TaskConfig, config: &Config) -> Result<(), ConfigError> {
    let Some(taker) = task.offload_to else {
        return Ok(());
    };
    let exits = |task: &TaskConfig| {
        let stages = config.models[task.model.index()].stages.iter();
        stages.map(|stage| stage.answers)
    };
    let reason = match config.tasks.get(taker.index()) {
        None => "there is no such task; name a task of the plan",
        Some(_) if taker == id => "a task cannot offload to itself; name another task",
        Some(_) if task.criticality == Criticality::BestEffort => {
            "a best-effort task cannot offload, as its frames would become real-time work; remove offload_to"
        }
        Some(to) if to.criticality == Criticality::BestEffort => {
            "the other task is best-effort and cannot promise a deadline; name a real-time task"
        }
        Some(to) if to.reserved => {
            "the other task's capacity is reserved for its own frames; give it reserved = false"
        }
        Some(to) if to.offload_to.is_some() => {
            "the other task has an offload_to itself, and a frame is offloaded once; remove one of the two"
        }
        Some(to) if !exits(task).eq(exits(to)) => {
            "the networks of the two tasks have exits at different stages; use the same network"
        }
        Some(to) if to.mandatory_exit.0 < task.mandatory_exit.0 => {
            "the other task's mandatory_exit is shallower, so its answers might not count; make it as deep"
        }
        Some(_) => return Ok(()),
    };
    Err(ConfigError::Offload {
        task: id,
        taker,
        reason,
    })
}

fn check_times(
    id: TaskId,
    task: &TaskConfig,
    config: &Config,
    contract: Contract,
) -> Result<(), ConfigError> {
    let span = |what, span: Nanos| {
        if span == Nanos::ZERO || span > SPAN_MAX {
            return Err(ConfigError::Span {
                task: id,
                what,
                span,
            });
        }
        Ok(())
    };
    if task.criticality == Criticality::BestEffort && task.reserved {
        return Err(ConfigError::ReservedBestEffort { task: id });
    }
    let paged = config.pages > 0 && config.models[task.model.index()].weights.is_some();
    if task.reserved && paged && contract.promises {
        let model = task.model;
        return Err(ConfigError::ReservedPaged { task: id, model });
    }
    if task.criticality == Criticality::RealTime {
        span("the period", task.period)?;
        if task.deadline.is_none() {
            return Err(ConfigError::NoDeadline { task: id });
        }
    }
    // Best-effort tasks without a deadline are done here: nothing below applies to them.
    plan_span("a preparation", task.prepare)?;
    plan_span("a jitter", task.jitter)?;
    let Some(deadline) = task.deadline else {
        return Ok(());
    };
    span("the deadline", deadline)?;
    if task.jitter + config.egress_bound >= deadline {
        return Err(ConfigError::Jitter {
            task: id,
            jitter: task.jitter,
            deadline,
            egress: config.egress_bound,
        });
    }
    let needed = reserved_buffers(task);
    if u64::from(task.queue_max) < needed {
        return Err(ConfigError::Queue {
            task: id,
            queue_max: task.queue_max,
            needed,
        });
    }
    Ok(())
}

/// Request buffers, and places in its queue, that only a task's conforming requests may take.
pub(crate) fn reserved_buffers(task: &TaskConfig) -> u64 {
    match task.deadline {
        Some(deadline) if task.reserved => {
            let each = offline::buffers_reserved(deadline, task.jitter, task.period);
            each.saturating_mul(u64::from(task.burst))
        }
        _ => 0,
    }
}

fn check_buffers(config: &Config) -> Result<(), ConfigError> {
    let reserved: u64 = config.tasks.iter().map(reserved_buffers).sum();
    // Tasks without a reservation share the other buffers. Without at least one they could never run.
    let shared = u64::from(config.tasks.iter().any(|task| !task.reserved));
    let needed = (reserved + shared).max(1);
    if u64::from(config.request_buffers) < needed {
        return Err(ConfigError::Buffers {
            buffers: config.request_buffers,
            needed,
        });
    }
    Ok(())
}
