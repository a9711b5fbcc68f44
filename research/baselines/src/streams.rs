//! `streams`: every task has a stream of its own, and all streams run at the same time on the whole
//! device, which shares itself out among them as it likes (the baseline GPUStreams of REEF, OSDI
//! 2022, section 7.1; what a server does that gives each client a CUDA stream).
//!
//! One request at a time and no batches in a stream, in order of arrival. The plan gives each task
//! a partition of all compute units; that they overlap is the point of it. Left open by the
//! source: priorities between streams (here: none) and deadlines (here: ignored).

use serde::{Deserialize, Serialize};

use crate::lines::Lines;
use punctual_core::{
    Actions, Config, Contract, Instant, Partitioning, Policy, PolicySpec, Rejection,
};
use punctual_policy_seeb::batch_runner::{Baseline, BaselineRules, BatchRunner};

/// Parameters of `streams`: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StreamsConfig {}

impl PolicySpec for StreamsConfig {
    fn name(&self) -> &'static str {
        "streams"
    }

    fn summary(&self) -> &'static str {
        "all tasks at once, sharing the device (REEF's baseline)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(Partitioning::PerTask)
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Streams::new(config))
    }
}

#[derive(Debug)]
struct Streams {
    lines: Lines,
}

impl Streams {
    fn new(config: &Config) -> Self {
        Self {
            lines: Lines::by(config, |task| task.partition),
        }
    }
}

impl BaselineRules for Streams {
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
                lines.oldest(runner, partition, |_, _| Some(1))
            });
    }

    fn next_timer(&self, _runner: &BatchRunner) -> Option<Instant> {
        None
    }
}
