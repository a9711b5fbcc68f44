//! Which TPCs a CUDA stream may use: libsmctrl's C API found at run time, and the same effect natively.
//! No policy: the caller decides what is masked, and whether a mask is trusted.
//!
//! | module | what it gives |
//! |---|---|
//! | [`mask`] | [`TpcMask`]: a set of TPCs that is never confused with its complement |
//! | [`key`] | [`DriverKey`]: what an offset in the driver's objects depends on |
//! | [`stream_mask`] | the mask of a stream, written natively |
//! | [`launch_mask`] | the mask of a launch, written into its descriptor |
//! | [`raw`] | libsmctrl's own calls, gated and tried in a child process first |
//!
//! Nothing here links CUDA or libsmctrl. Offsets are claims of public sources, to be confirmed by launching a kernel
//! under each mask before one is trusted; those of CUDA 13.0 on x86-64 were, on an H200 (`docs/results/hopper.md`).

pub mod key;
pub mod launch_mask;
pub mod mask;
pub mod raw;
pub mod stream_mask;

pub use key::{Architecture, CudaVersion, DriverKey, NoDrivers, Soc};
pub use mask::TpcMask;
