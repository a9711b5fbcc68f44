//! The policies: ways to decide, one of them chosen by [`Config::policy`](crate::Config::policy).
//!
//! `punctual` is the product's own. The others are what published systems and servers do, each as
//! its source describes it, so that they can be compared on the same plans, in simulation and on
//! a board. They make no promises: their plans need not pass the offline test.

mod batch;
mod branchynet;
mod clipper;
mod clockwork;
mod deeprt;
mod desk;
mod edgeserving;
mod gslice;
mod lines;
mod nexus;
mod pages;
pub(crate) mod punctual;
mod ranges;
mod seeb;
mod seq;
mod streams;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timeline;

use alloc::boxed::Box;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::actions::Actions;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::ConfigError;
use crate::event::Event;
use crate::ids::{PartitionId, TaskId};
use crate::time::Instant;

use batch::Batch;
pub use batch::BatchConfig;
use branchynet::Branchynet;
pub use branchynet::BranchynetConfig;
use clipper::Clipper;
pub use clipper::ClipperConfig;
use clockwork::Clockwork;
pub use clockwork::ClockworkConfig;
pub use deeprt::DeeprtConfig;
use desk::Baseline;
pub use edgeserving::EdgeservingConfig;
pub use gslice::GsliceConfig;
use nexus::Nexus;
pub use nexus::{NexusConfig, NexusDrop};
use punctual::Punctual;
pub use punctual::PunctualConfig;
use ranges::Ranges;
pub use seeb::{LatencyModel, SeebBatch, SeebConfig, fit, seeb_shares};
use seq::Seq;
pub use seq::SeqConfig;
use streams::Streams;
pub use streams::StreamsConfig;

/// Which policy decides, with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PolicyConfig {
    /// Mandatory first, then as deep as time allows: the default.
    Punctual(PunctualConfig),
    /// Batches and transfers chosen centrally by predicted times (Clockwork).
    Clockwork(ClockworkConfig),
    /// A dynamic batcher (Triton).
    Batch(BatchConfig),
    /// Early exit at a fixed threshold (BranchyNet).
    Branchynet(BranchynetConfig),
    /// Batch sizes found by trial, lazy drop (Clipper).
    Clipper(ClipperConfig),
    /// Sessions in turn, early drop (Nexus).
    Nexus(NexusConfig),
    /// One request at a time (REEF's first baseline).
    Seq(SeqConfig),
    /// All tasks at the same time on the whole device (REEF's second baseline).
    Streams(StreamsConfig),
    /// Ranges of TPCs, batch sizes and confidence thresholds by a fitted latency model (SEEB-GPU).
    Seeb(SeebConfig),
    /// Windows of frames, released as jobs, earliest deadline first (DeepRT).
    Deeprt(DeeprtConfig),
    /// A share of the device and a batch size a model, adapted each epoch (GSLICE).
    Gslice(GsliceConfig),
    /// The model, exit and batch that endanger the fewest deadlines (EdgeServing).
    Edgeserving(EdgeservingConfig),
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self::Punctual(PunctualConfig::default())
    }
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

impl PolicyConfig {
    /// Every policy with its default parameters.
    #[must_use]
    pub fn all() -> alloc::vec::Vec<Self> {
        alloc::vec![
            Self::Punctual(PunctualConfig::default()),
            Self::Seeb(SeebConfig::default()),
            Self::Clockwork(ClockworkConfig::default()),
            Self::Batch(BatchConfig::default()),
            Self::Deeprt(DeeprtConfig::default()),
            Self::Gslice(GsliceConfig::default()),
            Self::Branchynet(BranchynetConfig::default()),
            Self::Clipper(ClipperConfig::default()),
            Self::Nexus(NexusConfig::default()),
            Self::Edgeserving(EdgeservingConfig::default()),
            Self::Seq(SeqConfig::default()),
            Self::Streams(StreamsConfig::default()),
        ]
    }

