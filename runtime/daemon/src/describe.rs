//! What clients are told of their answers, and what the threads are to know of them.

use std::sync::Arc;

use punctual_core::TaskId;
use punctual_ipc::{
    Description, ExitDescription, InputDescription, OutputDescription, StreamTasks,
    VectorDescription,
};
use punctual_model::{Exit, Network, PlacedExit};
use punctual_plan::{Plan, TaskPlan};

use crate::validate::Validated;

/// What an answer of an exit says in addition to its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitFacts {
    pub has_class: bool,
    pub has_confidence: bool,
}

/// By task, by stage.
pub type Facts = Box<[Box<[ExitFacts]>]>;

pub fn facts(validated: &Validated) -> Facts {
    let of_stage = |network: &Network, exit: Option<&Exit>| ExitFacts {
        has_class: network.answer.has_class() && exit.is_some_and(|exit| exit.scores.is_some()),
        has_confidence: exit.is_some_and(Exit::has_confidence),
    };
    let of_task = |task: &TaskPlan| {
        let network = validated.package(task.model).network();
        let stages = network.stages.iter();
        stages
            .map(|stage| of_stage(network, stage.exit.as_ref()))
            .collect()
    };
    validated.plan.tasks.iter().map(of_task).collect()
}

/// By task.
pub fn descriptions(validated: &Validated) -> Vec<Description> {
    let plan = &validated.plan;
    let tasks = (0..plan.tasks.len()).map(|task| TaskId(task as u16));
    let mut all: Vec<Description> = tasks.map(|task| description(validated, task)).collect();
    let mut slots = plan.client_slots.clone();
    slots.dedup();
    for slot in slots.into_iter().filter(|slot| slot.tasks + slot.parts > 1) {
        let mut of = StreamTasks {
            parts: slot.parts,
            ..StreamTasks::default()
        };
        let all_of_slot = slot.tasks().chain(slot.parts());
        for task in all_of_slot.clone() {
            of.add(plan.task(task).name.clone(), all[task.index()].clone());
        }
        let of = Arc::new(of);
        for task in all_of_slot {
            all[task.index()].tasks = Some(Arc::clone(&of));
        }
    }
    all
}

fn description(validated: &Validated, task: TaskId) -> Description {
    let plan = &validated.plan;
    let task = plan.task(task);
    let network = validated.package(task.model).network();
    let exits = (0..)
        .zip(&network.stages)
        .map(|(stage, of)| ExitDescription {
            outputs: of
                .exit
                .iter()
                .flat_map(|exit| outputs(plan, task, stage, exit))
                .collect(),
        });
    let vectors = task.vectors.iter().map(|vector| VectorDescription {
        name: vector.name.clone(),
        length: vector.length,
        low: vector.low,
        high: vector.high,
    });
    Description {
        answer: network.answer,
        classes: network.classes.clone(),
        exits: exits.collect(),
        vectors: vectors.collect(),
        input: Some(InputDescription {
            width: network.input.width,
            height: network.input.height,
            letterbox: !task.frame.fit.is_stretch(),
        }),
        tasks: None,
    }
}

/// The outputs of an exit that the task wants, and where they lie.
fn outputs(plan: &Plan, task: &TaskPlan, stage: usize, exit: &Exit) -> Vec<OutputDescription> {
    let placed = placed(plan, task, stage)
        .into_iter()
        .flat_map(|exit| &exit.outputs);
    let described = placed.filter_map(|placed| {
        let output = &exit.outputs[placed.output];
        task.outputs
            .contains(&output.name)
            .then(|| OutputDescription {
                name: output.name.clone(),
                element: output.element,
                shape: output.shape.clone(),
                // The plan's limit of an area is far below.
                offset: placed.offset as u32,
                bytes: placed.bytes as u32,
            })
    });
    described.collect()
}

/// Where the outputs of a stage of the task's model lie; none if the task wants none of them.
fn placed<'p>(plan: &'p Plan, task: &TaskPlan, stage: usize) -> Option<&'p PlacedExit> {
    let layout = &plan.models[task.model.index()].outputs;
    layout.stage(stage).filter(|_| !task.outputs.is_empty())
}

/// By stage: the part of an area that the outputs are in which the task's clients get.
pub fn parts(plan: &Plan, task: TaskId) -> Box<[Option<u8>]> {
    let task = plan.task(task);
    let stages = 0..usize::from(plan.models[task.model.index()].stages);
    let part = |stage| placed(plan, task, stage).map(|placed| placed.part);
    stages.map(part).collect()
}
