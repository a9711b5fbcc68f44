//! Why the device cannot start.

use std::path::PathBuf;

use punctual_compile::WriteError;
use punctual_device::SpecError;
use punctual_device_cuda::driver::{CallError, OpenError};
use punctual_device_cuda::partition::StreamError;
use punctual_platform::thread::ThreadError;
use thiserror::Error;

use crate::gpu::{BroughtError, QueueError};

/// Why the device cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The specification that it should start with is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A model's weights were to come and go.
    #[error(
        "the weights of `{0}` are paged, which ONNX Runtime does not support: make them resident"
    )]
    Paged(String),
    /// An operator has no form in ONNX yet.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What runs behind a session.
    #[error(transparent)]
    Tail(#[from] Box<punctual_device_cpu::StartError>),
    #[error("ONNX Runtime cannot prepare a stage: {0}")]
    Session(#[from] ort::Error),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Driver(#[from] CallError),
    /// A partition of the GPU cannot be had.
    #[error(transparent)]
    Tpcs(Box<StreamError>),
    #[error(transparent)]
    Gpu(Box<punctual_device_cuda::StartError>),
    /// The user brings engines, and not this one.
    #[error(
        "there is no engine {file}: build it from the ONNX file of that name, which `punctual inspect PACKAGE --stages FOLDER` writes",
        file = file.display()
    )]
    NoEngine { file: PathBuf },
    #[error(transparent)]
    Brought(#[from] BroughtError),
    /// A thread could not be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// A partition to be measured, of no cores, or of more than there are.
    #[error("a partition of {units} core(s) cannot be measured: this process may use 1 to {cores}")]
    Units { units: u8, cores: usize },
}

impl From<StreamError> for StartError {
    fn from(error: StreamError) -> Self {
        Self::Tpcs(Box::new(error))
    }
}

impl From<punctual_device_cuda::StartError> for StartError {
    fn from(error: punctual_device_cuda::StartError) -> Self {
        Self::Gpu(Box::new(error))
    }
}

impl From<QueueError> for StartError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Library(error) => Self::Session(error),
            QueueError::Driver(error) => Self::Driver(error),
        }
    }
}
