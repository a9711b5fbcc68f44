//! A manifest as a workload: its plan on this machine, with cameras that keep its rates.

use std::path::Path;

use punctual_core::{Criticality, Nanos, StageConfig, Units};
use punctual_evaluation::format::Workload;
use punctual_model::{Calibration, Package};
use punctual_plan::{ModelPlan, Plan, TaskPlan};
use punctual_simulator::arrivals::{Parts, Pattern};
use punctual_simulator::scenario::{Board, Measured, Model, Scenario, Stage, Task};

use crate::planned;
use crate::workload::Error;

/// How long such a run is, if nothing else is said.
const LENGTH: Nanos = Nanos::from_millis(60_000);

/// What the daemon would serve here, as a workload. Frames come at the promised rates, each as late as the channel may be; tasks
/// without a rate send their next frame after each answer. A frame has any number of crops up to the bound, each as often.
pub fn workload(path: &Path) -> Result<Workload, Error> {
    let plan = planned::plan(path, &[])?;
    let models = (0..plan.models.len()).map(|model| model_of(&plan, model));
    let models = models.collect();
    let tasks: Vec<Task> = plan
        .tasks
        .iter()
        .enumerate()
        .map(|(position, task)| task_of(&plan, position, task))
        .collect();
    let mut scenario = Scenario::new(models, tasks, board(&plan), LENGTH);
    scenario.name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    scenario.about = format!("the manifest {}, as planned here", path.display());
    let homes = plan.scheduler.partitions.iter().enumerate();
    let homes = homes.map(|(partition, config)| {
        let tasks = plan.tasks.iter().enumerate();
        let here = tasks.filter(|(_, task)| task.partition.index() == partition);
        (config.units, here.map(|(position, _)| position).collect())
    });
    scenario.planned = homes
        .filter(|(_, tasks): &(Units, Vec<usize>)| !tasks.is_empty())
        .collect();
    Ok(Workload {
        scenario,
        policies: vec![plan.policy],
        renamed_keys: plan.renamed_keys,
    })
}

fn board(plan: &Plan) -> Board {
    let config = &plan.scheduler;
    let ends = config
        .partitions
        .iter()
        .map(|it| it.units.first + it.units.count);
    let preemption = config.partitions.iter().map(|it| it.preemption_bound);
    Board {
        preemption_bound: preemption.max().unwrap_or_default(),
        dispatch_cost: config.dispatch_cost,
        egress_bound: config.egress_bound,
        request_buffers: config.request_buffers,
        pages: config.pages,
        ..Board::of(ends.max().unwrap_or(1))
    }
}

fn model_of(plan: &Plan, position: usize) -> Model {
    let (model, config) = (&plan.models[position], &plan.scheduler.models[position]);
    let users = plan
        .tasks
        .iter()
        .filter(|task| task.model.index() == position);
    let homes: Vec<usize> = users.map(|task| task.partition.index()).collect();
    Model {
        name: model.name.clone(),
        source: model.package.display().to_string(),
        stages: config
            .stages
            .iter()
            .map(|stage| stage_of(stage, plan, &homes))
            .collect(),
        calibration: calibration(plan, model),
        weights: config.weights,
    }
}

/// By width: of partitions of the same, the longest.
fn stage_of(stage: &StageConfig, plan: &Plan, homes: &[usize]) -> Stage {
    let mut times: Vec<Measured> = Vec::new();
    for batch in &stage.times {
        for &home in homes {
            let units = plan.scheduler.partitions[home].units.count;
            let time = batch.on[home];
            let known = |it: &&mut Measured| (it.batch, it.units) == (batch.batch, units);
            match times.iter_mut().find(known) {
                Some(known) if known.time.budget >= time.budget => {}
                Some(known) => known.time = time,
                None => times.push(Measured {
                    batch: batch.batch,
                    units,
                    time,
                }),
            }
        }
    }
    Stage {
        times,
        headless: !stage.answers,
        runs_as: stage.runs_as.map(|model| model.index()),
    }
}

/// Of a package that has none, no answer is sure before the last.
fn calibration(plan: &Plan, model: &ModelPlan) -> Calibration {
    let package = Package::read(&plan.directory().join(&model.package));
    package.map_or_else(|_| Calibration::default(), |it| it.calibration().clone())
}

fn task_of(plan: &Plan, position: usize, task: &TaskPlan) -> Task {
    let config = plan.scheduler.tasks[position].clone();
    let pattern = match (&task.after, task.hz()) {
        (Some(after), _) => Pattern::Parts(Parts {
            of: after.first,
            at_most: after.crops.at_most,
            fan_out: None,
            hand_over: task.arrival.channel,
            by_client: false,
        }),
        (None, Some(rate_hz)) if task.criticality == Criticality::RealTime => Pattern::Periodic {
            rate_hz,
            phase: Nanos::ZERO,
            jitter: task.arrival.channel,
        },
        (None, _) => Pattern::Continuous,
    };
    Task {
        name: task.name.clone(),
        config,
        pattern,
        clients: task.client_slots.len() as u16,
    }
}
