//! Readiness: how much of each model its device can run, while a start goes on
//! ([`Event::Readiness`](crate::Event::Readiness)).
//!
//! - A frame whose mandatory exit cannot run yet is rejected when it arrives. Its reservation stays counted in F, so
//!   that SAFE holds when the first frame is promised (docs/proof.md, "A start that goes on").
//! - The deepest exit that can run counts as the last one. An answer there is final: the next stage takes longer to load
//!   than frames wait, and a request that waited for it would hold its buffer and keep its client waiting for nothing.
//! - No budget holds of a model that does not run as it was measured. Its tasks are treated as those of a demoted model
//!   (`demotion`), best-effort tasks as well, since P does not hold for them either. As long as nothing is measured, C' is
//!   [`UNMEASURED`] times the budget.
//!
//! Usually a device says what it has before any frame comes, and then more and more. If it says less, open requests
//! that cannot go on end: with the answer that they hold, or rejected.
//!
//! [`UNMEASURED`]: crate::punctual::profile_monitor::UNMEASURED

use crate::action::{Rejection, Verdict};
use crate::actions::Actions;
use crate::event::Readiness;
use crate::ids::{ModelId, StageId, TaskId};
use crate::policy::TaskReadiness;
use crate::punctual::Punctual;
use crate::punctual::lifecycle::requests::{Request, State};
use crate::punctual::partition::Partition;
use crate::punctual::tables::{Tables, TaskTable};

impl Punctual {
    /// A device says how much of a model it can run from now on.
    pub(super) fn readiness(&mut self, said: &Readiness, actions: &mut Actions) {
        let Readiness {
            model,
            stages,
            as_measured,
        } = *said;
        self.tables.set_ready(model, stages);
        for partition in self.partitions.iter_mut() {
            let monitor = partition.profiles_mut();
            monitor.set_unmeasured(model, !as_measured, self.now);
        }
        if !as_measured {
            self.withdraw_promises(|tables, task| tables.runs(task, model), actions);
        }
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
        let monitor = self.partitions[table.partition.index()].profiles();
        let mut rows = self.tables.rows_of(table).iter();
        match () {
            () if !table.is_ready() => TaskReadiness::NotReady,
            () if rows.any(|row| monitor.is_unmeasured(self.tables.row(row.runs_as).model)) => {
                TaskReadiness::Unmeasured
            }
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
    /// Whether its mandatory exit can run.
    pub const fn is_ready(&self) -> bool {
        self.ready > self.mandatory_exit.0
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
