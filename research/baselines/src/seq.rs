//! `seq`: one request at a time, each network to its end, nothing in parallel and nothing stopped
//! (the baseline SEQ of REEF, OSDI 2022, section 7.1). Real-time requests come before best-effort
//! ones, but wait for a best-effort network that has begun.
//!
//! Left open by the source: the order among requests of one kind (here: of arrival), and what to
//! do about deadlines (here: nothing; a late answer is given late).

use serde::{Deserialize, Serialize};

use crate::lines::{Line, Lines};
use punctual_core::{
    Actions, Config, Contract, Criticality, Instant, Partitioning, Policy, PolicySpec, Rejection,
};
use punctual_policy_seeb::batch_runner::{Baseline, BaselineRules, BatchRunner};

/// Parameters of `seq`: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SeqConfig {}

impl PolicySpec for SeqConfig {
    fn name(&self) -> &'static str {
        "seq"
    }

    fn summary(&self) -> &'static str {
        "one request at a time, real-time first (REEF's baseline)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(Partitioning::Whole)
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Seq::new(config))
    }
}

#[derive(Debug)]
struct Seq {
    /// Two a partition: real-time requests, and best-effort ones.
    lines: Lines,
}

impl Seq {
    fn new(config: &Config) -> Self {
        Self {
            lines: Lines::by(config, |task| (task.partition, task.criticality)),
        }
    }
}

impl BaselineRules for Seq {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        self.lines.insert(runner, buffer);
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        self.lines.remove(runner, buffer);
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        self.lines
            .serve(runner, true, actions, |lines, runner, partition| {
                let real_time = |_: usize, line: &Line| {
                    let task = &runner.config.tasks[runner.request(line.head()?).task.index()];
                    (task.criticality == Criticality::RealTime).then_some(1)
                };
                let first = lines.oldest(runner, partition, real_time);
                first.or_else(|| lines.oldest(runner, partition, |_, _| Some(1)))
            });
    }

    fn next_timer(&self, _runner: &BatchRunner) -> Option<Instant> {
        None
    }
}
