//! `branchynet`: early exit at a fixed confidence, without a look at deadlines (BranchyNet, ICPR
//! 2016, as a server would run it, and as SEEB-GPU compares with it).
//!
//! Requests of a model queue in order of arrival; what waits runs as one batch, up to the largest.
//! At each exit the members whose confidence reaches the threshold leave with that answer.
//!
//! Left open by the source, which classifies one image at a time: batches. `compact` says whether
//! those who left make room: with it (the default, and what stages of separate batch sizes offer)
//! the rest continues in the smallest compiled batch that holds it; without it every stage costs the
//! batch that was begun. Which model goes first: whose first request came first.

use serde::{Deserialize, Serialize};

use crate::lines::Lines;
use punctual_core::{
    Actions, Answer, Confidence, Config, ConfigError, Contract, Instant, Partitioning, Policy,
    PolicySpec, Rejection, StageId,
};
use punctual_policy_seeb::batch_runner::{Baseline, BaselineRules, BatchRunner, Job};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct BranchynetConfig {
    /// The confidence at which everybody leaves; none: each task's own threshold.
    pub threshold: Option<Confidence>,
    /// The largest batch; none: what the tasks allow.
    pub batch: Option<u8>,
    /// Whether a batch shrinks as members leave.
    pub compact: bool,
}

impl Default for BranchynetConfig {
    fn default() -> Self {
        Self {
            threshold: None,
            batch: None,
            compact: true,
        }
    }
}

impl PolicySpec for BranchynetConfig {
    fn name(&self) -> &'static str {
        "branchynet"
    }

    fn summary(&self) -> &'static str {
        "early exit at a fixed threshold, without deadlines (BranchyNet)"
    }

    fn contract(&self) -> Contract {
        Contract {
            shrinks_batches: self.compact,
            ..Contract::best_effort(Partitioning::Whole)
        }
    }

    fn check(&self, _config: &Config) -> Result<(), ConfigError> {
        self.obeys(self.broken_rule())
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Branchynet::new(config, self))
    }
}

impl BranchynetConfig {
    /// The first rule that a parameter breaks.
    fn broken_rule(&self) -> Option<&'static str> {
        (self.batch == Some(0)).then_some("batch must be at least 1")
    }
}

#[derive(Debug)]
struct Branchynet {
    parameters: BranchynetConfig,
    lines: Lines,
}

impl Branchynet {
    fn new(config: &Config, parameters: &BranchynetConfig) -> Self {
        Self {
            parameters: parameters.clone(),
            lines: Lines::by_model(config),
        }
    }
}

impl BaselineRules for Branchynet {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        self.lines.insert(runner, buffer);
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        self.lines.remove(runner, buffer);
    }

    fn leaves(
        &self,
        runner: &BatchRunner,
        _job: &Job,
        buffer: u16,
        exit: StageId,
        answer: Answer,
    ) -> bool {
        let task = &runner.config.tasks[runner.request(buffer).task.index()];
        let threshold = self.parameters.threshold.unwrap_or(task.threshold);
        exit >= task.mandatory_exit && answer.confidence >= threshold
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        let most = self.parameters.batch.map_or(usize::MAX, usize::from);
        let compact = self.parameters.compact;
        self.lines
            .serve(runner, compact, actions, |lines, runner, partition| {
                lines.oldest(runner, partition, |_, line| {
                    Some(line.len().min(line.batch_max).min(most))
                })
            });
    }

    fn next_timer(&self, _runner: &BatchRunner) -> Option<Instant> {
        None
    }
}
