//! What runs networks: each instruction set of the CPU device, the CUDA device's programs, onnxruntime.

mod cpu;
mod cuda;
// The tests of the CUDA device have memory for its programs; here it is needed once more.
#[path = "../../../../runtime/device-cuda/tests/emulation/mod.rs"]
mod emulation;
mod onnxruntime;

use std::fmt;
use std::str::FromStr;

use punctual_compile::Compiled;
use punctual_kernels::Isa;
use punctual_model::reference::{Exited, agreement::Precision};
use punctual_model::{Exit, Network};
use thiserror::Error;

use crate::draw::Drawn;
use crate::requests::Request;
pub(crate) use onnxruntime::lacks_softmax;
pub use onnxruntime::{Onnxruntime, OnnxruntimeError};

/// One of the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    Avx512,
    Avx2,
    Neon,
    Scalar,
    Cuda,
    Onnxruntime,
}

/// No engine has this name.
#[derive(Clone, Debug, Error)]
#[error("there is no engine `{name}`; there are avx512, avx2, neon, scalar, cuda and onnxruntime")]
pub struct NoSuchEngine {
    name: String,
}

impl Engine {
    pub const ALL: [Self; 6] = [
        Self::Avx512,
        Self::Avx2,
        Self::Neon,
        Self::Scalar,
        Self::Cuda,
        Self::Onnxruntime,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Scalar => "scalar",
            Self::Cuda => "cuda",
            Self::Onnxruntime => "onnxruntime",
        }
    }

    /// Its instruction set, if it is the CPU device.
    #[must_use]
    pub const fn isa(self) -> Option<Isa> {
        match self {
            Self::Avx512 => Some(Isa::Avx512),
            Self::Avx2 => Some(Isa::Avx2Fma),
            Self::Neon => Some(Isa::Neon),
            Self::Scalar => Some(Isa::Scalar),
            Self::Cuda | Self::Onnxruntime => None,
        }
    }

    /// How it keeps values.
    #[must_use]
    pub const fn precision(self) -> Precision {
        match self {
            Self::Cuda => Precision::Half,
            _ => Precision::Single,
        }
    }

    /// Whether it can run here.
    ///
    /// # Errors
    /// Why not.
    pub fn is_there(self) -> Result<(), String> {
        match self.isa() {
            Some(isa) if isa.is_available() => Ok(()),
            Some(isa) => Err(format!("this processor has no {isa}")),
            None if self == Self::Cuda => Ok(()),
            None => onnxruntime::load(None)
                .map(|_| ())
                .map_err(|error| error.to_string()),
        }
    }

    /// The CPU device's engines that this processor has, and onnxruntime where the environment names its library.
    pub fn usual() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|engine| match engine.isa() {
            Some(isa) => isa.is_available(),
            None => *engine == Self::Onnxruntime && punctual_device_ort::named().is_some(),
        })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = NoSuchEngine;

    fn from_str(name: &str) -> Result<Self, NoSuchEngine> {
        let mut all = Self::ALL.into_iter();
        let name = name.to_owned();
        all.find(|engine| engine.name() == name)
            .ok_or(NoSuchEngine { name })
    }
}

/// A compiled network and what it was drawn as.
pub struct Subject<'a> {
    pub drawn: &'a Drawn,
    pub compiled: &'a Compiled,
}

impl Subject<'_> {
    fn network(&self) -> &Network {
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

/// Starts an engine for batches of up to `batch_max` requests.
///
/// # Errors
/// [`RunError`].
pub fn start<'a>(
    engine: Engine,
    subject: &'a Subject<'_>,
    batch_max: usize,
) -> Result<Box<dyn Run + 'a>, RunError> {
    match (engine, engine.isa()) {
        (_, Some(isa)) => Ok(Box::new(cpu::Cpu::start(isa, subject, batch_max)?)),
        (Engine::Cuda, _) => Ok(Box::new(cuda::Cuda::start(subject, batch_max)?)),
        _ => Ok(Box::new(Onnxruntime::start(subject)?)),
    }
}
