//! Streams that are kept to a part of the device, by the mechanism in use.

use std::ops::Range;
use std::sync::Arc;

use libsmctrl_sys::TpcMask;
use libsmctrl_sys::stream_mask::UnknownDriver;

use super::calibration::Refusal;
use super::choice::{Choice, NotWholeUnits};
use super::mechanism::{Granted, NoSuchUnits};
use crate::driver::{CallError, Context, GreenError, Groups, MaskError, Masking, Stream};

pub(super) enum Means {
    Masks(Masking),
    Groups(Groups),
    Streams,
}

/// Why there is no stream for a partition.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The device has no such units.
    #[error(transparent)]
    Units(#[from] NoSuchUnits),
    /// The device cannot grant these TPCs.
    #[error(transparent)]
    Tpcs(#[from] NotWholeUnits),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Mask(#[from] MaskError),
    /// It cannot be made in a green context.
    #[error(transparent)]
    Green(#[from] GreenError),
}

impl StreamError {
    /// The call that failed, if one did.
    #[must_use]
    pub const fn call(&self) -> Option<CallError> {
        match self {
            Self::Call(call)
            | Self::Green(GreenError::Call(call))
            | Self::Mask(MaskError::Call(call)) => Some(*call),
            _ => None,
        }
    }
}

impl Means {
    /// A stream that is kept to what `mask` enables: `before`, if its mask can be changed, or a new one.
    pub(super) fn stream(
        &self,
        context: &Arc<Context>,
        mask: TpcMask,
        priority: i32,
        before: Option<Stream>,
    ) -> Result<Stream, StreamError> {
        match self {
            Self::Masks(masking) => {
                let mut stream = match before {
                    Some(stream) => stream,
                    None => Stream::new(context, priority)?,
                };
                masking.mask(&mut stream, mask)?;
                Ok(stream)
            }
            Self::Groups(groups) => {
                let enabled = (0..groups.count()).filter(|group| mask.enables(*group as u32));
                Ok(groups.stream(context, enabled, priority)?)
            }
            Self::Streams => Ok(Stream::new(context, priority)?),
        }
    }
}

/// Makes the streams of partitions. It holds nothing of a context, so after a restart of the device it
/// makes new ones.
pub struct Partitioner {
    choice: Choice,
    means: Means,
}

impl Partitioner {
    pub(super) const fn new(choice: Choice, means: Means) -> Self {
        Self { choice, means }
    }

    /// The mechanism in use, and the units that it divides the device into.
    #[must_use]
    pub const fn choice(&self) -> &Choice {
        &self.choice
    }

    /// What a range of TPCs, numbered as in plans, really is.
    pub fn grant(&self, tpcs: Range<u16>) -> Result<Granted, StreamError> {
        Ok(self.choice.grant(self.choice.units_of_tpcs(tpcs)?)?)
    }

    /// A stream whose launches run on a range of TPCs and nowhere else, as far as the mechanism enforces
    /// it. For starting up: a partition's stream is made once.
    pub fn stream(
        &self,
        context: &Arc<Context>,
        tpcs: Range<u16>,
        priority: i32,
    ) -> Result<Stream, StreamError> {
        let mask = self.choice.mask(self.choice.units_of_tpcs(tpcs)?)?;
        self.means.stream(context, mask, priority, None)
    }

    /// Whether a stream can be given other units between two launches, and by which mask: those of
    /// green contexts cannot.
    #[must_use]
    pub fn masking(&self) -> Option<&Masking> {
        match &self.means {
            Means::Masks(masking) => Some(masking),
            Means::Groups(_) | Means::Streams => None,
        }
    }
}

impl std::fmt::Debug for Partitioner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partitioner")
            .field("choice", &self.choice)
            .finish_non_exhaustive()
    }
}

/// Which parts of the GPU the partitions are.
#[derive(Clone, Debug)]
pub enum Division {
    /// All of it, each: launches of one run between those of the others.
    Whole,
    /// TPCs, numbered as in plans.
    Tpcs {
        partitioner: Arc<Partitioner>,
        /// Of each partition, in the order of `DeviceSpec::partitions`.
        ranges: Vec<Range<u16>>,
    },
}

impl Division {
    /// A stream that is kept to a partition's part. For starting up.
    pub fn stream(&self, context: &Arc<Context>, partition: usize) -> Result<Stream, StreamError> {
        self.stream_of_priority(context, partition, 0)
    }

    /// The same, of another priority: the smaller, the sooner its blocks run.
    pub(crate) fn stream_of_priority(
        &self,
        context: &Arc<Context>,
        partition: usize,
        priority: i32,
    ) -> Result<Stream, StreamError> {
        match self {
            Self::Whole => Ok(Stream::new(context, priority)?),
            Self::Tpcs {
                partitioner,
                ranges,
            } => partitioner.stream(context, ranges[partition].clone(), priority),
        }
    }

    /// Whether there is such a partition; a device that is not divided does not count them.
    pub(crate) fn has(&self, partition: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::Tpcs { ranges, .. } => partition < ranges.len(),
        }
    }
}

/// Of what is tried, in the words of a record.
impl From<StreamError> for Refusal {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Call(call) | StreamError::Green(GreenError::Call(call)) => call.into(),
            StreamError::Green(GreenError::MissingSymbol(symbol)) => Self::NoSymbol {
                symbol: symbol.to_owned(),
            },
            StreamError::Mask(MaskError::Call(call)) => call.into(),
            StreamError::Mask(MaskError::Unknown(unknown)) => unknown.into(),
            StreamError::Mask(error @ (MaskError::Launches(_) | MaskError::NoExportTable)) => {
                Self::NoCallback {
                    said: error.to_string(),
                }
            }
            StreamError::Mask(MaskError::Library(error)) => Self::Libsmctrl {
                said: error.to_string(),
            },
            other => Self::NotMasked {
                said: other.to_string(),
            },
        }
    }
}

impl From<UnknownDriver> for Refusal {
    fn from(unknown: UnknownDriver) -> Self {
        Self::UnknownDriver {
            driver: unknown.key.to_string(),
        }
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        Self::CallFailed {
            call: error.call.to_owned(),
            result: error.code.to_string(),
        }
    }
}
