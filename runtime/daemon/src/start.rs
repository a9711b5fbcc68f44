//! The start, as housekeeping sees it: which tasks are ready, and what could not be loaded. The daemon is ready with the first
//! task; the rest is loaded while it serves.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};

use punctual_core::{ModelId, TaskId, TaskReadiness};
use punctual_device::weights::LoadFailure;
use punctual_events::DaemonEvent;
use punctual_plan::Plan;
use punctual_platform::poll;

use crate::metrics::{Metrics, TaskMetrics};
use crate::report::{ModelFailureReport, StartReport, TaskStartReport};
use crate::start_order;

/// With more tasks than this, those of a pattern of packages, the log does not name each.
pub const NAMED_MAX: usize = 64;

/// What is told of the start, once each.
pub struct Start {
    /// When the process began, in ns.
    began_ns: u64,
    /// Of the process that waits for this one to be ready; none, or no more.
    pipe: Option<OwnedFd>,
    ready_ns: Option<u64>,
    whole_ns: Option<u64>,
    is_over: bool,
    /// By task: that it is ready was told.
    told: Box<[bool]>,
    failures: Vec<Failure>,
}

/// What will not come of a network.
struct Failure {
    model: ModelId,
    /// The network is served all the same.
    stays_general: bool,
    reason: String,
}

/// What a process that starts a daemon may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The first task is ready.
    Ready,
    /// Nothing more will be loaded.
    Over,
}

impl Start {
    pub fn new(plan: &Plan, began_ns: u64, pipe: Option<OwnedFd>) -> Self {
        Self {
            began_ns,
            pipe,
            ready_ns: None,
            whole_ns: None,
            is_over: false,
            told: vec![false; plan.tasks.len()].into(),
            failures: Vec::new(),
        }
    }

    /// Whether a network could not be loaded before any task was ready: then the daemon does not start. The words for that.
    pub fn failure(&self, plan: &Plan) -> Option<String> {
        let mut failures = self.failures.iter();
        let failure = failures.find(|failure| !failure.stays_general);
        let Failure { model, reason, .. } = failure.filter(|_| self.ready_ns.is_none())?;
        let name = &plan.models[model.index()].name;
        Some(format!("the device cannot start: model {name:?}: {reason}"))
    }

    /// A network, or the rest of it, will not come.
    pub fn failed(&mut self, plan: &Plan, failure: &LoadFailure) -> DaemonEvent {
        let LoadFailure {
            model,
            stays_general,
            reason,
        } = failure;
        let reason = reason.to_string();
        let tasks = (0..).map(TaskId).zip(&plan.tasks);
        let tasks = tasks.filter(|(task, _)| uses(plan, *task, *model));
        let tasks: Vec<&str> = tasks.map(|(_, task)| task.name.as_str()).collect();
        let event = DaemonEvent::ModelNotLoaded {
            model: plan.models[model.index()].name.clone(),
            served_without: tasks.join(", "),
            reason: reason.clone(),
        };
        self.failures.push(Failure {
            model: *model,
            stays_general: *stays_general,
            reason,
        });
        event
    }

    /// What has become true since the last time.
    pub fn news(&mut self, plan: &Plan, metrics: &Metrics, now_ns: u64) -> Vec<DaemonEvent> {
        let mut news = Vec::new();
        if self.is_over {
            return news;
        }
        for task in start_order::tasks(&plan.scheduler) {
            let Some(ready_ns) = metrics.task(task).start.ready_ns() else {
                continue;
            };
            let was_told = std::mem::replace(&mut self.told[task.index()], true);
            if was_told || self.told.len() > NAMED_MAX {
                continue;
            }
            news.push(DaemonEvent::TaskReady {
                task: plan.task(task).name.clone(),
                ms: self.since(ready_ns) as u64,
                ready: self.told.iter().filter(|told| **told).count() as u64,
                all: self.told.len() as u64,
            });
        }
        let whole = |(task, metrics): (TaskId, &TaskMetrics)| {
            let start = &metrics.start;
            let failed = self
                .failures
                .iter()
                .any(|failure| uses(plan, task, failure.model));
            failed || start.readiness() == TaskReadiness::Whole && start.whole_ns().is_some()
        };
        self.is_over = (0..).map(TaskId).zip(&metrics.tasks).all(whole);
        if self.is_over && self.failures.is_empty() {
            self.whole_ns = Some(now_ns);
            news.push(DaemonEvent::AllLoaded {
                ms: self.since(now_ns) as u64,
            });
        }
        news
    }

