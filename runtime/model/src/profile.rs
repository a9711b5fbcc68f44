//! Measured execution times of a network on one machine.

use serde::{Deserialize, Serialize};

/// The measurements of one network on one machine in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// What the figures hold for.
    pub key: ProfileKey,
    /// One entry for each (stage, batch, partition size).
    pub stages: Vec<StageProfile>,
    /// Preparing one frame: copy in, crop, resize, normalise; one entry a frame format.
    pub prepare: Vec<PrepareProfile>,
    /// Longest time seen from `Preempt` until the worker was free, in nanoseconds: the longest
    /// operator of any stage at any batch.
    pub preemption_ns_max: u64,
}

/// What a profile holds for; a figure measured under another key must not be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProfileKey {
    /// The board's name.
    pub board: String,
    /// Processor model and instruction set the kernels chose.
    pub machine: String,
    /// Hash of the model package.
    pub package: String,
    /// Power mode, or `default`.
    pub power_mode: String,
}

/// How long one stage takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageProfile {
    /// Which stage.
    pub stage: u8,
    /// At which batch size.
    pub batch: u8,
    /// On how many compute units (cores, TPCs).
    pub units: u8,
    /// Number of measurements.
    pub samples: u32,
    /// Median.
    pub p50_ns: u64,
    /// The quantile that budgets are made from.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}

/// How long one preparation takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepareProfile {
    /// Frame format, e.g. `rgb8`, `nv12`.
    pub format: String,
    /// Frame width in pixels.
    pub width: u32,
    /// Frame height in pixels.
    pub height: u32,
    /// Number of measurements.
    pub samples: u32,
    /// Median.
    pub p50_ns: u64,
    /// The quantile that budgets are made from.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
}
