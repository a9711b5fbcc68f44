//! Frames that another task takes on: the same network on another device, or on other cores.

use punctual_core::TaskId;
use punctual_diagnostics::{Problems, Rule};
use punctual_model::{OutputLayout, Tensor};
use thiserror::Error;

use super::models::Model;
use super::outputs::are_alike;
use super::tasks::{Task, TaskRule};
use crate::manifest::Manifest;

/// What is wrong with the task that another names in `offload_to`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OffloadRule {
    #[error("task {0:?} would offload to itself")]
    Itself(String),
    #[error("task {0:?} is best-effort, and an offloaded frame keeps its deadline")]
    BestEffort(String),
    /// A taker whose capacity is reserved.
    #[error("the time of task {0:?} is reserved for frames of its own")]
    Reserved(String),
    #[error("task {0:?} has `offload_to` itself, and a frame is offloaded once")]
    HandsOn(String),
    /// Frames that the taker's preparation does not understand.
    #[error("task {0:?} takes frames of another format, size or crop")]
    Frames(String),
    /// A network that sees something else.
    #[error("the network of task {task:?} takes {theirs}, this one's {own}")]
    Input {
        task: String,
        theirs: Tensor,
        own: Tensor,
    },
    #[error("the network of task {0:?} has other classes")]
    Classes(String),
    #[error("the network of task {task:?} has {theirs} stages, this one's {own}")]
    Stages { task: String, theirs: u8, own: u8 },
    /// Answers that lie elsewhere.
    #[error("the outputs of task {0:?} are not those of this one")]
    Outputs(String),
    /// A network that wants other numbers with its frames, or takes them within another range.
    #[error("task {0:?} takes other vectors")]
    Vectors(String),
    #[error("task {task:?} may answer from exit {theirs}, and exit {own} is the first that counts")]
    Shallower { task: String, theirs: u8, own: u8 },
}

impl Rule for OffloadRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::Itself(_) | Self::HandsOn(_) => "a frame is offloaded once, to another task",
            Self::BestEffort(_) | Self::Reserved(_) => {
                "an offloaded frame is admitted while there is slack, and then promised its deadline"
            }
            Self::Frames(_) | Self::Input { .. } | Self::Vectors(_) => {
                "a frame can be prepared for either task, in the same time"
            }
            Self::Classes(_) | Self::Outputs(_) | Self::Stages { .. } | Self::Shallower { .. } => {
                "an answer means the same from either task"
            }
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Itself(_) => "name another task, or remove `offload_to`".into(),
            Self::BestEffort(task) => format!("make {task:?} real-time, with reserved = false"),
            Self::Reserved(task) => {
                format!("set reserved = false in {task:?}, or add a task there")
            }
            Self::HandsOn(task) => format!("remove `offload_to` from {task:?}"),
            Self::Outputs(_) => "give both tasks the same `outputs`, of one network".into(),
            Self::Vectors(_) => "give both tasks the same [[task.vector]]".into(),
            Self::Frames(_) => "give both tasks the same `frame`".into(),
            Self::Input { .. } | Self::Classes(_) | Self::Stages { .. } => {
                "compile both packages from one network".into()
            }
            Self::Shallower { task, own, .. } => {
                format!("set mandatory_exit = {own} in {task:?}, or lower it here")
            }
        }
    }
}

/// Notes what is wrong with each `offload_to` of the manifest.
pub(crate) fn check(
    manifest: &Manifest,
    tasks: &[Task],
    models: &[Model<'_>],
    layouts: &[OutputLayout],
    problems: &mut Problems<'_>,
) {
    for task in tasks {
        let known = manifest.tasks.iter().map(|raw| &raw.name.value);
        let Some(at) = &task.offload_to else { continue };
        let Some(named) = at.resolve("task", known, problems) else {
            continue;
        };
        // One that is not sound was reported itself.
        let taker = tasks.iter().find(|other| other.name == *named);
        if task.is_best_effort() {
            problems.add(&at.place, TaskRule::NotForBestEffort("offload_to"));
        } else if let Some(cause) = taker.and_then(|taker| cause(task, taker, models, layouts)) {
            problems.add(&at.place, cause);
        }
    }
}

fn cause(
    own: &Task,
    taker: &Task,
    models: &[Model<'_>],
    layouts: &[OutputLayout],
) -> Option<OffloadRule> {
    let task = taker.name.clone();
    let (model, other) = (&models[own.model], &models[taker.model]);
    Some(match () {
        () if own.name == taker.name => OffloadRule::Itself(task),
        () if taker.is_best_effort() => OffloadRule::BestEffort(task),
        () if taker.reserved => OffloadRule::Reserved(task),
        () if taker.offload_to.is_some() => OffloadRule::HandsOn(task),
        () if own.frame != taker.frame => OffloadRule::Frames(task),
        () if model.input() != other.input() => OffloadRule::Input {
            task,
            theirs: other.input(),
            own: model.input(),
        },
        () if model.package.network().classes != other.package.network().classes => {
            OffloadRule::Classes(task)
        }
        () if model.stages() != other.stages() => OffloadRule::Stages {
            task,
            theirs: other.stages(),
            own: model.stages(),
        },
        () if own.outputs != taker.outputs
            || !own.outputs.is_empty() && !are_alike(models, layouts, own.model, taker.model) =>
        {
            OffloadRule::Outputs(task)
        }
        () if own.vectors != taker.vectors => OffloadRule::Vectors(task),
        () if taker.mandatory_exit < own.mandatory_exit => OffloadRule::Shallower {
            task,
            theirs: taker.mandatory_exit,
            own: own.mandatory_exit,
        },
        () => return None,
    })
}

/// The position of the task that takes on what `task` would refuse.
pub(crate) fn taker(task: &Task, tasks: &[Task]) -> Option<TaskId> {
    let offload_to = task.offload_to.as_ref()?;
    let taker = tasks
        .iter()
        .position(|other| other.name == offload_to.value)?;
    Some(TaskId(taker as u16))
}
