//! What runs networks: each instruction set of the CPU device, the CUDA device's programs, onnxruntime.

mod cpu;
mod cuda;
// The tests of the CUDA device have memory for its programs; here it is needed once more.
#[path = "../../../../runtime/device-cuda/tests/emulation/mod.rs"]
mod emulation;
mod onnxruntime;
mod run;

use std::fmt;
use std::str::FromStr;

use punctual_kernels::Isa;
use punctual_model::reference::Exited;
use punctual_model::reference::agreement::{ExpectedExit, Precision};
use thiserror::Error;

pub use onnxruntime::Onnxruntime;
use onnxruntime::lacks_softmax;
pub(crate) use onnxruntime::{Numbers, input_values, numbers, session};
pub(crate) use run::exits;
pub use run::{Answers, OnnxruntimeError, Run, RunError, Subject};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    Avx512,
    Avx2,
    Neon,
    Scalar,
    Cuda,
    Onnxruntime,
}

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

/// The exits by name, without the outputs that mean something else: a file's softmax over class scores is not the network's.
pub(crate) fn comparable<'a>(
    engine: Engine,
    subject: &'a Subject<'_>,
    expected: &'a [ExpectedExit],
    found: &'a [Exited],
) -> impl Iterator<Item = (&'a str, ExpectedExit, Exited)> {
    let all = exits(subject.compiled).zip(expected.iter().zip(found));
    all.map(move |((name, exit), (expected, found))| {
        let (mut expected, mut found) = (expected.clone(), found.clone());
        for at in (0..exit.outputs.len()).rev() {
            let has_softmax = engine == Engine::Onnxruntime;
            if has_softmax && lacks_softmax(subject, name, exit, &exit.outputs[at]) {
                expected.outputs.remove(at);
                found.outputs.remove(at);
            }
        }
        (name, expected, found)
    })
}
