//! Pipelines: which parts of a frame become crops of a task after another.

use punctual_diagnostics::{Problems, Rule, Spanned};
use punctual_model::Network;
use serde::Serialize;
use thiserror::Error;

use super::models::Model;
use super::tasks::Task;
use crate::manifest::{Manifest, RawTask};

/// The outputs of a network that ends in Punctual's own decoder.
const BOXES: [&str; 2] = ["detections", "count"];

/// Parts of one frame, of all tasks of a pipeline together.
const PARTS_MAX: u64 = 96;

/// Which of a detector's boxes become crops of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CropsPlan {
    /// Of one frame; the boxes beyond, of lower scores, are counted.
    pub at_most: u8,
    /// The least score.
    pub score: f32,
    /// By how much a crop is larger than its box, each side.
    pub grow: f32,
    /// Of the detector's; none: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<u16>,
}

/// What is wrong with a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PipelineRule {
    #[error(
        "answers of task {first:?} have no boxes: its network must give `detections` and `count`, and `outputs` name them"
    )]
    NoBoxes { first: String },
    /// A promise that rests on nothing.
    #[error("task {first:?} is best-effort, and {task:?} after it real-time")]
    BestEffortFirst { first: String, task: String },
    /// An answer of another network has its boxes elsewhere.
    #[error("frames of {task:?}, which is of a pipeline, would be offloaded, or it takes others'")]
    Offloads { task: String },
    #[error("{parts} crops of a frame of {first:?}, of all tasks after it together")]
    TooManyParts { first: String, parts: u64 },
}

impl Rule for PipelineRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NoBoxes { .. } => "crops are made of the boxes that a detector finds",
            Self::BestEffortFirst { .. } => {
                "what is promised of a frame begins with a promise of its first part"
            }
            Self::Offloads { .. } => "each part of a pipeline is answered by its own task",
            Self::TooManyParts { .. } => "a frame has at most 96 parts",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NoBoxes { .. } => {
                "compile the detector with its list of detections (docs/detectors.md)".into()
            }
            Self::BestEffortFirst { task, .. } => {
                format!("make the first real-time, or {task:?} best-effort")
            }
            Self::Offloads { .. } => "remove `offload_to`".into(),
            Self::TooManyParts { .. } => "lower `crops.at_most`".into(),
        }
    }
}

/// The crops of a task after another, if all that they are made of is there. None of a task of its own.
pub(super) fn crops(
    raw: &RawTask,
    manifest: &Manifest,
    models: &[Model<'_>],
    problems: &mut Problems<'_>,
) -> Option<CropsPlan> {
    let crops = &raw.after.as_ref()?.crops;
    let first = first_of(raw, manifest)?;
    let model = first.model.as_ref()?;
    let model = models.iter().find(|it| it.name == model.value)?;
    let network = model.package.network();
    if !gives_boxes(first, network) {
        let first = first.name.value.clone();
        problems.add(&raw.place, PipelineRule::NoBoxes { first });
    }
    let named = crops.classes.as_ref();
    let named = named.map(|at| class_numbers(at, network, problems));
    Some(CropsPlan {
        at_most: crops.at_most,
        score: crops.score as f32,
        grow: crops.grow as f32,
        classes: named.unwrap_or_default(),
    })
}

/// The first task of the pipeline that a task is a part of.
fn first_of<'m>(part: &RawTask, manifest: &'m Manifest) -> Option<&'m RawTask> {
    let of_group = |task: &&RawTask| task.group == part.group && task.after.is_none();
    manifest.tasks.iter().find(of_group)
}

fn gives_boxes(first: &RawTask, network: &Network) -> bool {
    let has = |name: &str| network.output_names().any(|known| known == name);
    let wants = |name: &str| match &first.outputs {
        Some(named) => named.value.iter().any(|wanted| wanted == name),
        None => network.gives_outputs_by_default(),
    };
    BOXES.iter().all(|name| has(name) && wants(name))
}

fn class_numbers(
    named: &Spanned<Vec<String>>,
    network: &Network,
    problems: &mut Problems<'_>,
) -> Vec<u16> {
    let known = &network.classes;
    let number = |name: &String| {
        let name = Spanned {
            value: name.clone(),
            place: named.place.clone(),
        };
        let found = name.resolve("class", known.iter(), problems)?;
        let at = known.iter().position(|class| class == found)?;
        Some(at as u16)
    };
    named.value.iter().filter_map(number).collect()
}

/// Leaves out parts whose first task is not complete, and notes what tasks of pipelines cannot be.
pub(super) fn check(tasks: &mut Vec<Task>, manifest: &Manifest, problems: &mut Problems<'_>) {
    let firsts: Vec<_> = tasks
        .iter()
        .filter(|task| !task.is_part())
        .map(|task| task.group.clone())
        .collect();
    tasks.retain(|task| firsts.contains(&task.group));
    for group in super::groups(tasks).filter(|group| group.iter().any(Task::is_part)) {
        check_pipeline(group, tasks, manifest, problems);
    }
    // What rests on nothing has no deadline to test.
    let of_best_effort = |task: &&Task| !task.is_part() && task.is_best_effort();
    let firsts: Vec<_> = tasks
        .iter()
        .filter(of_best_effort)
        .map(|task| task.group.clone())
        .collect();
    tasks.retain(|task| !task.is_part() || task.is_best_effort() || !firsts.contains(&task.group));
}

fn check_pipeline(group: &[Task], all: &[Task], manifest: &Manifest, problems: &mut Problems<'_>) {
    let (first, parts) = (&group[0], &group[1..]);
    let place = |task: &Task| {
        let raw = manifest
            .tasks
            .iter()
            .find(|raw| raw.name.value == task.name);
        raw.map(|raw| raw.place.clone()).unwrap_or_default()
    };
    let name = || first.name.clone();
    let count = parts.iter().map(|part| u64::from(part.burst)).sum();
    if count > PARTS_MAX {
        let cause = PipelineRule::TooManyParts {
            first: name(),
            parts: count,
        };
        problems.add(&place(first), cause);
    }
    for part in parts.iter().filter(|part| !part.is_best_effort()) {
        if first.is_best_effort() {
            let (first, task) = (name(), part.name.clone());
            problems.add(&place(part), PipelineRule::BestEffortFirst { first, task });
        }
    }
    for task in group {
        let takes = |other: &Task| {
            let taker = other.offload_to.as_ref();
            taker.is_some_and(|taker| taker.value == task.name)
        };
        if task.offload_to.is_some() || all.iter().any(takes) {
            let task_name = task.name.clone();
            problems.add(&place(task), PipelineRule::Offloads { task: task_name });
        }
    }
}
