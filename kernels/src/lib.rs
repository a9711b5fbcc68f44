//! CPU kernels on plain slices. Tests compare them with what operators mean, `punctual_model::reference`.
//!
//! A kernel is made once (`Conv2d::new`, ...): shapes are checked, the code for the instruction set
//! chosen. It owns no weights: `pack` writes them, in the kernel's own order, to `packed_len` floats that
//! somebody else keeps, and `run` is given them again. Running (`run(packed, part, images)`) cannot fail,
//! does not allocate, and writes every element of the output slices it is given, halo included.
//!
//! - Where values lie: [`BlockedLayout`], [`PlanarLayout`] (`layout.rs`).
//! - Several cores: each runs the same kernel with its own [`Part`]; [`BlockedLayout::part`] says
//!   which contiguous, disjoint slice of the output that part writes. Between two operators all
//!   cores must meet, because each reads the whole input.
//! - Batches: one [`Image`] for each member; their tensors may lie anywhere.

mod activation;
mod aligned;
mod attention;
mod best_score;
mod conv;
mod copy;
mod detections;
mod elementwise;
mod error;
mod functions;
mod gather;
mod grid_sample;
mod image;
mod isa;
mod kernel;
mod layer_norm;
mod layout;
mod linear;
mod pool;
pub mod preprocess;
mod product;
pub mod quantised;
mod recurrent;
mod resize;
mod shape;
mod simd;
mod softmax;
mod softmax_along;
mod spec;
mod take;
mod tiles;
mod tokens;
mod top_k;
mod window;

pub use aligned::AlignedBuffer;
pub use attention::*;
pub use best_score::*;
pub use conv::*;
pub use copy::*;
pub use detections::*;
pub use elementwise::*;
pub use error::KernelError;
pub use gather::*;
pub use grid_sample::*;
pub use image::{INPUTS_MAX, Image, Inputs};
pub use isa::Isa;
pub use kernel::{Kernel, Weights};
pub use layer_norm::*;
pub use layout::{BlockedLayout, Element, Part, PlanarLayout};
pub use linear::*;
pub use pool::*;
pub use product::*;
pub use recurrent::*;
pub use resize::*;
pub use shape::Shape;
pub use softmax::{Top1, softmax_top1};
pub use softmax_along::*;
pub use take::*;
pub use tokens::*;
pub use top_k::*;
