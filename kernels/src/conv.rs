//! Convolution with bias, residual and activation.

mod clip;
mod direct;
mod minimal;
mod order;
mod packed;
mod solution;
mod spec;
mod strip;
mod tiles;
mod transform;
mod winograd;

pub use self::direct::Conv2d;
pub use self::solution::Solution;
pub use self::spec::{Conv2dSpec, ConvInput};
pub use self::winograd::Winograd;
