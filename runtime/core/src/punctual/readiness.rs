//! Readiness: how much of each model its device can run, while a start goes on
//! ([`Event::Readiness`](crate::Event::Readiness)).
//!
//! - A frame whose mandatory exit cannot run yet is rejected when it arrives. Its reservation stays counted in F, so
//!   that SAFE holds when the first frame is promised (docs/proof.md, "A start that goes on").
//! - The deepest exit that can run counts as the last one. An answer there is final: the next stage takes longer to load
//!   than frames wait, and a request that waited for it would hold its buffer and keep its client waiting for nothing.
//! - No budget holds of a stage that does not run as it was measured. A task whose mandatory exit runs as measured leaves such
//!   stages out; any other is treated as a task of a demoted model (`demotion`), best-effort tasks as well, since P does not
//!   hold either. As long as nothing is measured, C' is [`UNMEASURED`] times the budget. Slack for that may never come, so
//!   a task without a deadline is not ready until its mandatory exit runs as measured: its frames would wait for ever.
//! - If that never comes ([`stays_general`](crate::Readiness::stays_general)), such a task is served in the gaps like other
//!   best-effort work. Its stages are preempted, and are taken to stop within [`UNMEASURED`] times P. Where the offline test
//!   does not allow that, it stays not ready.
//!
//! Usually a device says what it has before any frame comes, and then more and more. If it says less, open requests
//! that cannot go on end: with the answer that they hold, or rejected.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::config::{Config, ModelConfig};
use crate::ids::{ModelId, StageId, TaskId};
use crate::policy::TaskReadiness;
use crate::punctual::Punctual;
use crate::punctual::lifecycle::requests::{Request, State};
use crate::punctual::partition::Partition;
use crate::punctual::tables::{StageRow, Tables, TaskTable};
use crate::time::Nanos;

/// The least C' of a stage that does not run as it was measured, in budgets, and the time within which it stops, in P. An
/// assumption, as nothing is measured of general solutions beforehand. If a stage of its model takes longer, that counts from
/// then on.
pub(super) const UNMEASURED: u64 = 4;

/// Thousandths.
const WHOLE: u64 = 1_000;

/// The last report about one model.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct ModelReadiness {
    /// How many of its first stages can run.
    stages: u8,
    /// How many of these run as they were measured.
    measured: u8,
    /// The longest of its stages that did not, in thousandths of its budget.
    slowest: u64,
    /// Whether the others never will.
    stays_general: bool,
}

/// The last reports about all models.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Readiness(Box<[ModelReadiness]>);

impl Readiness {
    /// All of each model, as measured: so it is until a device says otherwise.
    pub fn whole(config: &Config) -> Self {
        let whole = |model: &ModelConfig| ModelReadiness {
            stages: model.stages.len() as u8,
            measured: model.stages.len() as u8,
            slowest: UNMEASURED * WHOLE,
            stays_general: false,
        };
        Self(config.models.iter().map(whole).collect())
    }

    /// Whether it is of as many models as another.
    pub fn fits(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
    }

    fn said(&mut self, said: &crate::Readiness) {
        let model = &mut self.0[said.model.index()];
        model.stages = said.stages;
        model.stays_general = said.stays_general;
        model.measured = match said {
            said if said.as_measured => said.stages,
            // The further ones do not run as they were measured; the others still do.
            said if said.stages > model.measured => model.measured,
            _ => 0,
        };
    }

    /// Whether a stage can run.
    pub fn can_run(&self, row: &StageRow) -> bool {
        row.stage.0 < self.0[row.model.index()].stages
    }

    /// Whether it runs as it was measured.
    pub fn is_measured(&self, row: &StageRow) -> bool {
        row.stage.0 < self.0[row.model.index()].measured
    }

    /// Whether it never will.
    pub fn stays_general(&self, row: &StageRow) -> bool {
        !self.is_measured(row) && self.0[row.model.index()].stays_general
    }

    /// Counts the time of a stage that did not run as it was measured.
    pub fn ran(&mut self, model: ModelId, measured: Nanos, budget: Nanos) {
        let ratio = u128::from(measured.as_nanos()) * u128::from(WHOLE);
        let ratio = ratio.div_ceil(u128::from(budget.as_nanos().max(1)));
        let slowest = &mut self.0[model.index()].slowest;
        *slowest = (*slowest).max(u64::try_from(ratio).unwrap_or(u64::MAX));
    }

