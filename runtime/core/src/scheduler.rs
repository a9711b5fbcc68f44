//! The scheduler's dispatch of events. Start here.

use crate::actions::Actions;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::ConfigError;
use crate::event::Event;
use crate::ids::TaskId;
use crate::time::Instant;

/// All decisions of a daemon. Made once from the plan; allocates nothing afterwards.
#[derive(Clone, Debug)]
pub struct Scheduler {
    counters: alloc::boxed::Box<[Counters]>,
    draining: bool,
}

impl Scheduler {
    /// Checks the plan's relations and makes all tables and queues.
    ///
    /// # Errors
    /// The first relation that does not hold; among them the offline test of each partition.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        if config.partitions.is_empty() {
            return Err(ConfigError::NoPartition);
        }
        Ok(Self {
            counters: alloc::vec![Counters::default(); config.tasks.len()].into(),
            draining: false,
        })
    }

    /// Learns of `event` at `now` and appends what to do about it to `actions` (which the caller
    /// has cleared). `now` never falls from step to step.
    pub fn step(&mut self, now: Instant, event: &Event, actions: &mut Actions) {
        let _ = (now, actions);
        if *event == Event::Drain {
            self.draining = true;
        }
    }

    /// When the scheduler wants an [`Event::Tick`] at the latest, if nothing else happens before.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Whether [`Event::Drain`] was received and every request has its verdict.
    #[must_use]
    pub fn drained(&self) -> bool {
        self.draining
    }

    /// What became of a task's requests.
    #[must_use]
    pub fn counters(&self, task: TaskId) -> &Counters {
        &self.counters[task.index()]
    }
}
