//! What a device is started with: models, partitions, request buffers.

use std::num::NonZeroU32;
use std::ops::Range;

use punctual_core::{BATCH_MAX, ModelId};
use punctual_model::{Network, OutputLayout, SolutionChoice, WeightImage};
use thiserror::Error;

/// Everything a device must know before it is ready. Positions are the ids: `models[0]` is `ModelId(0)`.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSpec<'a> {
    /// The networks to load; borrowed during start only.
    pub models: &'a [ModelSpec<'a>],
    /// Sets of compute units. Two may share a core or a TPC; the scheduler then never has both run at the same time.
    pub partitions: &'a [PartitionSpec],
    /// How many request buffers to hold (`Config::request_buffers`).
    pub request_buffers: u16,
    /// Where the weights of paged models come and go; none: there are no such models.
    pub cache: Option<CacheSpec>,
    /// Whether the pinned models are there when the device is, or come afterwards.
    pub start: Start<'a>,
}

/// When a device has its pinned models. Paged ones come by [`Device::load`](crate::Device::load) in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start<'a> {
    /// All of them are there, as they were measured, when the device is. No [`Event::Readiness`] says so.
    ///
    /// [`Event::Readiness`]: punctual_core::Event::Readiness
    #[default]
    Whole,
    /// The device is there at once, and loads step after step while it serves what is there already; then what no step
    /// names, model after model. [`cache`](DeviceSpec::cache) says which thread loads, also where no model is paged;
    /// without one it is an ordinary thread, wherever the kernel likes.
    ///
    /// It says how far it is by [`Event::Readiness`], of each model in the order in which that becomes true:
    /// - With `stages: 0` first, of every model that comes in turn; these events are there when the device is, so that
    ///   a caller that polls until there is none knows of all.
    /// - After each stage whose weights and code are there; a stage that needs nothing more than the ones before it may
    ///   be said with them. `stages` never falls.
    /// - `as_measured` is false as long as a solution that was chosen by measuring for one of these stages is not
    ///   prepared and a general one stands in for it. They are prepared before a step that names a model again, and
    ///   at the end: so what mandatory stages need, named first, is there before the rest is loaded. It may become
    ///   false again with a further stage. The last event of a model that was loaded says all of its stages,
    ///   `as_measured`.
    /// - `stays_general` is true once such a solution cannot be loaded: the general one stays for as long as the device serves.
    ///
    /// An action of a stage that is not there is refused ([`SubmitError::StageNotReady`]). If something of a model
    /// cannot be loaded, a [`LoadFailure`] says why; the model stays at the stages that it has, and the others go on.
    ///
    /// A device that cannot load in turn starts whole: no event of it is about readiness, and until there is one of a
    /// model, all of it runs.
    ///
    /// [`Event::Readiness`]: punctual_core::Event::Readiness
    /// [`SubmitError::StageNotReady`]: crate::SubmitError::StageNotReady
    /// [`LoadFailure`]: crate::weights::LoadFailure
    InTurn {
        steps: &'a [StartStep],
        /// What it writes at most while stages run one after the other without a gap; none: what the device takes for
        /// harmless.
        rate: Option<LoadRate>,
    },
}

impl<'a> Start<'a> {
    /// In turn, at the device's own rate.
    #[must_use]
    pub const fn in_turn(steps: &'a [StartStep]) -> Self {
        Self::InTurn { steps, rate: None }
    }

    /// The rate that was asked for.
    #[must_use]
    pub const fn rate(self) -> Option<LoadRate> {
        match self {
            Self::Whole => None,
            Self::InTurn { rate, .. } => rate,
        }
    }
}

/// How fast a start in turn goes on while stages run, in 10^6 bytes a second: what it writes takes memory bandwidth from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRate(NonZeroU32);

impl LoadRate {
    #[must_use]
    pub const fn of_mb_per_s(mb_per_s: NonZeroU32) -> Self {
        Self(mb_per_s)
    }

    /// When the next piece is due, in ns, if one of `bytes` was begun at `begun_ns`.
    #[must_use]
    pub const fn due_ns(self, begun_ns: u64, bytes: u64) -> u64 {
        begun_ns.saturating_add(bytes.saturating_mul(1_000) / self.0.get() as u64)
    }
}

