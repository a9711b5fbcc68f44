//! What can go wrong at the start.

use punctual_core::ModelId;
use punctual_kernels::Isa;
use punctual_platform::OsError;
use punctual_platform::thread::ThreadError;
use thiserror::Error;

use crate::lower::LowerError;
use crate::shared::weights::LoadError;
use punctual_device::SpecError;

/// Why the CPU device cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The specification that it should start with is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An operator has no kernel.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A worker could not be started.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// The processor lacks the instruction set that was asked for.
    #[error("this processor has no {0}: do not name an instruction set")]
    IsaUnavailable(Isa),
    /// A weight image that is not for these kernels.
    #[error(
        "the weight image of `{model}` has {floats} floats for vectors of {lanes}, and the kernels \
         want {expected} for {wanted}: compile the model again"
    )]
    Image {
        /// The network's name.
        model: String,
        /// Floats of the image.
        floats: usize,
        /// Lanes it is for.
        lanes: u8,
        /// Floats that the kernels read.
        expected: usize,
        /// Lanes of the instruction set.
        wanted: u8,
    },
    /// A model does not fit the cache, even alone.
    #[error("model {} fills {needs} pages and the cache has {pages}: enlarge it", .model.0)]
    CacheTooSmall {
        model: ModelId,
        /// Pages that it fills.
        needs: u32,
        /// Pages of the cache.
        pages: u32,
    },
    /// Resident weights cannot be loaded.
    #[error("the weights of model {} cannot be loaded: {source}", .model.0)]
    Weights {
        model: ModelId,
        /// Why.
        source: LoadError,
    },
    /// There is no memory for weights.
    #[error("memory for weights is not available: {0}")]
    Memory(#[from] OsError),
    /// Partitions to be measured, or to be busy meanwhile, of no cores, or of more than there are.
    #[error("{units} core(s) cannot be measured: this process may use 1 to {cores}")]
    Units {
        /// Cores asked for, of all of them.
        units: u8,
        /// Cores that there are.
        cores: usize,
    },
}
