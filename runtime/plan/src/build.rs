//! From inputs to a plan: the order of the steps. Every step works on what the ones before could
//! make sense of, so that one attempt finds all problems that can be found.

use punctual_core::{
    Confidence, ConfigError, ModelId, PartitionId, Partitioning, PolicySpec, Scheduler, StageId,
    TaskId,
};
use punctual_diagnostics::{Diagnostics, Invalid, Place, Problems, Rule};
use thiserror::Error;

use crate::arrival;
use crate::gpu::{self, GpuPlan};
use crate::inputs::PlanInputs;
use crate::manifest::Manifest;
use crate::memory::{self, MemoryBudget, MemoryRule};
use crate::models;
use crate::paging::Paging;
use crate::placement::{self, Placed, Placement, PlacementRule};
use crate::plan::{ArrivalBound, ClientSlotPlan, Plan, PlanHash, TaskPlan};
use crate::priorities::Priorities;
use crate::promises::{self, Promises};
use crate::reservation::{self, Scheduling};
use crate::settings;
use crate::sharing::Sharing;
use crate::spill;
use crate::tasks::{self, Task};
use crate::warning;

impl Plan {
    /// # Panics
    /// Never: a manifest that cannot be read is a problem.
    pub fn build(inputs: &PlanInputs) -> Result<Self, Diagnostics> {
        let mut problems = Problems::new(&inputs.manifest_path, &inputs.manifest_text, "plan");
        let plan = assemble(inputs, &mut problems);
        problems.into_result()?;
        Ok(plan.expect("a plan without problems is complete"))
    }
}

/// What the scheduler found, and the rules of the plan did not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the scheduler refuses the plan: {error}")]
#[non_exhaustive]
pub struct SchedulerRefuses {
    pub error: ConfigError,
}

impl Rule for SchedulerRefuses {
    fn rule(&self) -> &'static str {
        "the scheduler checks what its own safety rests on"
    }

    fn help(&self) -> String {
        "change what it names; please report this, the plan's own rules should say it better".into()
    }
}

/// A manifest that was written for another board.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the manifest is for board {manifest:?}, this is {board:?}")]
#[non_exhaustive]
pub struct OtherBoard {
    pub manifest: String,
    pub board: String,
}

impl Rule for OtherBoard {
    fn rule(&self) -> &'static str {
        "a manifest runs on the board it was written for"
    }

    fn help(&self) -> String {
        format!("set board = {:?} if all else suits it", self.board)
    }
}

