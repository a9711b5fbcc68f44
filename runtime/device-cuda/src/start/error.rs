//! Why a device cannot start.

use std::ops::Range;

use punctual_device::SpecError;
use punctual_platform::thread::ThreadError;
use thiserror::Error;

use super::InstallError;
use crate::driver::{CallError, OpenError};
use crate::kernel_padding::KernelPaddingError;
use crate::kernels::KernelError;
use crate::lower::{LowerError, PackError};
use crate::partition::StreamError;
use crate::weights::{FitError, LoadError};

/// Why the device cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The specification that it should start with is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Driver(#[from] CallError),
    #[error(transparent)]
    Division(StreamError),
    /// The driver refuses a green context for a partition that shares groups with one before it.
    #[error(
        "the driver refuses a green context for partition {partition}, which shares TPCs with partition {other} ({call}): \
         give both TPCs of their own, or use a driver whose stream masks are known"
    )]
    SharedGroups {
        partition: usize,
        other: usize,
        call: CallError,
    },
    /// Not as many parts as partitions.
    #[error("{ranges} ranges of TPCs for {partitions} partitions: give each its own")]
    Ranges { ranges: usize, partitions: usize },
    /// A partition is to have TPCs that are not those of its spec.
    #[error(
        "partition `{partition}` has TPCs {} to {} in its spec, and the division gives it {} to {}: give both the same",
        .tpcs.start, .tpcs.end - 1, .range.start, .range.end.saturating_sub(1)
    )]
    OtherTpcs {
        partition: String,
        /// Those of its spec.
        tpcs: Range<u16>,
        /// Those of the division.
        range: Range<u16>,
    },
    #[error(transparent)]
    KernelPadding(#[from] KernelPaddingError),
    /// A network has no form on it.
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A model's weights do not fit the cache.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// There are no kernels for it.
    #[error(transparent)]
    Kernels(#[from] KernelError),
    /// A thread could not be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

impl From<StreamError> for StartError {
    fn from(error: StreamError) -> Self {
        error.call().map_or(Self::Division(error), Self::Driver)
    }
}

impl From<InstallError> for StartError {
    fn from(error: InstallError) -> Self {
        match error {
            InstallError::Driver(error) => Self::Driver(error),
            InstallError::Stream(error) => error.into(),
            InstallError::SharedGroups {
                partition,
                other,
                call,
            } => Self::SharedGroups {
                partition,
                other,
                call,
            },
            InstallError::Kernels(error) => Self::Kernels(error),
            InstallError::Weights(LoadError::Driver(error)) => Self::Driver(error),
            InstallError::Weights(LoadError::Pack(error)) => Self::Pack(error),
            InstallError::Weights(LoadError::Down) => unreachable!("it was brought up now"),
        }
    }
}
