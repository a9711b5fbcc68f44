//! The vocabulary that crates share: what a frame is, an activation, a window, a byte; and numbers from a seed.
//!
//! Some of it is written to packages and plans, whose bytes follow from the order of fields and variants.
#![deny(unsafe_code)]

mod activation;
mod answer;
mod attention;
mod cell;
mod detection;
mod element;
mod frame;
mod function;
pub mod half;
mod index;
mod letterbox;
mod piece;
mod quantisation;
mod random;
mod ranking;
mod resampling;
mod sampling;
#[allow(unsafe_code, reason = "memory that others write to")]
mod shared_bytes;
mod view;
mod window;

pub use activation::Activation;
pub use answer::{
    AREA_BYTES_MAX, AREA_HEAD_BYTES, AnswerKind, DESCRIPTION_BYTES_MAX, OUTPUT_ALIGNMENT,
};
pub use attention::HEAD_CHANNELS_MAX;
pub use cell::{Cell, HIDDEN_UNITS_MAX};
pub use detection::{
    BoxForm, CANDIDATES_MAX, DETECTION_VALUES, DETECTIONS_MAX, Decoder, Scoring, clean,
};
pub use element::Element;
pub use frame::{
    FrameError, FrameLayout, PixelFormat, SIDE_MAX, Size, VECTOR_LENGTH_MAX, VECTORS_MAX,
};
pub use function::{BinaryFunction, UnaryFunction};
pub use index::position;
pub use letterbox::{Fit, Letterbox};
pub use piece::{PIECES_MAX, Piece, PieceError};
pub use quantisation::Quantisation;
pub use random::{Random, mix};
pub use ranking::Ranking;
pub use resampling::{Between, Coordinates, Direction, Filter, Resampling, Rounding};
pub use sampling::{Interpolation, Outside, Sampling, Taps};
pub use shared_bytes::{FrameMemory, HeldBytes, SharedBytes};
pub use view::{Axis, Digit, View};
pub use window::{Extent, Padding, PoolKind, Window, WindowError};
