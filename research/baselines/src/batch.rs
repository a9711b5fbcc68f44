//! `batch`: Triton's dynamic batcher (NVIDIA Triton Inference Server, user guide, "Dynamic
//! Batcher"). Requests of a model queue in order of arrival. When the device is free:
//!
//! 1. if a preferred size is waiting, the largest such batch is sent;
//! 2. otherwise, if a queue delay is set and no request has waited that long, it waits for more;
//! 3. otherwise as many as there are, up to the largest batch, are sent.
//!
//! Left open by the source, or for several instances there: which model goes first on the one
//! device that we have (here: whose first request came first). With a delay and no preferred size,
//! the largest batch is the preferred one. Deadlines are not looked at: the server's default has
//! no timeout, so late answers are given late. Networks run to the last exit.

use serde::{Deserialize, Serialize};

use crate::lines::{Line, Lines};
use punctual_core::{
    Actions, BATCH_MAX, Config, ConfigError, Contract, Instant, Nanos, Partitioning, Policy,
    PolicySpec, Rejection, SPAN_MAX,
};
use punctual_policy_seeb::batch_runner::{Baseline, BaselineRules, BatchRunner};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct BatchConfig {
    /// Batch sizes: a batch of such a size is sent as soon as that number of requests waits
    /// (`preferred_batch_size`); none: any number is as good as any other.
    pub preferred: Vec<u8>,
    /// How long a request may be kept waiting for a batch to fill, in nanoseconds
    /// (`max_queue_delay_microseconds`); 0: never.
    pub max_queue_delay: Nanos,
}

impl PolicySpec for BatchConfig {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn summary(&self) -> &'static str {
        "a dynamic batcher without deadlines (Triton)"
    }

    fn contract(&self) -> Contract {
        Contract::best_effort(Partitioning::Whole)
    }

    fn check(&self, _config: &Config) -> Result<(), ConfigError> {
        self.obeys(self.broken_rule())
    }

    fn build(&self, config: &Config) -> Box<dyn Policy> {
        Baseline::boxed(config, self, Batch::new(config, self))
    }
}

impl BatchConfig {
    /// The first rule that a parameter breaks.
    fn broken_rule(&self) -> Option<&'static str> {
        let possible = |size: &u8| (1..=BATCH_MAX).contains(&usize::from(*size));
        if !self.preferred.iter().all(possible) {
            return Some("preferred: each must be 1 to 32");
        }
        (self.max_queue_delay > SPAN_MAX).then_some("max-queue-delay must be at most an hour")
    }
}

#[derive(Debug)]
struct Batch {
    lines: Lines,
    sizes: Sizes,
}

/// How many to send, and how long to wait for more.
#[derive(Debug)]
struct Sizes {
    preferred: Box<[u8]>,
    max_queue_delay: Nanos,
    /// When the request in each buffer was queued.
    since: Box<[Instant]>,
}

impl Batch {
    fn new(config: &Config, parameters: &BatchConfig) -> Self {
        Self {
            lines: Lines::by_model(config),
            sizes: Sizes {
                preferred: parameters.preferred.clone().into(),
                max_queue_delay: parameters.max_queue_delay,
                since: vec![Instant::ZERO; usize::from(config.request_buffers)].into(),
            },
        }
    }
}

impl Sizes {
    /// How many of a line to send now; none: wait for more.
    fn send(&self, runner: &BatchRunner, line: &Line) -> Option<usize> {
        let waiting = line.len().min(line.batch_max);
        let preferred = self.preferred.iter().map(|&size| usize::from(size));
        let largest = preferred.filter(|&size| size <= waiting).max();
        if largest.is_some() {
            return largest;
        }
        let full = waiting == line.batch_max;
        (full || self.patience_ends(line)? <= runner.now).then_some(waiting)
    }

    /// When the first of a line has waited long enough.
    fn patience_ends(&self, line: &Line) -> Option<Instant> {
        Some(self.since[usize::from(line.head()?)] + self.max_queue_delay)
    }
}

impl BaselineRules for Batch {
    fn enqueue(&mut self, runner: &BatchRunner, buffer: u16) -> Result<(), Rejection> {
        self.sizes.since[usize::from(buffer)] = runner.now;
        self.lines.insert(runner, buffer);
        Ok(())
    }

    fn forget(&mut self, runner: &BatchRunner, buffer: u16) {
        self.lines.remove(runner, buffer);
    }

    fn dispatch(&mut self, runner: &mut BatchRunner, actions: &mut Actions) {
        let sizes = &self.sizes;
        self.lines
            .serve(runner, true, actions, |lines, runner, partition| {
                lines.oldest(runner, partition, |_, line| sizes.send(runner, line))
            });
    }

    /// On a partition that is busy, waiting has no end.
    fn next_timer(&self, runner: &BatchRunner) -> Option<Instant> {
        let waiting = self
            .lines
            .iter()
            .filter(|line| runner.is_free(line.partition));
        waiting
            .filter_map(|line| self.sizes.patience_ends(line))
            .min()
    }
}
