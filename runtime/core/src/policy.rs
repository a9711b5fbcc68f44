//! The interface between the scheduler and a policy, and the requirements of a policy on a plan.
//!
//! This crate has one policy, [`punctual`](crate::PunctualConfig). Others are in crates of their own, which use
//! only what this one exports.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::actions::Actions;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::{ConfigError, StateError};
use crate::event::Event;
use crate::ids::{PartitionId, TaskId};
use crate::time::{Instant, Nanos};

/// A policy takes all scheduling decisions. The same plan and the same events lead to the same actions. It
/// allocates nothing after its construction, and the work of a step is bounded.
pub trait Policy: fmt::Debug + Send {
    /// Processes `event` at `now`, which never falls from step to step, and appends its decisions.
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions);

    /// The latest time at which it needs an [`Event::Tick`].
    fn next_timer(&self) -> Option<Instant>;

    /// Whether [`Event::Drain`] was received and every request has its verdict.
    fn drained(&self) -> bool;

    fn counters(&self, task: TaskId) -> &Counters;

    /// The number of open requests.
    fn open(&self) -> usize;

    /// The number of events that named a request or an action that is not open.
    fn stale_events(&self) -> u64;

    /// Recounts the policy's state between two steps.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Its state between two steps, for [`PolicySpec::restore`]; none if it cannot be kept. Allocates, unlike a step.
    fn state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Writes the same bytes without an allocation, and returns how many; none if there is no room for them.
    fn save_into(&self, _into: &mut [u8]) -> Option<usize> {
        None
    }

    /// How much of a task's network serves its frames at present.
    fn readiness(&self, _task: TaskId) -> TaskReadiness {
        TaskReadiness::Whole
    }

    /// The present factor on all budgets of a partition, in 1/65536.
    fn scale(&self, _partition: PartitionId) -> u64 {
        1 << 16
    }
}

/// How much of a task's network serves its frames, as devices say while a start goes on
/// ([`Event::Readiness`](crate::Event::Readiness)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskReadiness {
    /// Its mandatory exit cannot run: its frames are rejected.
    NotReady,
    /// Its frames are answered where promises to others leave time, as its network does not run as it was measured.
    Unmeasured,
    /// Its frames are served as planned, but only up to some of its exits.
    Shallow,
    /// All of its network runs as it was measured.
    Whole,
}

/// A policy's name and parameters: from it and a plan, the policy is built.
pub trait PolicySpec: fmt::Debug + Send + Sync {
    /// Its name in a manifest.
    fn name(&self) -> &'static str;

    /// A description in one line.
    fn summary(&self) -> &'static str;

    /// Its requirements on a plan, and its promises.
    fn contract(&self) -> Contract;

    /// Checks the parameters and the policy's other requirements on the plan.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn check(&self, _config: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Makes the policy for a plan that was checked.
    fn build(&self, config: &Config) -> Box<dyn Policy>;

    /// Makes a policy for the same plan with the [state](Policy::state) that another had: it takes the same decisions from there.
    ///
    /// # Errors
    /// If the policy keeps no state, or this is none of it and of this plan.
    fn restore(&self, _config: &Config, _state: &[u8]) -> Result<Box<dyn Policy>, StateError> {
        Err(StateError::NotKept {
            policy: self.name(),
        })
    }

    /// Turns the rule that a parameter breaks, if one does, into an error.
    ///
    /// # Errors
    /// [`ConfigError::Policy`] with that rule.
    fn obeys(&self, broken: Option<&'static str>) -> Result<(), ConfigError> {
        let policy = self.name();
        broken.map_or(Ok(()), |rule| Err(ConfigError::Policy { policy, rule }))
    }
}

/// The requirements of a policy on its plan, and its promises. The auditor checks a run against them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    pub partitioning: Partitioning,
    /// It promises deadlines, so its plan must pass the offline test.
    pub promises: bool,
    /// It loads weights when requests need them. A policy that does not needs all weights resident.
    pub pages_weights: bool,
    /// It runs networks as a whole: it answers no frame before all of its network can run.
    pub runs_whole: bool,
    /// It runs later stages of a batch at the size of the members that remain. Otherwise they run at the size of
    /// the first.
    pub shrinks_batches: bool,
    /// Stages may run on the places of their models ([`ModelConfig::places`](crate::ModelConfig::places)).
    pub lends: bool,
    /// How long before the end of an action the next may be handed to its partition; 0: only after the end.
    pub launch_lead: Nanos,
    /// The rule by which a model loses its promises; none: it never does.
    pub demotion: Option<DemotionRule>,
}

impl Contract {
    /// A policy that promises nothing and needs all weights resident.
    #[must_use]
    pub const fn best_effort(partitioning: Partitioning) -> Self {
        Self {
            partitioning,
            promises: false,
            pages_weights: false,
            runs_whole: true,
            shrinks_batches: true,
            lends: false,
            launch_lead: Nanos::ZERO,
            demotion: None,
        }
    }
}

/// When a model loses its promises, and when it gets them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemotionRule {
    /// The number of overruns that a model needs to lose its promises.
    pub overruns: u8,
    /// The number of newest stages that are examined for them.
    pub of: u8,
    /// The number of stages in a row within their budgets that reinstates the model.
    pub reinstate_after: u16,
}

/// The partitions that a policy expects in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// Disjoint ones, chosen by the author of the plan; each task is assigned to one.
    Planned,
    /// One with all compute units.
    Whole,
    /// Every contiguous range of compute units; the policy picks disjoint ones.
    Ranges,
    /// One for each task, each with all compute units: they run at the same time and share the units.
    PerTask,
}
