//! What is measured on a GPU in addition to the contract of its device.
//!
//! | module | what it measures |
//! |---|---|
//! | [`launcher`] | one launch at a time: its output, and how long it takes |
//! | [`recipe`] | launches whose outputs or rates are known |
//! | [`holding`] | how soon launches that only take time are evicted |
//! | [`scores`] | class scores of every exit of a network |
//! | [`cold_start`] | when a network's exits answer that is started from its package file |
//!
//! # Unsafe code
//! Launches: a kernel does with its addresses what it likes.

pub mod cold_start;
pub mod holding;
pub mod launcher;
pub mod recipe;
pub mod scores;

use punctual_device_cuda::driver::{Attribute, CallError, Gpu};
use punctual_device_cuda::lower::Target;

/// All of a device.
fn target(gpu: Gpu, page_bytes: u32) -> Result<Target, CallError> {
    Ok(Target {
        multiprocessors: gpu.attribute(Attribute::Multiprocessors)?,
        compute_capability: gpu.compute_capability()?,
        page_bytes,
    })
}