    /// Whether the first task is ready, and that was not so the last time.
    pub fn becomes_ready(&mut self, plan: &Plan, now_ns: u64) -> bool {
        let first = start_order::tasks(&plan.scheduler).first().copied();
        let is_ready = first.is_none_or(|task| self.told[task.index()]);
        let becomes = is_ready && self.ready_ns.is_none();
        if becomes {
            self.ready_ns = Some(now_ns);
        }
        becomes
    }

    /// Tells the process that waits, if one does. The daemon serves even if that process is gone or does not read.
    pub fn tell(&mut self, moment: Moment) {
        // A pipe that takes anything takes a line at once.
        let pipe = self.pipe.take();
        let pipe = pipe.filter(|pipe| poll::wait_writable(pipe.as_fd(), Some(0)));
        let Some(pipe) = pipe else {
            return;
        };
        let mut pipe = File::from(pipe);
        let told = match moment {
            Moment::Ready => pipe.write_all(b"ready\n"),
            Moment::Over => pipe.write_all(b"over\n"),
        };
        // Behind the last line comes the end of the pipe.
        let goes_on = told.is_ok() && moment == Moment::Ready;
        self.pipe = goes_on.then(|| pipe.into());
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// In a line; none if nothing is still to come.
    pub fn words(&self) -> Option<String> {
        let ready = self.told.iter().filter(|told| **told).count();
        (!self.is_over || ready < self.told.len())
            .then(|| format!("ready: {ready} of {} tasks", self.told.len()))
    }

    pub fn report(&self, plan: &Plan) -> StartReport {
        let ms = |at: Option<u64>| at.map(|at| self.since(at));
        StartReport {
            began_ns: self.began_ns,
            ready_ms: ms(self.ready_ns),
            whole_ms: ms(self.whole_ns),
            tasks_ready: self.told.iter().filter(|told| **told).count() as u64,
            loading: !self.is_over,
            failures: self
                .failures
                .iter()
                .map(|failure| ModelFailureReport {
                    model: plan.models[failure.model.index()].name.clone(),
                    reason: failure.reason.clone(),
                })
                .collect(),
        }
    }

    pub fn task_report(&self, metrics: &TaskMetrics) -> TaskStartReport {
        let ms = |at: Option<u64>| at.map(|at| self.since(at));
        let start = &metrics.start;
        TaskStartReport {
            readiness: match start.readiness() {
                TaskReadiness::NotReady => "not-ready",
                TaskReadiness::Unmeasured => "unmeasured",
                TaskReadiness::Shallow => "shallow",
                TaskReadiness::Whole => "whole",
            }
            .into(),
            ready_ms: ms(start.ready_ns()),
            whole_ms: ms(start.whole_ns()),
            answered_ms: ms(start.answered_ns()),
        }
    }

    /// Milliseconds from the beginning of the process.
    fn since(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.began_ns) as f64 / 1e6
    }
}

/// Whether a task runs stages of a model.
fn uses(plan: &Plan, task: TaskId, model: ModelId) -> bool {
    let own = plan.scheduler.tasks[task.index()].model;
    let mut stages = plan.scheduler.models[own.index()].stages.iter();
    stages.any(|stage| stage.runs_as.unwrap_or(own) == model)
}
