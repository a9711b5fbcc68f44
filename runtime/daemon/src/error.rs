//! Why the daemon did not start.

use std::path::PathBuf;

use punctual_device::frames::FramesRefused;
use punctual_device_cpu::StartError;
use punctual_diagnostics::{Diagnostics, Rule as _};
use punctual_kernels::preprocess::PreprocessError;
use punctual_plan::SocketRule;
use punctual_platform::OsError;
use punctual_platform::socket_path::SocketPathError;
use punctual_platform::thread::ThreadError;

use crate::Termination;
use crate::gpu::GpuError;
use crate::limits::LimitError;
use crate::lookup::OrtError;
use crate::options::NoManifest;

/// Why the daemon did not start. Its text says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum StartupError {
    /// The manifest, or what it names.
    #[error(transparent)]
    Plan(#[from] Diagnostics),
    #[error(transparent)]
    NoManifest(#[from] NoManifest),
    /// `--ready-fd` is no descriptor that was inherited.
    #[error(
        "--ready-fd {0} is not an open file descriptor: let the starting process leave it open"
    )]
    ReadyFd(i32),
    /// The kernel refused something that every part needs.
    #[error(transparent)]
    System(#[from] OsError),
    /// Memory that this process may not have.
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Thread(#[from] ThreadError),
    #[error("the device cannot start: {0}")]
    Device(#[from] StartError),
    /// The GPU that the manifest asks for.
    #[error("the manifest has partitions with `tpcs`: {0}")]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    OrtNetwork(#[from] OrtError),
    /// ONNX Runtime, which the manifest asks for.
    #[error("ONNX Runtime's device cannot start: {0}")]
    Ort(#[from] punctual_device_ort::StartError),
    #[error("cannot listen for clients: {0}")]
    Listen(#[from] punctual_ipc::ListenError),
    /// A socket that was named otherwise than in the manifest.
    #[error("the socket {path}: {cause}. To do: {}", cause.help())]
    SocketPath { path: PathBuf, cause: SocketRule },
    #[error("cannot serve metrics: {0}")]
    Metrics(#[source] SocketPathError),
    /// A frame that the plan took and the preprocessor does not.
    #[error("task {task:?}: its frames cannot be prepared: {source}")]
    Preprocess {
        task: String,
        source: PreprocessError,
    },
    /// Frames that the plan has the GPU prepare.
    #[error("the GPU cannot prepare frames: {0}")]
    Frames(#[from] FramesRefused),
    /// A plan that the scheduler does not take.
    #[error("the scheduler refuses the plan, which is a defect of Punctual: {0}")]
    Scheduler(#[from] punctual_core::ConfigError),
}

impl StartupError {
    /// The code to end the process with.
    #[must_use]
    pub fn termination(&self) -> Termination {
        match self {
            Self::Plan(errors) if errors.is_about_files_only() => Termination::MissingFile,
            Self::NoManifest(_) => Termination::MissingFile,
            Self::Plan(_) | Self::Preprocess { .. } | Self::Frames(_) | Self::SocketPath { .. } => {
                Termination::InvalidPlan
            }
            Self::ReadyFd(_)
            | Self::System(_)
            | Self::Limit(_)
            | Self::Thread(_)
            | Self::Device(_)
            | Self::Gpu(_)
            | Self::OrtNetwork(_)
            | Self::Ort(_)
            | Self::Listen(_)
            | Self::Metrics(_) => Termination::Resources,
            Self::Scheduler(_) => Termination::Internal,
        }
    }

    /// Whether another manifest could be served here.
    #[must_use]
    pub fn is_of_the_configuration(&self) -> bool {
        let termination = self.termination();
        let is_invalid =
            [Termination::InvalidPlan, Termination::MissingFile].contains(&termination);
        // A plan that does not fit into the memory there is.
        is_invalid || matches!(self, Self::Limit(_))
    }
}
