//! Operators on bytes: u8 activations and i8 weights, as ONNX's QuantizeLinear and DequantizeLinear describe them.
//!
//! A byte `q` of a tensor with a [`Quantisation`] stands for `(q - zero) * scale`. Sums are made in
//! i32, exactly; a sum becomes a byte again by one multiplication in f32 and one rounding, half to
//! even, that saturates ([`rounding`]). So every instruction set gives the same bytes.
//!
//! Bytes lie in memory of floats, see [`BlockedLayout`](crate::BlockedLayout): code that plans and
//! shares the memory need not know of them.

mod add;
mod conv;
mod convert;
mod memory;
mod pool;
mod rounding;
mod sums;

pub use self::add::{Add, AddSpec};
pub use self::conv::{Conv2d, Conv2dSpec};
pub use self::convert::{Convert, ConvertSpec, PLANES_MAX};
pub(crate) use self::memory::{bytes, bytes_mut};
pub use self::pool::Pool;
