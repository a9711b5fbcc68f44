//! What runs a partition's stages, and a model's.

use serde::Serialize;

/// A kind of device, in the order in which a daemon starts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The processor's cores, with Punctual's own kernels.
    Cpu,
    /// The GPU's TPCs, with Punctual's own kernels.
    Cuda,
    /// The processor's cores, with ONNX Runtime.
    Ort,
    /// The GPU's TPCs, with ONNX Runtime's CUDA execution provider.
    OrtCuda,
    /// The GPU's TPCs, with ONNX Runtime's TensorRT execution provider.
    OrtTensorrt,
}

impl DeviceKind {
    pub const ALL: [Self; 5] = [
        Self::Cpu,
        Self::Cuda,
        Self::Ort,
        Self::OrtCuda,
        Self::OrtTensorrt,
    ];

    /// Engines of others on the GPU.
    pub const ENGINES: [Self; 2] = [Self::OrtCuda, Self::OrtTensorrt];

    /// As in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Ort => "ort",
            Self::OrtCuda => "ort-cuda",
            Self::OrtTensorrt => "ort-tensorrt",
        }
    }

    /// The end of the name of its profile's file, which lies next to the package.
    #[must_use]
    pub const fn profile_file(self) -> &'static str {
        match self {
            Self::Cpu => "profile.json",
            Self::Cuda => "gpu.profile.json",
            Self::Ort => "ort.profile.json",
            Self::OrtCuda => "ort-cuda.profile.json",
            Self::OrtTensorrt => "ort-tensorrt.profile.json",
        }
    }

    /// Whether its partitions are made of cores.
    #[must_use]
    pub const fn runs_on_cores(self) -> bool {
        matches!(self, Self::Cpu | Self::Ort)
    }

    /// Whether it is an engine of others on the GPU.
    #[must_use]
    pub const fn is_engine(self) -> bool {
        matches!(self, Self::OrtCuda | Self::OrtTensorrt)
    }

    /// Whether the other keys of a partition say it: cores are the processor's, TPCs the GPU's.
    #[must_use]
    pub const fn is_implied(&self) -> bool {
        matches!(self, Self::Cpu | Self::Cuda)
    }
}
