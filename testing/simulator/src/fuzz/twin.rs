//! A policy and a copy of it that is made anew from its state, again and again: both must take the same decisions.

use std::sync::Arc;

use punctual_core::{
    Actions, Config, ConfigError, Contract, Counters, Event, Instant, PartitionId, Policy,
    PolicySpec, StateError, TaskId, TaskReadiness,
};

/// Any policy, with a twin. One that keeps no state is only stepped twice.
#[derive(Clone, Debug)]
pub struct Twinned {
    pub of: Arc<dyn PolicySpec>,
    /// After this many steps, at least 1, the twin is made anew.
    pub every: u64,
}

#[derive(Debug)]
struct Twins {
    spec: Arc<dyn PolicySpec>,
    config: Config,
    original: Box<dyn Policy>,
    twin: Box<dyn Policy>,
    decided: Actions,
    every: u64,
    steps: u64,
}

impl PolicySpec for Twinned {
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
        Box::new(Twins {
            spec: Arc::clone(&self.of),
            config: config.clone(),
            original: self.of.build(config),
            twin: self.of.build(config),
            decided: Actions::for_config(config),
            every: self.every,
            steps: 0,
        })
    }
}

impl Twins {
    /// Makes the twin anew, if the policy keeps its state.
    fn renew(&mut self) -> Result<(), StateError> {
        if let Some(state) = self.original.state() {
            self.twin = self.spec.restore(&self.config, &state)?;
            assert_eq!(
                self.twin.state(),
                Some(state),
                "what was restored is the same"
            );
        }
        Ok(())
    }
}

impl Policy for Twins {
    fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        self.original.step(now, event, actions);
        self.decided.clear();
        self.twin.step(now, event, &mut self.decided);
        assert!(
            self.decided.iter().eq(actions.iter()),
            "after {event:?}: {:?} instead of {actions:?}",
            self.decided
        );
        assert_eq!(self.twin.next_timer(), self.original.next_timer());
        self.steps += 1;
        if self.steps.is_multiple_of(self.every) {
            self.renew().expect("a state of this plan");
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.original.next_timer()
    }

    fn drained(&self) -> bool {
        self.original.drained()
    }

    fn counters(&self, task: TaskId) -> &Counters {
        self.original.counters(task)
    }

    fn open(&self) -> usize {
        self.original.open()
    }

    fn stale_events(&self) -> u64 {
        self.original.stale_events()
    }

    fn check(&self) -> Result<(), &'static str> {
        self.original.check()
    }

    fn readiness(&self, task: TaskId) -> TaskReadiness {
        assert_eq!(self.twin.readiness(task), self.original.readiness(task));
        self.original.readiness(task)
    }

    fn scale(&self, partition: PartitionId) -> u64 {
        assert_eq!(self.twin.scale(partition), self.original.scale(partition));
        self.original.scale(partition)
    }
}
