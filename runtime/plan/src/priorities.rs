//! How urgent each thread is.

use punctual_core::{Criticality, Nanos};
use punctual_diagnostics::{Problems, Rule, Spanned};
use thiserror::Error;

use crate::tasks::Task;

/// The highest `SCHED_FIFO` priority.
const PRIORITY_MAX: u8 = 99;

/// Worker, egress, scheduler, ingress, probe: the levels above the intake threads'.
const LEVELS_ABOVE_INTAKE: u8 = 5;

/// More levels than there are above the base.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the plan needs {needed} priorities from {base} on, and the highest is {PRIORITY_MAX}")]
#[non_exhaustive]
pub struct PrioritiesExhausted {
    pub base: u8,
    pub needed: usize,
}

impl Rule for PrioritiesExhausted {
    fn rule(&self) -> &'static str {
        "intake, worker < egress < scheduler < ingress < probe, within 1 to 99"
    }

    fn help(&self) -> String {
        "lower `daemon.priority`".into()
    }
}

/// Priorities by role, from the lowest up: one level for each different deadline's intake threads
/// (the shorter the deadline the higher), worker, egress, scheduler, ingress, stall probe. Where
/// they have to share a core, the worker is below the intake threads (see `arrival`).
pub(crate) struct Priorities {
    base: u8,
    /// Whether workers come first.
    shared: bool,
    /// Different deadlines of real-time tasks, longest first.
    levels: Vec<Nanos>,
}

impl Priorities {
    pub(crate) fn new(
        base: &Spanned<u64>,
        tasks: &[Task],
        shared: bool,
        problems: &mut Problems<'_>,
    ) -> Self {
        let mut levels: Vec<_> = tasks
            .iter()
            .filter(|task| task.criticality == Criticality::RealTime)
            .filter_map(|task| task.deadline)
            .collect();
        levels.sort_unstable();
        levels.dedup();
        levels.reverse();
        let (needed, lowest) = (
            levels.len() + usize::from(LEVELS_ABOVE_INTAKE),
            base.value as u8,
        );
        if usize::from(lowest) + needed - 1 > usize::from(PRIORITY_MAX) {
            let cause = PrioritiesExhausted {
                base: lowest,
                needed,
            };
            problems.add(&base.place, cause);
        }
        Self {
            base: lowest,
            shared,
            levels,
        }
    }

    /// Best-effort payloads are prepared by ordinary threads: they must never delay a real-time frame's preparation.
    pub(crate) fn intake(&self, task: &Task) -> Option<u8> {
        let deadline = task.deadline?;
        let level = self.levels.iter().position(|level| *level == deadline)?;
        let level = level as u8 + u8::from(self.shared);
        (task.criticality == Criticality::RealTime).then(|| self.base.saturating_add(level))
    }

    pub(crate) fn worker(&self) -> Option<u8> {
        if self.shared {
            return Some(self.base);
        }
        self.above(0)
    }

    pub(crate) fn above(&self, steps: u8) -> Option<u8> {
        Some(self.base.saturating_add(self.levels.len() as u8 + steps))
    }
}