/// A step of a start in turn: load a model's first stages, as far as earlier steps have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartStep {
    pub model: ModelId,
    /// How many of its first stages; all, if it has fewer.
    pub stages: u8,
}

/// Memory for the weights of paged models, and the thread that fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// How many pages of [`PAGE_BYTES`](punctual_model::PAGE_BYTES) (`Config::pages`); 0 if the thread only serves a
    /// start in turn.
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
    /// Where the outputs that its tasks want go, in the area of each request that has one; none: no outputs are wanted.
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
    /// in addition to those that come and go.
    pub solutions: &'a [SolutionChoice],
    /// Whether memory that a stage has to write before it reads it is overwritten before each of its runs, for
    /// verification; it takes time. Other devices' memory stays as it is ([`Provider::POISONS`](crate::Provider::POISONS)).
    pub poisoned: bool,
}

impl<'a> ModelSpec<'a> {
    /// A network whose weights are packed at the start and pinned, and whose outputs are not wanted.
    #[must_use]
    pub fn resident(network: &'a Network, batches: &'a [u8]) -> Self {
        Self {
            network,
            outputs: None,
            batches,
            image: None,
            paged: false,
            solutions: &[],
            poisoned: false,
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
    /// leader; for a GPU the leader's alone. Partitions of a GPU that name the same core share one leader.
    pub cores: Vec<usize>,
    /// For a GPU, its TPCs.
    pub tpcs: Range<u16>,
    /// Real-time priority of the workers (`SCHED_FIFO`); none for ordinary threads.
    pub priority: Option<u8>,
    /// The largest batch that may run here; none: the largest of the models. A GPU's workspaces are sized for it.
    pub batch_max: Option<u8>,
}

impl PartitionSpec {
    /// A partition of cores.
    pub fn on_cores(name: impl Into<String>, cores: Vec<usize>, priority: Option<u8>) -> Self {
        Self {
            name: name.into(),
            cores,
            tpcs: 0..0,
            priority,
            batch_max: None,
        }
    }

    /// Whether one leader serves both: on a GPU, those that name the same core. A leader there polls while a stage
    /// runs, so a second one on its core would take its time. Partitions of cores each have their own team, whose
    /// threads sleep while others run.
    #[must_use]
    pub fn shares_leader_with(&self, other: &Self) -> bool {
        let on_gpu = !self.tpcs.is_empty() && !other.tpcs.is_empty();
        on_gpu && self.cores.first() == other.cores.first()
    }

    /// Whether a batch of this size may run here.
    #[must_use]
    pub fn takes_batch(&self, batch: u8) -> bool {
        self.batch_max.is_none_or(|most| batch <= most)
    }

    fn check_leader(&self, before: &Self, core: usize) -> Result<(), SpecError> {
        let (first, second) = (before.name.clone(), self.name.clone());
        if self.priority != before.priority {
            return Err(SpecError::LeaderPriorities {
                core,
                first,
                second,
            });
        }
        Ok(())
    }
}

/// What makes a spec unusable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// Nothing to run, or nowhere to run it.
    #[error("a device needs at least one {0}")]
    Empty(Part),
    /// A step of the start loads a model that there is not.
    #[error("the start loads model {}, and there are {models}: name one of them", .model.0)]
    StartsUnknown {
        model: ModelId,
        /// How many there are.
        models: usize,
    },
    /// A paged model, and nowhere to page it to.
    #[error("the weights of `{0}` are paged: give the device a cache for them")]
    NoCache(String),
    /// A partition without cores.
    #[error("partition `{0}` has no cores: give it at least one")]
    NoCores(String),
    /// A partition names a core twice.
    #[error("partition `{partition}` names core {core} twice")]
    CoreTwice { core: usize, partition: String },
    /// One leader cannot have two priorities.
    #[error(
        "partitions `{first}` and `{second}` share the leader on core {core} and have different priorities: give both \
         the same"
    )]
    LeaderPriorities {
        /// Of the leader.
        core: usize,
        /// Which partition.
        first: String,
        /// Which other one.
        second: String,
    },
    /// A partition on which nothing may run.
    #[error("the largest batch of partition `{0}` is 0: set `batch_max` to 1 or more")]
    NoBatch(String),
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
        part: Part,
        count: usize,
        limit: usize,
    },
}

