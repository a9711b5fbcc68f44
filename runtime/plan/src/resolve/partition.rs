//! What runs stages: sets of cores, or of the GPU's TPCs.

use serde::Serialize;

/// A set of cores, or of TPCs, that runs one stage at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionPlan {
    pub name: String,
    /// One worker each; disjoint from every other partition's. The leader's alone if the partition is one of the GPU.
    pub cores: Vec<u16>,
    /// The GPU's TPCs, rising, disjoint from every other partition's; none: it is one of cores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tpcs: Vec<u16>,
}

impl PartitionPlan {
    #[must_use]
    pub fn device(&self) -> DeviceKind {
        DeviceKind::with_tpcs(&self.tpcs)
    }

    /// How many compute units run them.
    #[must_use]
    pub fn units(&self) -> usize {
        match self.device() {
            DeviceKind::Cpu => self.cores.len(),
            DeviceKind::Cuda => self.tpcs.len(),
        }
    }
}

/// What runs a partition's stages, and a model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// The processor's cores.
    Cpu,
    /// The GPU's TPCs.
    Cuda,
}

impl DeviceKind {
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Cuda];

    /// That of a partition with these TPCs.
    pub(crate) const fn with_tpcs(tpcs: &[u16]) -> Self {
        match tpcs {
            [] => Self::Cpu,
            _ => Self::Cuda,
        }
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}
