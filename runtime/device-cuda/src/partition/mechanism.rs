//! How launches are kept to a part of the device, and what of it is granted then.

use punctual_core::Units;
use serde::{Deserialize, Serialize};

use super::sms::SmSet;

/// How launches are kept to a part of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// The mask of a stream, written by ourselves where the driver keeps it.
    StreamMask,
    /// The same, written by libsmctrl.
    Libsmctrl,
    /// The mask of each launch, written into its descriptor when the driver calls back.
    LaunchMask,
    /// Contexts that the driver limits to groups of multiprocessors, from CUDA 12.4 on.
    GreenContexts,
    /// None: all launches may run everywhere, and the more urgent go first.
    Priority,
}

impl Mechanism {
    /// In the order in which they are tried: the finest first, then the official one, then none.
    /// [`LaunchMask`](Self::LaunchMask) is tried only where the user names it.
    pub const ORDER: [Self; 4] = [
        Self::StreamMask,
        Self::Libsmctrl,
        Self::GreenContexts,
        Self::Priority,
    ];

    /// Each of them.
    pub const ALL: [Self; 5] = [
        Self::StreamMask,
        Self::Libsmctrl,
        Self::LaunchMask,
        Self::GreenContexts,
        Self::Priority,
    ];

    /// Its name in reports and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StreamMask => "stream-mask",
            Self::Libsmctrl => "libsmctrl",
            Self::LaunchMask => "launch-mask",
            Self::GreenContexts => "green-contexts",
            Self::Priority => "priority",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Whether a stream's part can be changed between two launches.
    #[must_use]
    pub const fn redivides(self) -> bool {
        matches!(self, Self::StreamMask | Self::Libsmctrl | Self::LaunchMask)
    }

    /// Whether launches cannot run elsewhere than where they may.
    #[must_use]
    pub const fn is_enforced(self) -> bool {
        !matches!(self, Self::Priority)
    }
}

impl std::fmt::Display for Mechanism {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The range that was asked for.
    pub units: Units,
    pub sms: SmSet,
    /// Multiprocessors of the largest unit of the device.
    pub granularity: u32,
    /// Whether launches of others stay away, and its own stay inside.
    pub enforced: bool,
    /// By which means.
    pub mechanism: Mechanism,
}

/// A range that the device has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "units {} to {} of {available}: {mechanism} divides this device into {available} parts of up to \
     {granularity} multiprocessors; make the plan for these", .range.first, .range.end().saturating_sub(1)
)]
pub struct NoSuchUnits {
    pub range: Units,
    pub available: u16,
    pub granularity: u32,
    /// The mechanism that is in use.
    pub mechanism: Mechanism,
}
