//! A CUDA driver library for machines without a GPU: it runs our kernels, compiled for the processor,
//! block by block. Nothing about time can be learnt from it.
pub mod block;
mod run;

pub use run::{Parameter, RunError, Shape, run, run_watched};
