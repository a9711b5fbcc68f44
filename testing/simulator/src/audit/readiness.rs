//! Models that are not loaded yet: what may be ordered of them, and what is claimed meanwhile.
//!
//! Nothing is claimed about a task of which the mandatory exit does not run as it was measured, or stopped being ready. One
//! without a deadline may be served then if that stays so: in the gaps, by stages that stop within four times P. Whether the
//! plan has room for that is not claimed either.

use std::collections::BTreeMap;

use punctual_core::{Finished, Infer, ModelId, Nanos, Readiness, StageId, TaskId};

use super::auditor::Auditor;
use super::floor::Flight;
use super::request_log::Key;
use super::violation::Violation;

/// How many budgets a stage may take that does not run as it was measured, until one took longer.
const UNMEASURED: f64 = 4.0;
/// Within how many P such a stage stops.
pub(super) const STOPS_WITHIN: u64 = 4;

/// The first stages of a model that can run, and those that run as they were measured.
#[derive(Clone, Copy, Debug)]
struct Stages {
    ready: u8,
    measured: u8,
    /// The others never will.
    stays_general: bool,
}

/// The last report about each model.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded {
    stages: BTreeMap<u16, Stages>,
    /// The longest time of a stage that did not run as it was measured, in budgets.
    slowest: BTreeMap<u16, f64>,
}

impl Loaded {
    fn said(&mut self, said: &Readiness) {
        let before = self.stages.get(&said.model.0);
        let before = before.map_or(u8::MAX, |before| before.measured);
        let measured = match said {
            said if said.as_measured => said.stages,
            // What was measured before stays so if stages were added.
            said if said.stages > before => before,
            _ => 0,
        };
        let ready = said.stages;
        let stages = Stages {
            ready,
            measured,
            stays_general: said.stays_general,
        };
        self.stages.insert(said.model.0, stages);
    }

    fn ready(&self, model: ModelId) -> u8 {
        self.stages.get(&model.0).map_or(u8::MAX, |it| it.ready)
    }

    pub(super) fn is_measured(&self, model: ModelId, stage: StageId) -> bool {
        let measured = self.stages.get(&model.0);
        measured.is_none_or(|it| stage.0 < it.measured)
    }

    fn stays_general(&self, model: ModelId, stage: StageId) -> bool {
        let said = self.stages.get(&model.0);
        said.is_some_and(|it| it.stays_general && stage.0 >= it.measured)
    }

    /// What a stage may take that does not run as it was measured.
    pub(super) fn allowed(&self, model: ModelId, budget: Nanos) -> Nanos {
        let slowest = self.slowest.get(&model.0).copied();
        let ratio = slowest.unwrap_or(0.0).max(UNMEASURED);
        Nanos::new((budget.as_nanos() as f64 * ratio) as u64)
    }

    /// A stage ended that did not run as it was measured when it was ordered.
    pub(super) fn ran(&mut self, flight: &Flight, budget: Nanos, finished: &Finished) {
        let ratio = finished.measured.as_nanos() as f64 / budget.as_nanos().max(1) as f64;
        let slowest = self.slowest.entry(flight.infer.model.0).or_default();
        *slowest = slowest.max(ratio);
    }
}

impl Auditor {
    pub(super) fn said_ready(&mut self, said: &Readiness) {
        self.loaded.said(said);
        let keys: Vec<Key> = self.log.open.keys().copied().collect();
        for key in keys {
            self.take_back(key);
        }
    }

    /// Whether a frame of a task can be answered: up to its mandatory exit, if the task has no deadline as measured or by what
    /// stays in the place of that; or by the whole network where a policy runs it whole.
    pub(super) fn is_ready(&self, task: TaskId) -> bool {
        let own = self.task(task);
        if self.runs_whole {
            let stages = self.config.models[own.model.index()].stages.len();
            return usize::from(self.loaded.ready(own.model)) >= stages;
        }
        let has_end = own.deadline.is_some() || !self.waits_for_slack(task);
        has_end && self.all_mandatory(task, |model, stage| stage.0 < self.loaded.ready(model))
    }

    /// Whether a task's mandatory exit does not run as it was measured.
    pub(super) fn is_unmeasured(&self, task: TaskId) -> bool {
        !self.all_mandatory(task, |model, stage| self.loaded.is_measured(model, stage))
    }

    /// Whether a task is served in the gaps although its mandatory exit does not run as it was measured, as it never will.
    pub(super) fn may_stay_general(&self, task: TaskId) -> bool {
        let changes = |model, stage| !self.loaded.stays_general(model, stage);
        self.task(task).deadline.is_none()
            && self.is_unmeasured(task)
            && !self.all_mandatory(task, changes)
    }

    /// Whether a task's stages run to their ends in the slack.
    pub(super) fn waits_for_slack(&self, task: TaskId) -> bool {
        self.is_unmeasured(task) && !self.may_stay_general(task)
    }

    fn all_mandatory(&self, task: TaskId, holds: impl Fn(ModelId, StageId) -> bool) -> bool {
        let own = self.task(task);
        let stages = &self.config.models[own.model.index()].stages;
        let mandatory = stages.iter().take(usize::from(own.mandatory_exit.0) + 1);
        let mut mandatory = (0..).map(StageId).zip(mandatory);
        mandatory.all(|(stage, config)| holds(config.runs_as.unwrap_or(own.model), stage))
    }

    /// A stage must be there. One that does not run as it was measured runs alone: no promise can count on when it ends.
    pub(super) fn check_loaded(&self, infer: &Infer) -> Result<(), Violation> {
        let action = infer.id;
        if infer.stage.0 >= self.loaded.ready(infer.model) {
            return Err(Violation::NotLoaded { action });
        }
        let alone = infer.members.len() == 1 && infer.batch == 1;
        if self.punctual && !self.loaded.is_measured(infer.model, infer.stage) && !alone {
            return Err(Violation::UnmeasuredTogether { action });
        }
        Ok(())
    }
}
