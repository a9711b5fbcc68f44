//! The seam between the scheduler and who decides: a policy, and what a plan has to know of it before it is built.
//!
//! This crate's own is [`punctual`](crate::PunctualConfig). Others live in crates of their own and need
//! nothing of this one but what it exports.

use alloc::boxed::Box;
use core::fmt;

use crate::actions::Actions;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::ConfigError;
use crate::event::Event;
use crate::ids::{PartitionId, TaskId};
use crate::time::{Instant, Nanos};

/// Decides. Same plan, same events, same actions; nothing is allocated after construction, and
/// the work of a step is bounded.
pub trait Policy: fmt::Debug + Send {
    /// Learns of `event` at `now` (never falling) and appends what to do about it.
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions);

    /// When it wants an [`Event::Tick`] at the latest.
    fn next_timer(&self) -> Option<Instant>;

    /// Whether [`Event::Drain`] was received and every request has its verdict.
    fn drained(&self) -> bool;

    /// What became of a task's requests.
    fn counters(&self, task: TaskId) -> &Counters;

    /// Request buffers in use.
    fn open(&self) -> usize;

    /// Events that named something that is not open.
    fn stale_events(&self) -> u64;

    /// Recounts what the policy keeps account of, between two steps.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// By how much budgets are lengthened at present, in 1/65536.
    fn scale(&self, _partition: PartitionId) -> u64 {
        1 << 16
    }
}

/// A policy's name and parameters: from it and a plan, the policy is built.
pub trait PolicySpec: fmt::Debug + Send + Sync {
    /// Its name in a manifest.
    fn name(&self) -> &'static str;

    /// What it does, in a line.
    fn summary(&self) -> &'static str;

    /// What it asks of a plan, and what it may be held to.
    fn contract(&self) -> Contract;

    /// Checks the parameters, and what else the policy asks of the plan.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn check(&self, _config: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Makes the policy for a plan that has been checked.
    fn build(&self, config: &Config) -> Box<dyn Policy>;

    /// The error for a parameter that breaks a rule of its own, if one does.
    ///
    /// # Errors
    /// That error.
    fn obeys(&self, broken: Option<&'static str>) -> Result<(), ConfigError> {
        let policy = self.name();
        broken.map_or(Ok(()), |rule| Err(ConfigError::Policy { policy, rule }))
    }
}

/// What a policy asks of its plan and may be held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// What partitions it expects.
    pub partitioning: Partitioning,
    /// It promises deadlines, so its plan must pass the offline test.
    pub promises: bool,
    /// It brings weights to the device when they are wanted; a policy that does not needs them all resident.
    pub pages_weights: bool,
    /// A batch shrinks as members leave it; otherwise its last stage costs as much as the first.
    pub shrinks_batches: bool,
    /// How long before the end of an action the next may be handed to its partition; 0: not before it has ended.
    pub launch_lead: Nanos,
    /// When a model loses its promises; none: never.
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
            shrinks_batches: true,
            launch_lead: Nanos::ZERO,
            demotion: None,
        }
    }
}

/// When a model loses its promises, and how it gets them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemotionRule {
    /// So many overruns
    pub overruns: u8,
    /// in so many stages cost a model its promises.
    pub of: u8,
    /// So many stages in a row within their budgets bring them back.
    pub reinstate_after: u16,
}

/// What partitions a policy expects in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// Disjoint ones, as whoever made the plan found best, each task assigned to one.
    Planned,
    /// One of all compute units.
    Whole,
    /// Every contiguous range of compute units; the policy picks disjoint ones.
    Ranges,
    /// One a task, each of all compute units: they run at the same time and share them.
    PerTask,
}
