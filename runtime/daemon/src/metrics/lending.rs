//! Where the stages of each task ran, counted for plans with places.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual_core::usage::{Ran, Tally};
use punctual_core::{Config, Nanos, PartitionId, TaskId};

/// A table of fixed size: by task, then by partition.
#[derive(Debug)]
pub struct LendingMetrics {
    partitions: usize,
    tallies: Box<[TallyMetrics]>,
}

#[derive(Debug, Default)]
struct TallyMetrics {
    stages: AtomicU64,
    busy_ns: AtomicU64,
    members: AtomicU64,
}

impl LendingMetrics {
    /// None without places: then each stage runs on the partition of its task.
    pub fn new(config: &Config) -> Option<Self> {
        let counts = || Self::with_counts(config.tasks.len(), config.partitions.len());
        config.has_places().then(counts)
    }

    pub fn with_counts(tasks: usize, partitions: usize) -> Self {
        let tallies = (0..tasks * partitions).map(|_| TallyMetrics::default());
        Self {
            partitions,
            tallies: tallies.collect(),
        }
    }

    /// A stage came to its end; its members were requests of these tasks.
    pub fn finished(&self, partition: PartitionId, tasks: &[TaskId], measured: Nanos) {
        for task in tasks {
            self.of(*task, partition).members.fetch_add(1, Relaxed);
        }
        if let Some(first) = tasks.first() {
            let tally = self.of(*first, partition);
            tally.stages.fetch_add(1, Relaxed);
            tally.busy_ns.fetch_add(measured.as_nanos(), Relaxed);
        }
    }

    pub fn tally(&self, task: TaskId, partition: PartitionId) -> Tally {
        let tally = self.of(task, partition);
        Tally {
            ran: Ran {
                stages: tally.stages.load(Relaxed),
                busy: Nanos::new(tally.busy_ns.load(Relaxed)),
            },
            members: tally.members.load(Relaxed),
        }
    }

    fn of(&self, task: TaskId, partition: PartitionId) -> &TallyMetrics {
        &self.tallies[task.index() * self.partitions + partition.index()]
    }
}
