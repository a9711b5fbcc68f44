//! What can be wrong with a fleet file beyond what can be wrong with any file.

use punctual_core::Nanos;
use punctual_diagnostics::{Bytes, Rule};
use thiserror::Error;

use crate::packing::TimesError;

#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum FleetRule {
    /// Batch sizes and times that do not belong together.
    #[error("{batches} batch sizes and {times} times")]
    NotOneTimeEach { batches: usize, times: usize },
    #[error("not a batching profile: {0}")]
    Times(TimesError),
    #[error("model {model:?} has no times for any partition of any board")]
    RunsNowhere { model: String },
    /// A deadline that no partition can keep.
    #[error(
        "two batches of one take {needed} on the fastest partition, and the deadline is {deadline}"
    )]
    Unreachable { needed: Nanos, deadline: Nanos },
    /// A query whose stages do not fit into its deadline.
    #[error(
        "no division of the deadline of {deadline} leaves each stage the time of two batches of one"
    )]
    QueryUnreachable { deadline: Nanos },
    /// Stages that depend on each other in another way.
    #[error("the stages of query {query:?} are not a fork-join graph")]
    NotForkJoin { query: String },
    #[error("model {model:?} has weights of {}, and the largest board holds {}", Bytes(*bytes), Bytes(*most))]
    TooLarge {
        model: String,
        bytes: u64,
        most: u64,
    },
}

impl Rule for FleetRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::NotOneTimeEach { .. } => "each batch size has one time",
            Self::Times(_) => "batch sizes rise, and every batch takes time",
            Self::RunsNowhere { .. } => "a model is measured on at least one partition size",
            Self::Unreachable { .. } => {
                "a request that just missed a batch waits for it and then for its own"
            }
            Self::QueryUnreachable { .. } => {
                "on every way through a query the stages' deadlines sum up to its own"
            }
            Self::NotForkJoin { .. } => "a query is a chain, a tree, or forks and joins that nest",
            Self::TooLarge { .. } => "a board holds all weights of a model",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::NotOneTimeEach { .. } => "write as many times as sizes".into(),
            Self::Times(_) => "correct the sizes or the times".into(),
            Self::RunsNowhere { .. } => {
                "add times for a partition's units or fewer, or measure with `punctual profile`"
                    .into()
            }
            Self::Unreachable { needed, .. } => {
                format!("allow at least {needed}, choose a shallower `exit`, or a larger partition")
            }
            Self::QueryUnreachable { .. } => {
                "allow more time, choose shallower exits, or larger partitions".into()
            }
            Self::NotForkJoin { .. } => {
                "remove shortcuts, or split it into queries of their own".into()
            }
            Self::TooLarge { bytes, .. } => format!("give a board {} or more", Bytes(*bytes)),
        }
    }
}
