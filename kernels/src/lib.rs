//! CPU kernels on plain slices, and the references they are tested against.
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
mod layer_norm;
mod layout;
mod linear;
mod pool;
pub mod preprocess;
mod product;
pub mod quantised;
mod recurrent;
pub mod reference;
mod resize;
mod shape;
mod simd;
mod softmax;
mod softmax_along;
mod spec;
mod take;
mod tokens;
mod top_k;
mod window;

pub use aligned::AlignedBuffer;
pub use attention::{Attention, AttentionBias, AttentionSpec, HEAD_CHANNELS_MAX};
pub use best_score::{BestScore, BestScoreSpec};
pub use conv::{Conv2d, Conv2dSpec, ConvInput, Solution, Winograd};
pub use copy::{Copy, CopySpec, PlainCopy};
pub use detections::{Detections, DetectionsSpec};
pub use elementwise::{Binary, BinaryOperand, BinarySpec, Unary};
pub use error::KernelError;
pub use gather::{ChannelRun, Gather, GatherSpec};
pub use grid_sample::{GridSample, GridSampleSpec};
pub use image::{INPUTS_MAX, Image, Inputs};
pub use isa::Isa;
pub use layer_norm::{LayerNorm, LayerNormSpec};
pub use layout::{BlockedLayout, Element, Part, PlanarLayout};
pub use linear::{Linear, LinearSpec};
pub use pool::{GlobalAveragePool, Pool, PoolSpec};
pub use product::{Product, ProductSpec};
pub use recurrent::{Recurrent, RecurrentSpec};
pub use resize::{Resize, ResizeSpec};
pub use softmax::{Top1, softmax_top1};
pub use softmax_along::{Softmax, SoftmaxSpec};
pub use take::{Take, TakeSpec};
pub use tokens::{Embedding, Token, Tokens};
pub use top_k::{TopK, TopKSpec};
