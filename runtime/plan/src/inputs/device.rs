//! What runs a partition's stages, and a model's.

use serde::Serialize;

/// A kind of device, in the order in which a daemon starts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// The processor's cores, with Punctual's own kernels.
    Cpu,
    /// The GPU's TPCs.
    Cuda,
    /// The processor's cores, with ONNX Runtime.
    Ort,
}

impl DeviceKind {
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Cuda, Self::Ort];

    /// As in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Ort => "ort",
        }
    }

    /// Whether its partitions are made of cores.
    #[must_use]
    pub const fn runs_on_cores(self) -> bool {
        !matches!(self, Self::Cuda)
    }

    /// Whether the other keys of a partition say it: cores are the processor's, TPCs the GPU's.
    #[must_use]
    pub const fn is_implied(&self) -> bool {
        !matches!(self, Self::Ort)
    }
}
