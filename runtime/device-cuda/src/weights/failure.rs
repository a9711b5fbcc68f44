//! What can go wrong with weights.

use punctual_core::ModelId;
use thiserror::Error;

use crate::driver::CallError;
use crate::lower::PackError;

/// A model that does not fit the cache, even alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("model {} fills {needs} pages and the cache has {pages}: enlarge it", .model.0)]
pub struct FitError {
    pub model: ModelId,
    pub needs: u32,
    pub pages: u32,
}

/// Why weights could not be loaded.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LoadError {
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error("weights cannot be copied to the device: {0}")]
    Driver(#[from] CallError),
    #[error("weights cannot be loaded during a restart of the device: load them again afterwards")]
    Down,
}
