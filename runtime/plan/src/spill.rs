//! Frames that another task takes on: the same network on another device, or on other cores.

use punctual_core::TaskId;
use punctual_types::Size;
use thiserror::Error;

use crate::cause::Cause;
use crate::manifest::Manifest;
use crate::models::Model;
use crate::problem::Problems;
use crate::tasks::{self, Task};

/// What is wrong with the task that another names as its spill.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpillCause {
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

impl SpillCause {
    /// The rule that is broken, as a sentence about what is right.
    pub(crate) const fn rule(&self) -> &'static str {
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

    pub(crate) fn remedy(&self) -> String {
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
        let named = tasks::lookup("task", task.spill.as_ref(), known, problems);
        let (Some(named), Some(at)) = (named, &task.spill) else {
            continue;
        };
        // One that is not sound was reported itself.
        let taker = tasks.iter().find(|other| other.name == *named);
        if task.is_best_effort() {
            problems.add(&at.place, Cause::NotForBestEffort("spill"));
        } else if let Some(cause) = taker.and_then(|taker| cause(task, taker, models)) {
            problems.add(&at.place, Cause::Spill(cause));
        }
    }
}

fn cause(own: &Task, taker: &Task, models: &[Model<'_>]) -> Option<SpillCause> {
    let task = taker.name.clone();
    let (model, other) = (&models[own.model], &models[taker.model]);
    Some(match () {
        () if own.name == taker.name => SpillCause::Itself(task),
        () if taker.is_best_effort() => SpillCause::BestEffort(task),
        () if taker.reserved => SpillCause::Reserved(task),
        () if taker.spill.is_some() => SpillCause::HandsOn(task),
        () if own.frame != taker.frame => SpillCause::Frames(task),
        () if model.input() != other.input() => SpillCause::Input {
            task,
            theirs: other.input(),
            own: model.input(),
        },
        () if model.package.network().classes != other.package.network().classes => {
            SpillCause::Classes(task)
        }
        () if model.stages() != other.stages() => SpillCause::Stages {
            task,
            theirs: other.stages(),
            own: model.stages(),
        },
        () if taker.mandatory_exit < own.mandatory_exit => SpillCause::Shallower {
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
