//! In which order the networks of a plan are loaded: the daemon is ready with the first task, not with the last network.

use punctual_core::{Criticality, ModelId, PolicySpec as _, TaskId};
use punctual_device::StartStep;
use punctual_plan::Plan;

/// The tasks in the order in which they become ready: real-time tasks as in the manifest, then the others.
pub fn tasks(plan: &Plan) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = (0..plan.tasks.len() as u16).map(TaskId).collect();
    // Stable: equals stay in the manifest's order.
    tasks.sort_by_key(|task| plan.task(*task).criticality == Criticality::BestEffort);
    tasks
}

/// What a first answer of each task needs, then the deeper stages in the same order.
pub fn steps(plan: &Plan) -> Vec<StartStep> {
    let config = &plan.scheduler;
    let whole = plan.policy.contract().runs_whole;
    let mut steps = Vec::new();
    for first_answers in [true, false] {
        for task in tasks(plan) {
            let task = &config.tasks[task.index()];
            let stages = config.models[task.model.index()].stages.len() as u8;
            let needed = if first_answers && !whole {
                task.mandatory_exit.0 + 1
            } else {
                stages
            };
            for stage in 0..needed {
                add(&mut steps, plan, task.model, stage);
            }
        }
    }
    steps
}

/// Adds a stage, which may be one of another model, unless it is named already.
fn add(steps: &mut Vec<StartStep>, plan: &Plan, model: ModelId, stage: u8) {
    let models = &plan.scheduler.models;
    let stages = stage + 1;
    let shared = models[model.index()].stages[usize::from(stage)].runs_as;
    let model = shared.unwrap_or(model);
    // Its weights come and go.
    let is_paged = models[model.index()].weights.is_some();
    let mut of_model = steps.iter().filter(|step| step.model == model);
    if is_paged || of_model.any(|step| step.stages >= stages) {
        return;
    }
    match steps.last_mut().filter(|last| last.model == model) {
        Some(last) => last.stages = stages,
        None => steps.push(StartStep { model, stages }),
    }
}
