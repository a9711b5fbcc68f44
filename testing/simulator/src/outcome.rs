//! What became of a run.

use punctual_core::{Instant, Nanos, Rejection, StageId, TaskId, Verdict};
use serde::{Deserialize, Serialize};

use crate::recorded::TimeSources;
use crate::summary::{Queries, Summary, Tally};

/// One submission and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    pub task: TaskId,
    /// When it was meant to be submitted; its latency counts from here.
    pub intended: Instant,
    /// When the scheduler saw it.
    pub submitted: Instant,
    /// The absolute deadline that applied; [`Instant::FAR_FUTURE`] if there was none.
    pub deadline: Instant,
    /// When its verdict was given; the run's end if there was none.
    pub ended: Instant,
    /// What became of it; none: lost.
    pub verdict: Option<Verdict>,
    /// The exit of its answer, if it was answered.
    pub exit: Option<StageId>,
    pub correct: bool,
    /// Whether the last exit's answer would have been right.
    pub correct_at_full_depth: bool,
    /// Which calibration record of its model it was.
    pub sample: u32,
}

impl Served {
    /// Whether it got an answer, be it late.
    #[must_use]
    pub const fn answered(&self) -> bool {
        matches!(self.verdict, Some(Verdict::OnTime | Verdict::Late))
    }

    /// Whether it was refused when it arrived.
    #[must_use]
    pub const fn rejected(&self) -> Option<Rejection> {
        match self.verdict {
            Some(Verdict::Rejected(reason)) => Some(reason),
            _ => None,
        }
    }

    /// From when it was meant to be submitted to its verdict.
    #[must_use]
    pub const fn latency(&self) -> Nanos {
        self.ended.since(self.intended)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    Drained,
    /// Submissions were left without a verdict, and nothing was going to happen any more.
    Silent,
    /// The scheduler asked to be woken again and again without any time passing.
    Spinning,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub ending: Ending,
    /// When, on the virtual clock.
    pub ended: Instant,
    pub total: Tally,
    pub tasks: Vec<Tally>,
    /// Of each pipeline, by root.
    pub queries: Vec<Queries>,
    /// How long things took compared to what was planned, and how much was done.
    pub effort: Effort,
    /// Every request in the order of its verdict, if the run was told to keep them.
    pub served: Vec<Served>,
    /// Where the stages' times come from, if the world was recorded.
    pub times: Option<TimeSources>,
    /// The span in which submissions were made.
    pub duration: Nanos,
}

/// What the device and the scheduler did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    pub steps: u64,
    /// Actions that ran to their end.
    pub actions: u64,
    /// Requests in them: divided by `actions`, the mean batch.
    pub members: u64,
    /// Actions that were not started inside their window.
    pub not_run: u64,
    pub preempted: u64,
    pub loads: u64,
    /// Requests that another task took on than their own.
    pub offloaded: u64,
    /// Times that a model lost its promises.
    pub demotions: u64,
    /// Actions that took longer than their budget.
    pub over_budget: u64,
    /// Sum over actions of |time - budget| / budget: divided by `actions`, the mean error.
    pub prediction_error: f64,
    /// The largest time / budget.
    pub worst_prediction: f64,
    /// Unit-nanoseconds that something ran.
    pub busy: f64,
    pub units: u32,
    /// Verdicts on submissions that had one already. Anything but 0 is a fault of the scheduler.
    pub stray_replies: u64,
    /// Events that the scheduler could not place. Anything but 0 is a fault, but for lost
    /// completions that it gave up.
    pub stale_events: u64,
}

impl Effort {
    /// Share of the compute units' time in which they were busy, 0 to 1, until `ended`.
    #[must_use]
    pub fn utilisation(&self, ended: Instant) -> f64 {
        let whole = ended.as_nanos() as f64 * f64::from(self.units);
        if whole > 0.0 { self.busy / whole } else { 0.0 }
    }
}

impl Outcome {
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary::new(&self.total, self.duration)
    }

    /// The figures of one task's requests.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn summary_of(&self, task: TaskId) -> Summary {
        Summary::new(&self.tasks[task.index()], self.duration)
    }
}