/// The plan so far as it can be made; it counts only if no problem was noted.
fn assemble(inputs: &PlanInputs, problems: &mut Problems<'_>) -> Option<Plan> {
    let manifest = Manifest::read(&inputs.policies, problems)?;
    let power_mode = board_and_power_mode(&manifest, inputs, problems);
    let tpcs = gpu::tpcs(&manifest, inputs, problems);
    let devices = gpu::devices(&manifest, problems);
    let mut placement = Placement::new(
        &manifest,
        (&available_cores(inputs), &inputs.host.isolated),
        tpcs,
        problems,
    );
    let policy = &manifest.daemon.policy;
    let contract = policy.value.contract();
    match contract.partitioning {
        Partitioning::Planned | Partitioning::Whole => {}
        Partitioning::Ranges => placement.add_ranges(policy, problems),
        Partitioning::PerTask => {
            let policy = policy.value.name();
            problems.add(
                &manifest.daemon.policy.place,
                PlacementRule::PolicyShares { policy },
            );
        }
    }
    let models = models::find(&manifest, &devices, inputs, &power_mode, problems);
    let tasks = tasks::resolve(
        &manifest,
        &models,
        &placement.partitions,
        &inputs.host.accounts,
        problems,
    );
    let door = manifest
        .daemon
        .door
        .resolve(&inputs.host.accounts, problems);
    spill::check(&manifest, &tasks, &models, problems);
    let shared = placement.shared().next().is_some();
    let priorities = Priorities::new(&manifest.daemon.priority, &tasks, shared, problems);
    let mut threads = placement::threads(&placement, &priorities, &tasks, inputs.host.realtime);

    let margins = manifest.daemon.margins;
    if manifest.daemon.scheduling == Scheduling::Deadline {
        let stages = models
            .iter()
            .map(|model| model.package.network().stages.len());
        let stages_max = stages.max().unwrap_or(1);
        reservation::assign(&mut threads, &tasks, stages_max, &margins);
    }
    let paging = Paging::find(
        &manifest,
        &models,
        &tasks,
        (&policy.value, inputs.gpu()),
        problems,
    );
    let sharing = if manifest.daemon.share_stages && contract.promises {
        // Weights that are there for good are not shared with such as come and go.
        Sharing::find(&models, |model| !paging.is_paged(model))
    } else {
        Sharing::none(&models)
    };
    let batches = settings::batches(&models, &sharing, &tasks);
    let before = problems.count();
    let arrivals = arrival::bounds(&tasks, &models, &placement, &margins, problems);
    let mut config = settings::config(
        &tasks,
        (&models, &sharing),
        &placement,
        &arrivals,
        &margins,
        contract.partitioning,
        problems,
    );
    paging.apply(&mut config);
    if inputs.host.realtime {
        settings::leave_share(&mut config);
    }
    // With figures missing nothing can be said of promises.
    let promises = if problems.count() == before && contract.promises {
        promises::check(&tasks, &models, &placement, &arrivals, &config, problems)
    } else {
        Promises::default()
    };
    let (buffers, threads_count) = (config.request_buffers, threads.len());
    let mut items = memory::items(
        (&models, &paging),
        &batches,
        &placement,
        &tasks,
        buffers,
        threads_count,
        inputs.host.program_bytes,
    );
    let is_used = placement.partitions.iter().any(|p| !p.tpcs.is_empty());
    let gpu = inputs.gpu().filter(|_| is_used).map(|host| {
        items.extend(gpu::host_items(&models, buffers, host));
        let models = (models.as_slice(), &paging);
        let on_gpu = gpu::items(models, &batches, &placement, buffers, host);
        let own = if host.integrated {
            items.extend(on_gpu);
            None
        } else {
            Some(gpu::budget(host, on_gpu, problems))
        };
        GpuPlan::new(host, own)
    });
    let memory = memory_budget(inputs, &manifest, problems, items);
    if problems.count() == 0
        && let Err(error) = Scheduler::new(&config, &policy.value)
    {
        problems.add(&Place::default(), SchedulerRefuses { error });
    }
    let warnings = warning::all(inputs, &manifest, &placement, &models, &tasks, &config);

    let mut plan = Plan {
        hash: PlanHash::default(),
        manifest: inputs.manifest_path.clone(),
        board: inputs.board.name.clone(),
        power_mode,
        socket: manifest.daemon.socket.into(),
        door,
        drain_bound: manifest.daemon.drain,
        watchdog: manifest.daemon.watchdog,
        idle_latency: manifest.daemon.idle_latency,
        realtime: inputs.host.realtime,
        margins,
        threads,
        housekeeping_cores: placement.system.clone(),
        partitions: placement.partitions.iter().map(Placed::plan).collect(),
        models: (models.iter().zip(&batches))
            .map(|(model, batches)| model.plan(batches))
            .collect(),
        client_slots: client_slots(&tasks),
        tasks: task_plans(&tasks, &arrivals),
        memory,
        gpu,
        policy: policy.value.clone(),
        scheduler: config,
        core_loads: promises.loads,
        schedulability: promises.schedulability,
        warnings,
    };
    plan.hash = PlanHash::of(&plan);
    Some(plan)
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
        let cause = OtherBoard {
            manifest: named.value.clone(),
            board: board.name.clone(),
        };
        problems.add(&named.place, cause);
    }
    let Some(mode) = &manifest.daemon.power_mode else {
        return board.default_power_mode().to_owned();
    };
    if !board.power_modes.value.contains(&mode.value) {
        let cause = Invalid::NotOneOf {
            value: mode.value.clone(),
            allowed: board.power_modes.value.clone(),
        };
        problems.add(&mode.place, cause);
    }
    mode.value.clone()
}

fn memory_budget(
    inputs: &PlanInputs,
    manifest: &Manifest,
    problems: &mut Problems<'_>,
    items: Vec<memory::MemoryItem>,
) -> MemoryBudget {
    let asked = manifest.daemon.memory_bytes.as_ref();
    let board = inputs.board.memory_bytes.as_ref().map(|fact| fact.value);
    let there = board.map_or(inputs.host.memory_bytes, |bytes| {
        bytes.min(inputs.host.memory_bytes)
    });
    let budget = MemoryBudget {
        items,
        limit_bytes: asked.map_or(there, |at| at.value.min(there)),
    };
    let total = budget.total_bytes();
    if total > budget.limit_bytes {
        let largest = budget.items.iter().max_by_key(|item| item.total_bytes());
        let cause = MemoryRule::Exceeded {
            total,
            limit: budget.limit_bytes,
            largest: largest
                .map(memory::MemoryItem::with_size)
                .unwrap_or_default(),
        };
        let place = asked.map_or_else(|| Place::of_key("daemon.memory_mb"), |at| at.place.clone());
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
            partition: PartitionId(task.partition as u16),
            criticality: task.criticality,
            period: task.period,
            deadline: task.deadline,
            mandatory_exit: StageId(task.mandatory_exit),
            threshold: Confidence::from_probability(task.threshold as f32),
            batch_max: task.batch_max,
            queue: task.queue,
            client_slots: (next_slot..next_slot + task.clients).collect(),
            entry: task.entry.clone(),
            frame: task.frame,
            channel: task.channel(),
            arrival: *arrival,
        });
        next_slot += task.clients;
    }
    plans
}
