//! Models that lost their promises: whether they did so rightly, and what is claimed meanwhile.
//!
//! Nothing is claimed about the tasks of a demoted model. About the others the claims go on, as if the
//! model's budgets were the longest of its last `demote_of` real-time stages there: what it takes beyond
//! its profile is no excuse any more.

use std::collections::{BTreeMap, VecDeque};

use punctual_core::{
    Criticality, Demotion, DemotionRule, Finished, ModelId, Nanos, PartitionId, TaskId,
};

use super::auditor::Auditor;
use super::floor::Flight;
use super::request_log::Key;
use super::violation::Violation;

/// No scale is higher: beyond it a stage overran, whatever the scale was.
const SCALE_MAX: f64 = 2.29;

#[derive(Clone, Debug, Default)]
struct Record {
    /// Measured time to budget of the newest stages.
    ratios: VecDeque<f64>,
    /// Stages of the others since the oldest of those.
    others: u64,
    /// Stages in a row that cannot be called an overrun.
    kept: u64,
    demoted: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Conduct {
    records: BTreeMap<(u16, u16), Record>,
    /// Stages of a model on a partition that are remembered.
    window: usize,
    /// How many overruns a policy must have seen, and how many stages within budget.
    overruns: usize,
    kept: u64,
}

impl Conduct {
    pub(super) fn new(rule: Option<DemotionRule>) -> Self {
        let (window, overruns, kept) = match rule {
            Some(rule) => {
                let (overruns, window) = (rule.overruns.into(), rule.of.into());
                (window, overruns, rule.reinstate_after.into())
            }
            None => (0, usize::MAX, u64::MAX),
        };
        Self {
            records: BTreeMap::new(),
            window,
            overruns,
            kept,
        }
    }

    /// A real-time stage ran.
    pub(super) fn ran(&mut self, flight: &Flight, budget: Nanos, finished: &Finished) {
        let (here, model) = (flight.infer.partition.0, flight.infer.model.0);
        let others = self.records.iter_mut();
        for (_, record) in others.filter(|(at, _)| at.0 == here && at.1 != model) {
            record.others += 1;
        }
        let record = self.records.entry((here, model)).or_default();
        let ratio = finished.measured.as_nanos() as f64 / budget.as_nanos().max(1) as f64;
        record.ratios.push_back(ratio);
        if record.ratios.len() > self.window {
            record.ratios.pop_front();
        }
        record.kept = if ratio > SCALE_MAX {
            0
        } else {
            record.kept + 1
        };
    }

    /// What a stage of a model is allowed to take.
    pub(super) fn allowed(&self, partition: PartitionId, model: ModelId, budget: Nanos) -> Nanos {
        let record = self.records.get(&(partition.0, model.0));
        let Some(record) = record.filter(|record| record.demoted) else {
            return budget;
        };
        let worst = record.ratios.iter().copied().fold(1.0, f64::max);
        Nanos::new((budget.as_nanos() as f64 * worst) as u64)
    }

    fn demote(&mut self, demotion: &Demotion) -> bool {
        let least = self.overruns;
        let place = (demotion.partition.0, demotion.model.0);
        let Some(record) = self.records.get_mut(&place) else {
            return false;
        };
        let overran = record.ratios.iter().filter(|ratio| **ratio > 1.0).count();
        let rightly = !record.demoted && overran >= least && record.others > 0;
        record.demoted = true;
        record.kept = 0;
        rightly
    }

    fn reinstate(&mut self, partition: PartitionId, model: ModelId) -> bool {
        let Some(record) = self.records.get_mut(&(partition.0, model.0)) else {
            return false;
        };
        let rightly = record.demoted && record.kept >= self.kept;
        *record = Record::default();
        rightly
    }

    pub(super) fn is_demoted(&self, partition: PartitionId, model: ModelId) -> bool {
        let record = self.records.get(&(partition.0, model.0));
        record.is_some_and(|record| record.demoted)
    }
}

impl Auditor {
    /// A model's tasks on a partition are promised nothing any more.
    pub(super) fn demoted(&mut self, demotion: &Demotion) -> Result<(), Violation> {
        let rightly = self.conduct.demote(demotion);
        let open = self.log.open.iter();
        let keys: Vec<Key> = open.map(|(key, _)| *key).collect();
        for key in keys {
            self.take_back(key);
        }
        if rightly {
            Ok(())
        } else {
            Err(Violation::WrongDemotion {
                partition: demotion.partition,
                model: demotion.model,
            })
        }
    }

    pub(super) fn reinstated(&mut self, at: PartitionId, model: ModelId) -> Result<(), Violation> {
        if self.conduct.reinstate(at, model) {
            Ok(())
        } else {
            Err(Violation::WrongDemotion {
                partition: at,
                model,
            })
        }
    }

    /// Takes a promise back if a model of its task is demoted where it may run, or not loaded.
    pub(super) fn take_back(&mut self, key: Key) {
        let Some(submission) = self.log.open.get(&key) else {
            return;
        };
        let task = submission.task;
        if !self.is_demoted(task) && self.is_ready(task) {
            return;
        }
        let partition = self.task(task).partition;
        let Some(submission) = self.log.open.get_mut(&key) else {
            return;
        };
        submission.demoted = true;
        submission.in_contract = false;
        submission.promised_in = None;
        submission.inherited = None;
        if std::mem::take(&mut submission.mandatory) {
            self.claims.mandatory(partition, false);
        }
    }

    /// Whether a real-time task runs a demoted model, or the mandatory exit of any task does not run as it was measured.
    pub(super) fn is_demoted(&self, task: TaskId) -> bool {
        let own = self.task(task);
        let stages = &self.config.models[own.model.index()].stages;
        let mut models = stages
            .iter()
            .map(|stage| stage.runs_as.unwrap_or(own.model));
        let demoted = own.criticality == Criticality::RealTime
            && models.any(|model| self.conduct.is_demoted(own.partition, model));
        demoted || self.punctual && self.waits_for_slack(task)
    }
}
