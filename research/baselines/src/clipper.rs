//! `clipper`: batches as large as an additive-increase-multiplicative-decrease search finds the
//! deadline to allow (Clipper, NSDI 2017, section 4.3), and requests dropped lazily, that is only
//! once their deadline has passed (Clipper as Nexus, SOSP 2019, section 4.3, describes it).
//!
//! Each model has a cap on its batches. A batch that took no longer than the model's deadline
//! raises the cap by one; one that took longer multiplies it by 0.9. A batch is what waits, up to
//! the cap, in order of arrival.
//!
//! Left open by the source: whether a batch below the cap may raise it (here not: it says nothing
//! about larger ones; otherwise a quiet hour would leave a cap that was never tried), which model
//! goes first where it has a machine for each (here: whose first request came first), and waiting
//! for batches to fill (its optional delay; here never). Networks run to the last exit.

use serde::{Deserialize, Serialize};

use crate::lines::{Line, Lines};
use punctual_core::{
    Actions, Config, ConfigError, Contract, Instant, Nanos, Partitioning, Policy, PolicySpec,
    Rejection,
};
use punctual_policy_seeb::batch_runner::{Baseline, BaselineRules, BatchRunner, Ended, Job};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClipperConfig {
    /// By how many the cap rises after a batch that was in time.
    pub increase: u8,
    /// What is left of the cap after one that was not, in thousandths.
    pub decrease: u16,
}

impl Default for ClipperConfig {
    fn default() -> Self {
        Self {
            increase: 1,
            decrease: 900,
        }
    }
}

impl PolicySpec for ClipperConfig {
    fn name(&self) -> &'static str {
        "clipper"
    }

    fn summary(&self) -> &'static str {
        "batch sizes found by trial, lazy drop (Clipper)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(Partitioning::Whole)
    }

    fn check(&self, _config: &Config) -> Result<(), ConfigError> {
        self.obeys(self.broken_rule())
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Clipper::new(config, self))
    }
}

impl ClipperConfig {
    /// The first rule that a parameter breaks.
    fn broken_rule(&self) -> Option<&'static str> {
        if self.increase == 0 {
            return Some("increase must be at least 1");
        }
        (!(1..1000).contains(&self.decrease)).then_some("decrease must be 1 to 999 thousandths")
    }
}

#[derive(Debug)]
struct Clipper {
    parameters: ClipperConfig,
    lines: Lines,
    caps: Box<[Cap]>,
}

/// The largest batch to try, in thousandths: a cap of two shrinks to 1.8, which still means one,
/// and from there to 1.62.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cap(u32);

impl Cap {
    const ONE: Self = Self(1000);

    const fn members(self) -> usize {
        (self.0 / Self::ONE.0) as usize
    }

    /// After a batch of `size` that took `took`.
    fn after(self, parameters: &ClipperConfig, line: &Line, size: usize, took: Nanos) -> Self {
        let in_time = line.deadline.is_none_or(|deadline| took <= deadline);
        let next = if !in_time {
            // At most 32 batches and 16 bits: below 2^32.
            self.0 * u32::from(parameters.decrease) / Self::ONE.0
        } else if size < self.members() {
            self.0
        } else {
            self.0 + u32::from(parameters.increase) * Self::ONE.0
        };
        Self(next.clamp(Self::ONE.0, line.batch_max as u32 * Self::ONE.0))
    }
}

impl Clipper {
    fn new(config: &Config, parameters: &ClipperConfig) -> Self {
        let lines = Lines::by_model(config);
        Self {
            parameters: parameters.clone(),
            caps: vec![Cap::ONE; lines.len()].into(),
            lines,
        }
    }
}

impl BaselineRules for Clipper {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        self.lines.insert(runner, buffer);
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        self.lines.remove(runner, buffer);
    }

    fn ended(&mut self, runner: &mut BatchRunner, job: &Job, how: Ended) {
        let line = self.lines.position(job.partition, job.model);
        if let Some(line) = line.filter(|_| how == Ended::Finished) {
            let took = runner.now.since(job.started);
            let cap = &mut self.caps[line];
            *cap = cap.after(&self.parameters, self.lines.get(line), job.size, took);
        }
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        self.lines.reject_late(runner, actions);
        let caps = &self.caps;
        self.lines
            .serve(runner, true, actions, |lines, runner, partition| {
                lines.oldest(runner, partition, |index, line| {
                    Some(line.len().min(caps[index].members()))
                })
            });
    }

    fn next_timer(&self, _runner: &BatchRunner) -> Option<Instant> {
        None
    }
}
