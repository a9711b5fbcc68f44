//! A policy that is made anew from its state each few steps, if it keeps one: a run must not show it.

use std::sync::Arc;

use punctual_core::{
    Actions, Config, ConfigError, Contract, Counters, Event, Instant, PartitionId, Policy,
    PolicySpec, TaskId,
};

#[derive(Clone, Debug)]
pub struct Reborn {
    pub of: Arc<dyn PolicySpec>,
    /// Steps of a life; at least 1.
    pub every: u64,
}

#[derive(Debug)]
struct Lives {
    of: Arc<dyn PolicySpec>,
    config: Config,
    policy: Box<dyn Policy>,
    every: u64,
    steps: u64,
}

impl PolicySpec for Reborn {
    fn name(&self) -> &'static str {
        self.of.name()
    }

    fn summary(&self) -> &'static str {
        self.of.summary()
    }

    fn contract(&self) -> Contract {
        self.of.contract()
    }

    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        self.of.check(config)
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Box::new(Lives {
            of: Arc::clone(&self.of),
            config: config.clone(),
            policy: self.of.build(config),
            every: self.every,
            steps: 0,
        })
    }
}

impl Policy for Lives {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.policy.step(now, event, actions);
        self.steps += 1;
        if self.steps.is_multiple_of(self.every)
            && let Some(state) = self.policy.state()
        {
            let restored = self.of.restore(&self.config, &state);
            self.policy = restored.expect("a state of this plan and policy");
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.policy.next_timer()
    }

    fn drained(&self) -> bool {
        self.policy.drained()
    }

    fn counters(&self, task: TaskId) -> &Counters {
        self.policy.counters(task)
    }

    fn open(&self) -> usize {
        self.policy.open()
    }

    fn stale_events(&self) -> u64 {
        self.policy.stale_events()
    }

    fn check(&self) -> Result<(), &'static str> {
        self.policy.check()
    }

    fn scale(&self, partition: PartitionId) -> u64 {
        self.policy.scale(partition)
    }
}
