//! The front of all policies. The product's own is in `punctual`: start there.

use alloc::boxed::Box;

use crate::actions::Actions;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::ConfigError;
use crate::event::Event;
use crate::ids::{PartitionId, TaskId};
use crate::policy::{Policy, PolicySpec};
use crate::time::Instant;
use crate::validate;

/// All decisions of a daemon, made by one policy. Made once from a plan; allocates nothing afterwards.
#[derive(Debug)]
pub struct Scheduler {
    policy: Box<dyn Policy>,
}

impl Scheduler {
    /// Checks the plan's relations and makes all tables and queues.
    ///
    /// # Errors
    /// The first relation that does not hold; if the policy promises deadlines, among them the
    /// offline test of each partition.
    pub fn new(config: &Config, policy: &dyn PolicySpec) -> Result<Self, ConfigError> {
        validate::check(config, policy)?;
        Ok(Self {
            policy: policy.build(config),
        })
    }

    /// Learns of `event` at `now` and appends what to do about it to `actions` (which the caller
    /// has cleared). `now` never falls from step to step.
    ///
    /// # Panics
    /// If an arrival names a task that the plan does not have: the world broke its contract.
    pub fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.policy.step(now, event, actions);
    }

    /// When the scheduler wants an [`Event::Tick`] at the latest, if nothing else happens before.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.policy.next_timer()
    }

    /// Whether [`Event::Drain`] was received and every request has its verdict.
    #[must_use]
    pub fn drained(&self) -> bool {
        self.policy.drained()
    }

    /// What became of a task's requests.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn counters(&self, task: TaskId) -> &Counters {
        self.policy.counters(task)
    }

    /// Request buffers in use.
    #[must_use]
    pub fn open(&self) -> usize {
        self.policy.open()
    }

    /// Events that named a request or an action that is not open (any more). Anything but 0 is a fault of the world.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.policy.stale_events()
    }

    /// Recounts what the policy keeps account of, between two steps: for tests. Debug builds do so
    /// after each step by themselves.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        self.policy.check()
    }

    /// By how much all budgets of a partition are lengthened at present because stages run
    /// longer than profiled, in 1/65536 (65536: not at all).
    ///
    /// # Panics
    /// If there is no such partition.
    #[must_use]
    pub fn scale(&self, partition: PartitionId) -> u64 {
        self.policy.scale(partition)
    }
}