    /// C' of a stage that does not run as it was measured, without the dispatch cost. Saturates, which rejects.
    pub fn stretched(&self, model: ModelId, budget: Nanos) -> Nanos {
        let slowest = self.0[model.index()].slowest;
        let wide = u128::from(budget.as_nanos()) * u128::from(slowest);
        Nanos::new(u64::try_from(wide.div_ceil(u128::from(WHOLE))).unwrap_or(u64::MAX))
    }
}

impl Punctual {
    /// A device says how much of a model it can run from now on.
    pub(super) fn readiness(&mut self, said: &crate::Readiness, actions: &mut Actions) {
        self.readiness.said(said);
        self.tables.set_ready(said.model, &self.readiness);
        self.withdraw_promises(|tables, task| tables.task(task).waits_for_slack(), actions);
        // Each partition decides again: requests end, and depth that was not there may be worth its time.
        self.partitions.iter_mut().for_each(Partition::mark_dirty);
        for buffer in 0..self.life.requests.buffers() {
            if self.waits_for_ever(buffer) {
                self.life.withdraw(buffer, &self.tables);
                self.end_unready(buffer, actions);
            }
        }
    }

    /// How much of a task's network serves its frames.
    pub(super) fn readiness_of(&self, task: TaskId) -> TaskReadiness {
        let table = self.tables.task(task);
        match () {
            () if !table.is_ready() => TaskReadiness::NotReady,
            () if table.unmeasured => TaskReadiness::Unmeasured,
            () if table.ready < table.stages => TaskReadiness::Shallow,
            () => TaskReadiness::Whole,
        }
    }

    /// Queues a request that ran until now for its next stage, or ends it if that cannot run.
    pub(super) fn put_back(&mut self, buffer: u16, actions: &mut Actions) {
        if self.tables.can_go_on(self.life.requests.get(buffer)) {
            return self.life.put_back(buffer, &self.tables);
        }
        self.life.end_promise(buffer, &self.tables);
        self.end_unready(buffer, actions);
    }

    /// Whether a request waits for a stage that cannot run.
    fn waits_for_ever(&self, buffer: u16) -> bool {
        let request = self.life.requests.get(buffer);
        let waits = matches!(
            request.state,
            State::AwaitingWeights | State::Mandatory | State::Optional | State::BestEffort
        );
        waits && !self.tables.can_go_on(request)
    }

    /// # Errors
    /// If a request waits for a stage that cannot run.
    pub(super) fn check_readiness(&self) -> Result<(), &'static str> {
        let mut buffers = 0..self.life.requests.buffers();
        if buffers.any(|buffer| self.waits_for_ever(buffer)) {
            return Err("a request waits for a stage that cannot run");
        }
        Ok(())
    }

    /// Ends a request whose next stage cannot run: with the answer that it holds, if that counts.
    fn end_unready(&mut self, buffer: u16, actions: &mut Actions) {
        if self.life.has_mandatory_answer(buffer, &self.tables) {
            return self.life.answer(buffer, self.now, actions);
        }
        let verdict = Verdict::Rejected(Rejection::NotReady);
        self.life.finish(buffer, verdict, actions);
    }
}

impl TaskTable {
    /// Whether its frames can be answered: its mandatory exit can run, and no frame without a deadline would wait for
    /// slack that may never come.
    pub const fn is_ready(&self) -> bool {
        let may_wait_for_ever = self.waits_for_slack() && self.deadline.is_none();
        self.ready > self.mandatory_exit.0 && !may_wait_for_ever
    }

    /// Whether its stages run to their ends in the slack, as they do not run as they were measured.
    pub const fn waits_for_slack(&self) -> bool {
        let in_gaps = self.stays_general && self.stops_in_time && self.deadline.is_none();
        self.unmeasured && !in_gaps
    }

    /// Whether a stage is the last that can run at present.
    pub const fn is_last(&self, stage: StageId) -> bool {
        stage.0 + 1 >= self.ready
    }
}

impl Tables {
    /// Whether the next stage of a request can run; for a first answer, all stages up to it.
    pub fn can_go_on(&self, request: &Request) -> bool {
        let table = self.task(request.task);
        table.is_ready() && request.stage.0 < table.ready
    }

    /// Whether a task runs a model's stages, its own model or one that it shares a prefix with.
    pub fn runs(&self, task: TaskId, model: ModelId) -> bool {
        let mut rows = self.rows_of(self.task(task)).iter();
        rows.any(|row| self.row(row.runs_as).model == model)
    }
}
