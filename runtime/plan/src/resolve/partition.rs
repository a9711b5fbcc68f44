//! What runs stages: sets of cores, or of the GPU's TPCs.

use serde::Serialize;

use crate::inputs::DeviceKind;

/// A set of cores, or of TPCs, that runs one stage at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionPlan {
    pub name: String,
    /// One worker each; disjoint from every other partition's of its layout unless it is a place. The leader's alone if
    /// the partition is one of the GPU.
    pub cores: Vec<u16>,
    /// The GPU's TPCs, rising, disjoint from every other partition's of its layout unless it is a place; none: it is one of
    /// cores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tpcs: Vec<u16>,
    #[serde(skip_serializing_if = "DeviceKind::is_implied")]
    pub device: DeviceKind,
    /// No task is assigned to it; stages of others run there while its compute units are idle.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_place: bool,
    /// Its best-effort launches run on TPCs that real-time ones leave; `tpcs` are those that they are lowered for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fills: bool,
}

impl PartitionPlan {
    /// How many compute units run them.
    #[must_use]
    pub fn units(&self) -> usize {
        if self.device.runs_on_cores() {
            self.cores.len()
        } else {
            self.tpcs.len()
        }
    }
}
