//! Models that are not loaded yet: what may be ordered of them, and what is claimed meanwhile.
//!
//! Nothing is claimed about the tasks of a model that does not run as it was measured, nor about a task of which the
//! mandatory exit stopped being ready.

use std::collections::BTreeMap;

use punctual_core::{Infer, ModelId, Readiness, TaskId};

use super::auditor::Auditor;
use super::request_log::Key;
use super::violation::Violation;

/// What the devices said last of each model.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded(BTreeMap<u16, Readiness>);

impl Loaded {
    fn stages(&self, model: ModelId) -> u8 {
        let said = self.0.get(&model.0);
        said.map_or(u8::MAX, |said| said.stages)
    }

    pub(super) fn is_as_measured(&self, model: ModelId) -> bool {
        let said = self.0.get(&model.0);
        said.is_none_or(|said| said.as_measured)
    }
}

impl Auditor {
    pub(super) fn said_ready(&mut self, said: &Readiness) {
        let before = self.loaded.is_as_measured(said.model);
        self.loaded.0.insert(said.model.0, *said);
        if said.as_measured && !before {
            self.conduct.begins_as_measured(said.model);
        }
        let keys: Vec<Key> = self.log.open.keys().copied().collect();
        for key in keys {
            self.take_back(key);
        }
    }

    /// Whether a frame of a task can be answered: up to its mandatory exit, or by the whole network where a policy runs it
    /// whole.
    pub(super) fn is_ready(&self, task: TaskId) -> bool {
        let own = self.task(task);
        let stages = &self.config.models[own.model.index()].stages;
        if self.runs_whole {
            return usize::from(self.loaded.stages(own.model)) >= stages.len();
        }
        let mandatory = stages.iter().take(usize::from(own.mandatory_exit.0) + 1);
        (0..).zip(mandatory).all(|(stage, config)| {
            let runs_as = config.runs_as.unwrap_or(own.model);
            self.loaded.stages(runs_as) > stage
        })
    }

    /// Whether a model that a task runs does not run as it was measured.
    pub(super) fn is_unmeasured(&self, task: TaskId) -> bool {
        let own = self.task(task);
        let mut stages = self.config.models[own.model.index()].stages.iter();
        stages.any(|stage| {
            !self
                .loaded
                .is_as_measured(stage.runs_as.unwrap_or(own.model))
        })
    }

    /// A stage must be there. One that does not run as it was measured runs alone and to its end: no promise can count on
    /// when it ends.
    pub(super) fn check_loaded(&self, infer: &Infer) -> Result<(), Violation> {
        let action = infer.id;
        if infer.stage.0 >= self.loaded.stages(infer.model) {
            return Err(Violation::NotLoaded { action });
        }
        let alone = infer.members.len() == 1 && infer.batch == 1;
        if self.punctual && !self.loaded.is_as_measured(infer.model) && !alone {
            return Err(Violation::UnmeasuredTogether { action });
        }
        Ok(())
    }
}
