//! What is wrong with partitions of the GPU.

use thiserror::Error;

use crate::memory::Bytes;
use crate::spelling::numbers;

/// What is wrong with a partition of TPCs, or with a model on one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GpuCause {
    /// A board of which no accelerator is known.
    #[error("board {board:?} has no [gpu]")]
    NoneOnBoard { board: String },
    /// A board that has one, on a machine that does not offer it.
    #[error("this machine offers no GPU (driver, device or mechanism for partitions missing)")]
    NoneOnHost,
    #[error("{asked} TPCs wanted, {free} left of {there}")]
    TooFewTpcs {
        asked: u16,
        /// How many the partitions before it leave.
        free: u16,
        there: u16,
    },
    /// A number that the mechanism cannot grant.
    #[error("{tpcs} TPCs, and this machine grants them in multiples of {granularity}")]
    Granularity { tpcs: u16, granularity: u16 },
    #[error("{cores} cores to lead a partition of the GPU")]
    OneLeader { cores: usize },
    #[error(
        "no core is free to lead the partition; available are {}",
        numbers(available)
    )]
    NoCoreToLead { available: Vec<u16> },
    /// A policy that divides cores by itself.
    #[error("policy {policy:?} chooses among ranges of cores while it runs")]
    PolicyChooses { policy: &'static str },
    #[error("model {model:?} is run by {cores:?}, of cores, and by {tpcs:?}, of the GPU")]
    BothDevices {
        model: String,
        cores: String,
        tpcs: String,
    },
    /// The GPU's kernels do not run it, or nobody tried.
    #[error("what model {model:?} takes on the GPU is not known")]
    NotLowered { model: String },
    /// Not enough memory of the GPU's own.
    #[error("the plan takes {} of the GPU's memory, more than {}", Bytes(*total), Bytes(*limit))]
    MemoryExceeded {
        total: u64,
        limit: u64,
        /// The largest item, with its size.
        largest: String,
    },
}

impl GpuCause {
    /// The rule that is broken, as a sentence about what is right.
    pub(crate) const fn rule(&self) -> &'static str {
        match self {
            Self::NoneOnBoard { .. } => "a partition of TPCs is on a board whose file has a [gpu]",
            Self::NoneOnHost => "a plan with TPCs is made on the machine that has them",
            Self::TooFewTpcs { .. } => "partitions of the GPU share no TPC",
            Self::Granularity { .. } => "TPCs are granted in the multiples that the driver has",
            Self::OneLeader { .. } => "one core leads a partition of the GPU",
            Self::NoCoreToLead { .. } => "a leader's core runs no other partition",
            Self::PolicyChooses { .. } => "partitions of the GPU are those of the manifest",
            Self::BothDevices { .. } => "a model is on one device",
            Self::NotLowered { .. } => "a model's launches are known before it is served",
            Self::MemoryExceeded { .. } => "all memory is taken at start, and the GPU has it",
        }
    }

    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::NoneOnBoard { .. } => {
                "name a board that has one (`punctual board detect` writes its file), or give \
                 `cores` or `units`"
                    .into()
            }
            Self::NoneOnHost => "see `punctual board detect`, or give `cores` or `units`".into(),
            Self::TooFewTpcs { free: 0, .. } => "remove the partition, or shrink others".into(),
            Self::TooFewTpcs { free, .. } => format!("set tpcs = {free} or less"),
            Self::Granularity { tpcs, granularity } => {
                let least = tpcs.next_multiple_of((*granularity).max(1));
                format!("set tpcs = {least}, or another multiple")
            }
            Self::OneLeader { .. } => "name one core, or leave `cores` out".into(),
            Self::NoCoreToLead { .. } => {
                "name one of the daemon's `cores` to share it, or free one".into()
            }
            Self::PolicyChooses { .. } => {
                "choose another policy, or give the partitions `cores`".into()
            }
            Self::BothDevices { .. } => {
                "name the package twice, as two [[model]]s of different names".into()
            }
            Self::NotLowered { .. } => {
                "give its tasks a partition of cores, or see what `punctual profile` says of it"
                    .into()
            }
            Self::MemoryExceeded { largest, .. } => format!("take less, most of all {largest}"),
        }
    }
}
