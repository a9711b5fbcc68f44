//! What a device is started with: models, partitions, request buffers.

use std::ops::Range;

use punctual_core::BATCH_MAX;
use punctual_model::{Network, OutputLayout, SolutionChoice, WeightImage};
use thiserror::Error;

/// Everything a device must know before it is ready. Positions are the ids: `models[0]` is `ModelId(0)`.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSpec<'a> {
    /// The networks to load; borrowed during start only.
    pub models: &'a [ModelSpec<'a>],
    /// Sets of compute units. Two may share a core; the scheduler then never has both run at the same time.
    pub partitions: &'a [PartitionSpec],
    /// How many request buffers to hold (`Config::request_buffers`).
    pub request_buffers: u16,
    /// Where the weights of paged models come and go; none: there are no such models.
    pub cache: Option<CacheSpec>,
}

/// Memory for the weights of paged models, and the thread that fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// How many pages of [`PAGE_BYTES`](punctual_model::PAGE_BYTES) (`Config::pages`).
    pub pages: u32,
    /// The core of the thread that loads; none: wherever the kernel likes.
    pub core: Option<usize>,
    /// Its real-time priority (`SCHED_FIFO`); none for an ordinary thread.
    pub priority: Option<u8>,
}

/// One network and the batch sizes to prepare it for.
#[derive(Clone, Copy, Debug)]
pub struct ModelSpec<'a> {
    /// A validated network.
    pub network: &'a Network,
    /// Where the outputs that its tasks want go, in the area of each request that has one; none: nobody wants any.
    pub outputs: Option<&'a OutputLayout>,
    /// Batch sizes by rising size, the first being 1, none above [`BATCH_MAX`].
    pub batches: &'a [u8],
    /// Its packed weights for the device's vectors, as its package has them; none: packed at the
    /// start, and kept in memory if the model is paged.
    pub image: Option<&'a WeightImage>,
    /// Whether its weights come by [`Device::load`](crate::Device::load) and go by
    /// [`Device::unload`](crate::Device::unload), instead of being pinned.
    pub paged: bool,
    /// The solutions of its operators that were measured to be the fastest, prepared at the start;
    /// none: the general ones. A paged model always has the general ones, which need no weights
    /// beside those that come and go.
    pub solutions: &'a [SolutionChoice],
}

impl<'a> ModelSpec<'a> {
    /// A network whose weights are packed at the start and pinned, and whose outputs nobody wants.
    #[must_use]
    pub fn resident(network: &'a Network, batches: &'a [u8]) -> Self {
        Self {
            network,
            outputs: None,
            batches,
            image: None,
            paged: false,
            solutions: &[],
        }
    }

    pub fn validate_batches(&self) -> Result<(), SpecError> {
        let rising = self.batches.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = |&batch: &u8| usize::from(batch) <= BATCH_MAX;
        if rising && self.batches.first() == Some(&1) && self.batches.iter().all(fits) {
            return Ok(());
        }
        Err(SpecError::Batches {
            model: self.network.name.clone(),
            batches: self.batches.to_vec(),
        })
    }
}

/// The compute units of one partition, and the threads that serve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSpec {
    /// Its name, for the names of threads and messages.
    pub name: String,
    /// Core numbers of the machine: for a device on cores one worker each, the first being the
    /// leader; for a GPU the leader's alone.
    pub cores: Vec<usize>,
    /// For a GPU, its TPCs.
    pub tpcs: Range<u16>,
    /// Real-time priority of the workers (`SCHED_FIFO`); none for ordinary threads.
    pub priority: Option<u8>,
}

impl PartitionSpec {
    /// A partition of cores.
    pub fn on_cores(name: impl Into<String>, cores: Vec<usize>, priority: Option<u8>) -> Self {
        Self {
            name: name.into(),
            cores,
            tpcs: 0..0,
            priority,
        }
    }
}

/// What makes a spec unusable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// Nothing to run, or nowhere to run it.
    #[error("a device needs at least one {0}")]
    Empty(Part),
    /// A paged model, and nowhere to page it to.
    #[error("the weights of `{0}` are paged: give the device a cache for them")]
    NoCache(String),
    /// A partition without cores.
    #[error("partition `{0}` has no cores: give it at least one")]
    NoCores(String),
    /// A partition names a core twice.
    #[error("partition `{partition}` names core {core} twice")]
    CoreTwice {
        /// Which core.
        core: usize,
        /// Which partition.
        partition: String,
    },
    /// Batch sizes are not rising from 1, or exceed [`BATCH_MAX`].
    #[error("batch sizes {batches:?} of `{model}` must rise from 1 and not exceed {BATCH_MAX}")]
    Batches {
        /// The network's name.
        model: String,
        /// As given.
        batches: Vec<u8>,
    },
    /// More than ids can name.
    #[error("{count} {part}s; the limit is {limit}")]
    TooMany {
        /// Of what.
        part: Part,
        /// How many.
        count: usize,
        /// The most.
        limit: usize,
    },
}

/// A part of a spec, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A model.
    Model,
    /// A partition.
    Partition,
    /// A request buffer.
    RequestBuffer,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Model => "model",
            Self::Partition => "partition",
            Self::RequestBuffer => "request buffer",
        })
    }
}

impl DeviceSpec<'_> {
    /// Checks the rules that do not depend on the kind of device.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn validate(&self) -> Result<(), SpecError> {
        for (part, count, limit) in [
            (Part::Model, self.models.len(), usize::from(u16::MAX)),
            (Part::Partition, self.partitions.len(), usize::from(u8::MAX)),
            (
                Part::RequestBuffer,
                usize::from(self.request_buffers),
                usize::from(u16::MAX),
            ),
        ] {
            if count == 0 {
                return Err(SpecError::Empty(part));
            }
            if count > limit {
                return Err(SpecError::TooMany { part, count, limit });
            }
        }
        for model in self.models {
            model.validate_batches()?;
            if model.paged && self.cache.is_none() {
                return Err(SpecError::NoCache(model.network.name.clone()));
            }
        }
        for partition in self.partitions {
            let mut taken = std::collections::BTreeSet::new();
            if partition.cores.is_empty() {
                return Err(SpecError::NoCores(partition.name.clone()));
            }
            for &core in &partition.cores {
                if !taken.insert(core) {
                    return Err(SpecError::CoreTwice {
                        core,
                        partition: partition.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}
