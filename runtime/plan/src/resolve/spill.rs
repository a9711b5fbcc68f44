//! Frames that another task takes on: the same network on another device, or on other cores.

use punctual_core::TaskId;
use punctual_diagnostics::{Problems, Rule};
use thiserror::Error;

use super::models::Model;
use super::tasks::{Task, TaskRule};
use crate::manifest::Manifest;
use punctual_types::Size;

/// What is wrong with the task that another names as its spill.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpillRule {
    #[error("task {0:?} would spill to itself")]
    Itself(String),
    #[error("task {0:?} is best-effort, and what spills keeps its deadline")]
    BestEffort(String),
    /// A taker whose capacity is reserved.
    #[error("the time of task {0:?} is reserved for frames of its own")]
    Reserved(String),
    #[error("task {0:?} has a spill itself, and a frame is handed on once")]
    HandsOn(String),
    /// Frames that the taker's preparation does not understand.
    #[error("task {0:?} takes frames of another format, size or crop")]
    Frames(String),
    /// A network that sees something else.
    #[error("the network of task {task:?} sees {theirs}, this one's {own}")]
    Input {
        task: String,
        theirs: Size,
        own: Size,
    },
    #[error("the network of task {0:?} has other classes")]
    Classes(String),
    #[error("the network of task {task:?} has {theirs} stages, this one's {own}")]
    Stages { task: String, theirs: u8, own: u8 },
    #[error("task {task:?} may answer from exit {theirs}, and exit {own} is the first that counts")]
    Shallower { task: String, theirs: u8, own: u8 },
}

impl Rule for SpillRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::Itself(_) | Self::HandsOn(_) => "a frame spills once, to another task",
            Self::BestEffort(_) | Self::Reserved(_) => {
                "what spills is taken on while there is slack, and then promised its deadline"
            }
            Self::Frames(_) | Self::Input { .. } => {
                "a frame can be prepared for either task, in the same time"
            }
            Self::Classes(_) | Self::Stages { .. } | Self::Shallower { .. } => {
                "an answer means the same from either task"
            }
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Itself(_) => "name another task, or remove `spill`".into(),
            Self::BestEffort(task) => format!("make {task:?} real-time, with reserved = false"),
            Self::Reserved(task) => {
                format!("set reserved = false in {task:?}, or add a task there")
            }
            Self::HandsOn(task) => format!("remove `spill` from {task:?}"),
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

/// Notes what keeps each spill of the manifest from being one.
pub(crate) fn check(
    manifest: &Manifest,
    tasks: &[Task],
    models: &[Model<'_>],
    problems: &mut Problems<'_>,
) {
    for task in tasks {
        let known = manifest.tasks.iter().map(|raw| &raw.name.value);
        let Some(at) = &task.spill else { continue };
        let Some(named) = at.resolve("task", known, problems) else {
            continue;
        };
        // One that is not sound was reported itself.
        let taker = tasks.iter().find(|other| other.name == *named);
        if task.is_best_effort() {
            problems.add(&at.place, TaskRule::NotForBestEffort("spill"));
        } else if let Some(cause) = taker.and_then(|taker| cause(task, taker, models)) {
            problems.add(&at.place, cause);
        }
    }
}

fn cause(own: &Task, taker: &Task, models: &[Model<'_>]) -> Option<SpillRule> {
    let task = taker.name.clone();
    let (model, other) = (&models[own.model], &models[taker.model]);
    Some(match () {
        () if own.name == taker.name => SpillRule::Itself(task),
        () if taker.is_best_effort() => SpillRule::BestEffort(task),
        () if taker.reserved => SpillRule::Reserved(task),
        () if taker.spill.is_some() => SpillRule::HandsOn(task),
        () if own.frame != taker.frame => SpillRule::Frames(task),
        () if model.input() != other.input() => SpillRule::Input {
            task,
            theirs: other.input(),
            own: model.input(),
        },
        () if model.package.network().classes != other.package.network().classes => {
            SpillRule::Classes(task)
        }
        () if model.stages() != other.stages() => SpillRule::Stages {
            task,
            theirs: other.stages(),
            own: model.stages(),
        },
        () if taker.mandatory_exit < own.mandatory_exit => SpillRule::Shallower {
            task,
            theirs: taker.mandatory_exit,
            own: own.mandatory_exit,
        },
        () => return None,
    })
}

/// The position of the task that takes on what `task` would refuse.
pub(crate) fn taker(task: &Task, tasks: &[Task]) -> Option<TaskId> {
    let spill = task.spill.as_ref()?;
    let taker = tasks.iter().position(|other| other.name == spill.value)?;
    Some(TaskId(taker as u16))
}
