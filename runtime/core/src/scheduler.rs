//! The interface of all policies to the daemon and the simulator. The product's policy is in `punctual`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::actions::Actions;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::{ConfigError, StateError};
use crate::event::Event;
use crate::ids::{PartitionId, TaskId};
use crate::policy::{Policy, PolicySpec, TaskReadiness};
use crate::time::Instant;
use crate::validate;

/// Takes all decisions of a daemon, by one policy. It is made once from a plan and allocates nothing afterwards.
#[derive(Debug)]
pub struct Scheduler {
    policy: Box<dyn Policy>,
}

impl Scheduler {
    /// Checks the plan and makes the policy's tables and queues.
    ///
    /// # Errors
    /// The first relation that does not hold. If the policy promises deadlines, the offline test of each
    /// partition is one of them.
    pub fn new(config: &Config, policy: &dyn PolicySpec) -> Result<Self, ConfigError> {
        validate::check(config, policy)?;
        Ok(Self {
            policy: policy.build(config),
        })
    }

    /// Makes one with the [state](Self::state) that another of the same plan and policy had: from there both take the same
    /// decisions.
    ///
    /// # Errors
    /// Those of [`new`](Self::new); or the policy keeps no state, or this is none of this plan.
    pub fn restore(
        config: &Config,
        policy: &dyn PolicySpec,
        state: &[u8],
    ) -> Result<Self, StateError> {
        validate::check(config, policy)?;
        Ok(Self {
            policy: policy.restore(config, state)?,
        })
    }

    /// The state between two steps, as bytes that only the same version of this crate reads; none if the policy keeps none.
    /// Allocates, unlike a step.
    #[must_use]
    pub fn state(&self) -> Option<Vec<u8>> {
        self.policy.state()
    }

    /// Writes the [state](Self::state) without an allocation, and returns how many bytes it has; none if there is no room for them,
    /// or the policy keeps none.
    #[must_use]
    pub fn save_into(&self, into: &mut [u8]) -> Option<usize> {
        self.policy.save_into(into)
    }

    /// Processes `event` at `now` and appends its decisions to `actions`, which the caller has cleared. `now` never
    /// falls from step to step.
    ///
    /// # Panics
    /// If an arrival names a task that the plan does not have: the daemon checks this.
    pub fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.policy.step(now, event, actions);
    }

    /// The latest time at which the scheduler needs an [`Event::Tick`], if no other event comes before.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.policy.next_timer()
    }

    /// Whether [`Event::Drain`] was received and every request has its verdict.
    #[must_use]
    pub fn drained(&self) -> bool {
        self.policy.drained()
    }

    /// The counts of a task's requests.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn counters(&self, task: TaskId) -> &Counters {
        self.policy.counters(task)
    }

    /// The number of open requests.
    #[must_use]
    pub fn open(&self) -> usize {
        self.policy.open()
    }

    /// The number of events that named a request or an action that is not open. A correct daemon has none.
    #[must_use]
    pub fn stale_events(&self) -> u64 {
        self.policy.stale_events()
    }

    /// Recounts the policy's state between two steps, for tests. Debug builds do this after each step.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        self.policy.check()
    }

    /// How much of a task's network serves its frames at present.
    ///
    /// # Panics
    /// If there is no such task.
    #[must_use]
    pub fn readiness(&self, task: TaskId) -> TaskReadiness {
        self.policy.readiness(task)
    }

    /// The present factor on all budgets of a partition, in 1/65536. Above 65536, stages run longer than profiled.
    ///
    /// # Panics
    /// If there is no such partition.
    #[must_use]
    pub fn scale(&self, partition: PartitionId) -> u64 {
        self.policy.scale(partition)
    }
}
