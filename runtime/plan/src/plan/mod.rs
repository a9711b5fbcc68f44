//! The fourth phase: the tables that everybody works by, and what somebody should know of them.

mod frozen;
mod report;
mod warning;

pub use frozen::{AfterPlan, ClientSlotPlan, ModelPlan, Plan, PlanHash, TaskPlan};
pub use warning::Warning;

use punctual_core::{
    Confidence, ConfigError, ModelConfig, ModelId, PartitionId, Scheduler, StageId, TaskId,
};
use punctual_diagnostics::{Place, Problems, Rule};
use punctual_model::{LaunchProfile, OutputLayout, SolutionChoice};
use thiserror::Error;

use crate::budget::{ArrivalBound, Budgeted};
use crate::inputs::PlanInputs;
use crate::manifest::Defaulted;
use crate::resolve::{FramePlan, Model, PartitionPlan, Placed, Resolved, Task, groups};

/// What the scheduler found, and the rules of the plan did not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the scheduler refuses the plan: {error}")]
#[non_exhaustive]
pub struct SchedulerRefuses {
    pub error: ConfigError,
}

impl Rule for SchedulerRefuses {
    fn rule(&self) -> &'static str {
        "a plan fulfils the scheduler's own conditions"
    }

    fn help(&self) -> String {
        "change the key that it names, and report this: one of the plan's rules should have found it".into()
    }
}

/// The plan as far as it can be made; it counts only if no problem was noted.
pub(crate) fn freeze(
    budgeted: Budgeted<'_>,
    inputs: &PlanInputs,
    problems: &mut Problems<'_>,
) -> Plan {
    let policy = &budgeted.resolved.manifest.daemon.policy.value;
    if problems.count() == 0
        && let Err(error) = Scheduler::new(&budgeted.scheduler, policy)
    {
        problems.add(&Place::default(), SchedulerRefuses { error });
    }
    let warnings = warning::all(&budgeted, inputs);
    let Budgeted {
        mut resolved,
        promises,
        ..
    } = budgeted;
    let defaults = defaults(&mut resolved);
    let models = resolved.models.iter().zip(&budgeted.batches);
    let models = models.zip(resolved.outputs);
    let partitions = resolved.placement.partitions.iter();
    let daemon = resolved.manifest.daemon;
    let mut plan = Plan {
        hash: PlanHash::default(),
        manifest: inputs.manifest_path.clone(),
        board: inputs.board.name.clone(),
        power_mode: resolved.power_mode,
        socket: daemon.socket.into(),
        admission: resolved.admission,
        drain_bound: daemon.drain,
        watchdog: daemon.watchdog,
        idle_latency: daemon.idle_latency,
        start_mb_per_s: daemon.start_mb_per_s,
        recorder: resolved.manifest.recorder,
        realtime: inputs.host.realtime,
        margins: daemon.margins,
        threads: budgeted.threads,
        partitions: partitions.map(partition_plan).collect(),
        housekeeping_cores: resolved.placement.system,
        models: models
            .zip(budgeted.launches)
            .zip(&budgeted.scheduler.models)
            .map(|((((model, batches), outputs), launches), config)| {
                model_plan(model, config, batches, outputs, launches)
            })
            .collect(),
        client_slots: client_slots(&resolved.tasks),
        tasks: task_plans(&resolved.tasks, &budgeted.arrivals),
        memory: budgeted.memory,
        gpu: budgeted.gpu,
        policy: daemon.policy.value,
        scheduler: budgeted.scheduler,
        places: budgeted.places,
        core_loads: promises.loads,
        schedulability: promises.schedulability,
        warnings,
        defaults,
        renamed_keys: problems.renamed().to_vec(),
    };
    plan.hash = PlanHash::of(&plan);
    plan
}

