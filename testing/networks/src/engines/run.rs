//! What an engine runs, and what it answers, or why it does not.

use punctual_compile::Compiled;
use punctual_device_ort::LibraryError;
use punctual_model::reference::Exited;
use punctual_model::{Exit, Network};
use thiserror::Error;

use crate::draw::Drawn;
use crate::requests::Request;

/// A compiled network and what it was drawn as.
pub struct Subject<'a> {
    pub drawn: &'a Drawn,
    pub compiled: &'a Compiled,
}

impl Subject<'_> {
    pub(super) fn network(&self) -> &Network {
        self.compiled.package.network()
    }
}

/// The exits of a network, each with its name.
pub(crate) fn exits(compiled: &Compiled) -> impl Iterator<Item = (&str, &Exit)> {
    let stages = compiled.package.network().stages.iter();
    let exits = stages.filter_map(|stage| stage.exit.as_ref());
    compiled.exits.iter().map(String::as_str).zip(exits)
}

/// What an engine answered, `[request][exit]`.
pub type Answers = Vec<Vec<Exited>>;

/// An engine with a network, ready to run.
pub trait Run {
    /// Runs these requests as one batch.
    ///
    /// # Errors
    /// Why it does not answer.
    fn run(&mut self, requests: &[&Request]) -> Result<Answers, RunError>;
}

/// Why an engine gives no answer.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("the CPU device does not start: {0}")]
    Cpu(#[from] punctual_device_cpu::StartError),
    #[error("it is not lowered for CUDA: {0}")]
    Cuda(#[from] punctual_device_cuda::lower::LowerError),
    #[error(transparent)]
    Onnxruntime(#[from] OnnxruntimeError),
    #[error("the answer's class is {found}, and its scores are highest for {expected}")]
    Class { found: u16, expected: usize },
}

#[derive(Debug, Error)]
pub enum OnnxruntimeError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error("onnxruntime: {0}")]
    Failed(#[from] ort::Error),
    #[error("onnxruntime has no output {name}")]
    NoOutput { name: String },
    #[error("onnxruntime's output {name} is {found}, which is not compared")]
    Type { name: String, found: String },
}
