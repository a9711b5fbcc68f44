//! What runs stages: sets of cores, or of the GPU's TPCs.

use serde::Serialize;

use crate::inputs::DeviceKind;

/// A set of cores, or of TPCs, that runs one stage at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionPlan {
    pub name: String,
    /// One worker each; disjoint from every other partition's. The leader's alone if the partition is one of the GPU.
    pub cores: Vec<u16>,
    /// The GPU's TPCs, rising, disjoint from every other partition's; none: it is one of cores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tpcs: Vec<u16>,
    #[serde(skip_serializing_if = "DeviceKind::is_implied")]
    pub device: DeviceKind,
}

impl PartitionPlan {
    /// How many compute units run them.
    #[must_use]
    pub fn units(&self) -> usize {
        match self.device.runs_on_cores() {
            true => self.cores.len(),
            false => self.tpcs.len(),
        }
    }
}