/// What the manifest leaves out, with what its packages and the machine say of it.
fn defaults(resolved: &mut Resolved<'_>) -> Vec<Defaulted> {
    let manifest = &mut resolved.manifest;
    let mut defaults = std::mem::take(&mut manifest.defaults);
    for raw in &manifest.partitions {
        let mut placed = resolved.placement.partitions.iter();
        let placed = placed.find(|placed| placed.name == raw.name.value);
        if let Some(placed) = placed.filter(|_| raw.has_what_is_left()) {
            defaults.note(&raw.cores_place, format!("{:?}", placed.cores));
        }
    }
    for raw in &manifest.tasks {
        let task = resolved
            .tasks
            .iter()
            .find(|task| task.name == raw.name.value);
        if let (Some(task), Some(frame)) = (task, &raw.frame) {
            let FramePlan { format, size, .. } = task.frame;
            frame.note_default(format, size, &mut defaults);
        }
    }
    defaults.into_taken()
}

fn partition_plan(placed: &Placed) -> PartitionPlan {
    PartitionPlan {
        name: placed.name.clone(),
        cores: placed.cores.clone(),
        tpcs: placed.tpcs.clone(),
        device: placed.device,
        usage: placed.usage,
    }
}

fn model_plan(
    model: &Model<'_>,
    config: &ModelConfig,
    batches: &[u8],
    outputs: OutputLayout,
    launches: Vec<LaunchProfile>,
) -> ModelPlan {
    ModelPlan {
        name: model.name.clone(),
        package: model.path.clone().into(),
        hash: model.package.hash().to_string(),
        stages: model.stages(),
        classes: model.package.network().classes.clone(),
        input: model.input(),
        batches: batches.to_vec(),
        solutions: own_solutions(model, config),
        look_stride: model.profile.look_stride,
        verified: model.profile.verified.clone(),
        measured_with: model.measured_with(),
        launches,
        device: model.device,
        without_confidence: !model.package.network().has_confidence(),
        outputs,
    }
}

/// Those for the stages that run as its own: another model runs the others.
fn own_solutions(model: &Model<'_>, config: &ModelConfig) -> Vec<SolutionChoice> {
    let mut own = Vec::new();
    let mut end = 0;
    for (stage, config) in model.package.network().stages.iter().zip(&config.stages) {
        let start = end;
        end += stage.operators.len() as u32;
        if config.runs_as.is_none() {
            let choices = model.profile.solutions.iter();
            let choices = choices.filter(|it| (start..end).contains(&it.operator));
            own.extend(choices.cloned());
        }
    }
    own
}

fn client_slots(tasks: &[Task]) -> Vec<ClientSlotPlan> {
    let (mut slots, mut first) = (Vec::new(), 0);
    for group in groups(tasks) {
        let parts = group.iter().filter(|task| task.is_part()).count();
        let slot = ClientSlotPlan {
            task: TaskId(first),
            tasks: (group.len() - parts) as u16,
            parts: parts as u16,
        };
        first += group.len() as u16;
        slots.extend(std::iter::repeat_n(slot, usize::from(group[0].clients)));
    }
    slots
}

fn task_plans(tasks: &[Task], arrivals: &[ArrivalBound]) -> Vec<TaskPlan> {
    let (mut first_slot, mut next_slot) = (0, 0);
    let mut first = TaskId(0);
    let mut plans = Vec::new();
    for (position, (task, arrival)) in tasks.iter().zip(arrivals).enumerate() {
        let before = position.checked_sub(1).map(|before| &tasks[before].group);
        if before != Some(&task.group) {
            (first_slot, next_slot) = (next_slot, next_slot + task.clients);
            first = TaskId(position as u16);
        }
        plans.push(TaskPlan {
            name: task.name.clone(),
            model: ModelId(task.model as u16),
            partition: PartitionId(task.partition as u16),
            criticality: task.criticality,
            period: task.period,
            deadline: task.frame_deadline,
            after: task.crops.clone().map(|crops| AfterPlan { first, crops }),
            mandatory_exit: StageId(task.mandatory_exit),
            threshold: Confidence::from_probability(task.threshold as f32),
            batch_max: task.batch_max,
            queue_depth: task.queue_depth,
            client_slots: (first_slot..next_slot).collect(),
            clients_of: tasks[first.index()].clients_of(),
            entry: task.entry.clone(),
            frame: task.frame,
            channel: task.channel(),
            outputs: task.outputs.clone(),
            vectors: task.vectors.clone(),
            arrival: *arrival,
        });
    }
    plans
}
