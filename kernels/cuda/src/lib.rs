//! The CUDA kernels as the host sees them: names, parameters, launch contracts. The sources are
//! in the same folder as this file, their compiled images in `kernels/cuda/images`.
//!
//! # Conventions of all kernels
//! - `extern "C" __global__ void NAME(Guard guard, P params)` with `P` from [`params`], both by value.
//! - Activations are halves (`f16`) in NHWC order: `[image][row][column][channel]`, the channels of a
//!   pixel padded to a multiple of [`CHANNEL_STEP`] with zeros ([`TensorView::pitch`]). A kernel that
//!   writes a tensor writes its padding as zeros.
//! - Sums are `f32`, and rounded to half once, after bias, residual and activation.
//! - Every block begins with the check of its [`Guard`](params::Guard), and so does every tile of a long main loop.
//!   A block that finds another epoch writes nothing more, notes the launch's index and ends. As no
//!   kernel's output lies on its inputs, and none counts anything up in memory, such a launch is simply run
//!   again, from its start.
//! - The grid depends on the parameters alone, so a list of launches is static.

#[macro_use]
mod declaration;

mod arguments;
pub mod contract;
#[cfg(test)]
mod header;
pub mod images;
pub mod params;
pub mod table;

pub use arguments::Arguments;
pub use params::TensorView;
pub use table::{KERNELS, Kernel, Module, Tile, kernel};

/// Channels of a pixel are padded to a multiple of this: 16 bytes of halves, one vector load.
pub const CHANNEL_STEP: u32 = 8;

/// Most images that one launch computes, and so the members of a batch.
pub const IMAGES_MAX: usize = 32;

#[must_use]
pub const fn padded(channels: u32) -> u32 {
    channels.next_multiple_of(CHANNEL_STEP)
}
