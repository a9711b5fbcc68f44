//! A case: what runs, under which policy, with which draws.

use std::fmt;
use std::sync::Arc;

use punctual_core::{Config, PartitionId, PolicySpec};

use super::draw;
use crate::audit;
use crate::scenario::Scenario;

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its seed: what it was drawn from, and what its run draws from.
    pub seed: u64,
    pub policy: Arc<dyn PolicySpec>,
    pub scenario: Scenario,
    /// Thousandths of the time that real-time work may take; 0: all. No scenario names it.
    pub share_max: u16,
}

impl Case {
    /// The case of a seed: half of the time `punctual`, with any parameters, otherwise one of `policies`.
    ///
    /// # Panics
    /// If there are no policies.
    #[must_use]
    pub fn draw(seed: u64, policies: &[Arc<dyn PolicySpec>]) -> Self {
        draw::case(seed, policies)
    }

    /// The plan that the scheduler gets.
    #[must_use]
    pub fn config(&self) -> Config {
        let mut config = self.scenario.config(&*self.policy);
        if self.promises() && self.share_max > 0 {
            for partition in &mut config.partitions {
                partition.share_max = self.share_max;
            }
        }
        config
    }

    /// Whether its policy promises deadlines.
    pub(super) fn promises(&self) -> bool {
        self.policy.contract().promises
    }

    /// Whether every reservation of its plan can be kept, as the auditor reads the definition.
    #[must_use]
    pub fn is_schedulable(&self) -> bool {
        let config = self.config();
        (0..config.partitions.len())
            .all(|index| audit::is_schedulable(&config, PartitionId(index as u16)))
    }
}

/// The case in the units that it was drawn in, one line a thing.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenario = &self.scenario;
        writeln!(f, "policy    {:?}", self.policy)?;
        writeln!(f, "board     {:?}", scenario.board)?;
        writeln!(f, "length    {}", scenario.length)?;
        writeln!(f, "share     {}", self.share_max)?;
        for (units, tasks) in &scenario.planned {
            let end = units.first + units.count;
            writeln!(f, "partition units {}..{end}, tasks {tasks:?}", units.first)?;
        }
        if let Some(lending) = &scenario.lending {
            let ranges = lending.places.iter();
            let ranges: Vec<_> = ranges.map(|u| u.first..u.end()).collect();
            writeln!(
                f,
                "places    {ranges:?}, times {} of a home's",
                lending.corun
            )?;
        }
        for (index, model) in scenario.models.iter().enumerate() {
            let samples = model.calibration.samples.len();
            writeln!(f, "model {index}   {samples} samples, {:?}", model.weights)?;
            for stage in &model.stages {
                let times = stage.times.iter().map(|m| {
                    let (batch, units, time) = (m.batch, m.units, m.time);
                    format!("b{batch} u{units} {}/{}", time.budget, time.max_seen)
                });
                writeln!(f, "  stage   {}", times.collect::<Vec<_>>().join("; "))?;
            }
        }
        for (index, task) in scenario.tasks.iter().enumerate() {
            writeln!(f, "task {index}    {:?}", task.config)?;
            writeln!(f, "          {} clients, {:?}", task.clients, task.pattern)?;
        }
        writeln!(f, "durations {:?}", scenario.durations)?;
        for fault in &scenario.faults {
            writeln!(f, "fault     {fault:?}")?;
        }
        Ok(())
    }
}