    /// The policy of that name with its default parameters.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|policy| policy.name() == name)
    }

    /// Its name, as in a manifest.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Punctual(_) => "punctual",
            Self::Clockwork(_) => "clockwork",
            Self::Batch(_) => "batch",
            Self::Branchynet(_) => "branchynet",
            Self::Clipper(_) => "clipper",
            Self::Nexus(_) => "nexus",
            Self::Seq(_) => "seq",
            Self::Streams(_) => "streams",
            Self::Seeb(_) => "seeb",
            Self::Deeprt(_) => "deeprt",
            Self::Gslice(_) => "gslice",
            Self::Edgeserving(_) => "edgeserving",
        }
    }

    /// What it does, in a line.
    #[must_use]
    pub const fn summary(&self) -> &'static str {
        match self {
            Self::Punctual(_) => "mandatory first, then as deep as time allows",
            Self::Clockwork(_) => {
                "only what will end in time, by the times of the last ten runs (Clockwork)"
            }
            Self::Batch(_) => "a dynamic batcher without deadlines (Triton)",
            Self::Branchynet(_) => {
                "early exit at a fixed threshold, without deadlines (BranchyNet)"
            }
            Self::Clipper(_) => "batch sizes found by trial, lazy drop (Clipper)",
            Self::Nexus(_) => "sessions in turn, planned batch sizes, early drop (Nexus)",
            Self::Seq(_) => "one request at a time, real-time first (REEF's baseline)",
            Self::Streams(_) => "all tasks at once, sharing the device (REEF's baseline)",
            Self::Seeb(_) => "TPC ranges, batch and threshold by a fitted latency model (SEEB-GPU)",
            Self::Deeprt(_) => "windows of frames as jobs, earliest deadline first (DeepRT)",
            Self::Gslice(_) => "a share of the device a model, adapted each epoch (GSLICE)",
            Self::Edgeserving(_) => "the model, exit and batch that endanger least (EdgeServing)",
        }
    }

    /// What partitions it expects.
    #[must_use]
    pub const fn partitioning(&self) -> Partitioning {
        match self {
            Self::Punctual(_) => Partitioning::Planned,
            Self::Batch(_)
            | Self::Branchynet(_)
            | Self::Clipper(_)
            | Self::Clockwork(_)
            | Self::Deeprt(_)
            | Self::Edgeserving(_)
            | Self::Nexus(_)
            | Self::Seq(_) => Partitioning::Whole,
            Self::Streams(_) => Partitioning::PerTask,
            Self::Seeb(SeebConfig {
                tpc_masks: false, ..
            }) => Partitioning::PerTask,
            Self::Seeb(_) | Self::Gslice(_) => Partitioning::Ranges,
        }
    }

    /// Whether it promises deadlines, so that its plan must pass the offline test.
    #[must_use]
    pub const fn promises(&self) -> bool {
        matches!(self, Self::Punctual(_))
    }

    /// Whether it brings weights to the device when they are wanted; the others need them all
    /// resident.
    #[must_use]
    pub const fn pages_weights(&self) -> bool {
        matches!(self, Self::Clockwork(_) | Self::Punctual(_))
    }

    /// Checks the parameters, and that the plan has the partitions that it expects.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub(crate) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        if self.partitioning() == Partitioning::Ranges
            && let Some(units) = Ranges::new(config).missing()
        {
            let policy = self.name();
            return Err(ConfigError::MissingRange { policy, units });
        }
        let broken = match self {
            Self::Punctual(rules) => rules.broken_rule(),
            Self::Seeb(rules) => rules.broken_rule(),
            Self::Gslice(rules) => rules.broken_rule(),
            Self::Batch(rules) => rules.broken_rule(),
            Self::Branchynet(rules) => rules.broken_rule(),
            Self::Clipper(rules) => rules.broken_rule(),
            Self::Nexus(rules) => rules.broken_rule(config.tasks.len()),
            _ => None,
        };
        let policy = self.name();
        broken.map_or(Ok(()), |rule| Err(ConfigError::Policy { policy, rule }))
    }

    /// Makes the policy for a plan that has been checked.
    pub(crate) fn build(&self, config: &Config) -> Box<dyn Policy + Send> {
        match self {
            Self::Punctual(parameters) => Box::new(Punctual::from_plan(config, *parameters)),
            Self::Clockwork(parameters) => {
                Box::new(Baseline::new(config, Clockwork::new(config, parameters)))
            }
            Self::Batch(p) => Box::new(Baseline::new(config, Batch::new(config, p))),
            Self::Branchynet(p) => Box::new(Baseline::new(config, Branchynet::new(config, p))),
            Self::Clipper(p) => Box::new(Baseline::new(config, Clipper::new(config, p))),
            Self::Nexus(p) => Box::new(Baseline::new(config, Nexus::new(config, p))),
            Self::Seq(_) => Box::new(Baseline::new(config, Seq::new(config))),
            Self::Streams(_) => Box::new(Baseline::new(config, Streams::new(config))),
            Self::Seeb(p) => Box::new(Baseline::new(config, seeb::Seeb::new(config, p))),
            Self::Deeprt(p) => Box::new(Baseline::new(config, deeprt::Deeprt::new(config, p))),
            Self::Gslice(p) => Box::new(Baseline::new(config, gslice::Gslice::new(config, p))),
            Self::Edgeserving(_) => {
                Box::new(Baseline::new(config, edgeserving::Edgeserving::new(config)))
            }
        }
    }
}

/// Decides. Same plan, same events, same actions; nothing is allocated after construction, and
/// the work of a step is bounded.
pub(crate) trait Policy: fmt::Debug {
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

    /// By how much budgets are lengthened at present, in 1/65536.
    fn scale(&self, _partition: PartitionId) -> u64 {
        1 << 16
    }
}