/// A part of a spec, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Model,
    Partition,
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
            (
                Part::Partition,
                self.partitions.len(),
                usize::from(u16::MAX),
            ),
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
        self.validate_start()?;
        self.validate_partitions()
    }

    fn validate_start(&self) -> Result<(), SpecError> {
        let Start::InTurn { steps, .. } = self.start else {
            return Ok(());
        };
        let models = self.models.len();
        let unknown = steps.iter().find(|step| step.model.index() >= models);
        unknown.map_or(Ok(()), |&StartStep { model, .. }| {
            Err(SpecError::StartsUnknown { model, models })
        })
    }

    fn validate_partitions(&self) -> Result<(), SpecError> {
        for (index, partition) in self.partitions.iter().enumerate() {
            let mut taken = std::collections::BTreeSet::new();
            let Some(&leader) = partition.cores.first() else {
                return Err(SpecError::NoCores(partition.name.clone()));
            };
            for &core in &partition.cores {
                if !taken.insert(core) {
                    return Err(SpecError::CoreTwice {
                        core,
                        partition: partition.name.clone(),
                    });
                }
            }
            if partition.batch_max == Some(0) {
                return Err(SpecError::NoBatch(partition.name.clone()));
            }
            let before = self.partitions[..index].iter();
            for other in before.filter(|other| partition.shares_leader_with(other)) {
                partition.check_leader(other, leader)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_tpcs(name: &str, tpcs: Range<u16>, leader: usize) -> PartitionSpec {
        PartitionSpec {
            tpcs,
            ..PartitionSpec::on_cores(name, vec![leader], None)
        }
    }

    fn checked(partitions: &[PartitionSpec]) -> Result<(), SpecError> {
        let spec = DeviceSpec {
            models: &[],
            partitions,
            request_buffers: 1,
            cache: None,
            start: Start::Whole,
        };
        spec.validate_partitions()
    }

    #[test]
    fn partitions_of_a_gpu_may_share_a_leader_whatever_their_tpcs() {
        let cells = (0..4).map(|cell| on_tpcs(&format!("cell{cell}"), 2 * cell..2 * cell + 2, 0));
        let homes = [on_tpcs("home0", 0..4, 0), on_tpcs("home1", 4..8, 0)];
        let all = [on_tpcs("all", 0..8, 0)];
        let partitions: Vec<_> = cells.chain(homes).chain(all).collect();
        assert_eq!(checked(&partitions), Ok(()));
    }

    #[test]
    fn partitions_that_share_a_leader_have_one_priority() {
        let urgent = PartitionSpec {
            priority: Some(40),
            ..on_tpcs("cell", 0..2, 0)
        };
        let error = checked(&[on_tpcs("home", 0..8, 0), urgent]).expect_err("two priorities");
        assert!(
            matches!(error, SpecError::LeaderPriorities { core: 0, .. }),
            "{error}"
        );
    }

    #[test]
    fn partitions_of_cores_that_share_a_core_keep_their_own_leaders() {
        let one = PartitionSpec::on_cores("one", vec![0], None);
        let both = PartitionSpec::on_cores("both", vec![0, 1], Some(40));
        assert!(!one.shares_leader_with(&both));
        assert_eq!(checked(&[one, both]), Ok(()));
    }

    #[test]
    fn a_start_that_names_a_model_that_there_is_not_is_refused() {
        let step = |model| StartStep {
            model: ModelId(model),
            stages: 1,
        };
        let steps = [step(3)];
        let spec = DeviceSpec {
            models: &[],
            partitions: &[],
            request_buffers: 1,
            cache: None,
            start: Start::in_turn(&steps),
        };
        let unknown = SpecError::StartsUnknown {
            model: ModelId(3),
            models: 0,
        };
        assert_eq!(spec.validate_start(), Err(unknown));
    }

    #[test]
    fn a_partition_on_which_no_batch_may_run_is_refused() {
        let none = PartitionSpec {
            batch_max: Some(0),
            ..on_tpcs("cell", 0..2, 0)
        };
        assert_eq!(checked(&[none]), Err(SpecError::NoBatch("cell".into())));
    }
}
