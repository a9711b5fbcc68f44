//! What runs stages: sets of cores, or of the GPU's TPCs.

use serde::Serialize;

use crate::inputs::DeviceKind;

/// Whose compute units a partition has, and when its stages may use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitUse {
    /// Its own: tasks are assigned to it.
    #[default]
    Own,
    /// Those of owners, while all of them are idle: a place.
    Idle,
    /// Those of owners, as the policy chooses at each stage.
    Chosen,
    /// The TPCs that real-time launches leave, for best-effort ones: it fills. Its own are those that these are lowered for.
    Left,
}

impl UnitUse {
    fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

/// A set of cores, or of TPCs, that runs one stage at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionPlan {
    pub name: String,
    /// One worker each; the leader's alone if the partition is one of the GPU. No two partitions own one.
    pub cores: Vec<u16>,
    /// The GPU's TPCs, rising; none: it is one of cores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tpcs: Vec<u16>,
    #[serde(skip_serializing_if = "DeviceKind::is_implied")]
    pub device: DeviceKind,
    #[serde(rename = "use", skip_serializing_if = "UnitUse::is_own")]
    pub usage: UnitUse,
}

impl PartitionPlan {
    #[must_use]
    pub fn is_place(&self) -> bool {
        self.usage == UnitUse::Idle
    }

    #[must_use]
    pub fn fills(&self) -> bool {
        self.usage == UnitUse::Left
    }

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
