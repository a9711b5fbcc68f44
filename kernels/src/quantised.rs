//! Operators on bytes: u8 activations and i8 weights, as ONNX's QuantizeLinear and DequantizeLinear describe them.
//!
//! A byte `q` of a tensor with a [`Quantisation`] stands for `(q - zero) * scale`. Sums are made in
//! i32, exactly; a sum becomes a byte again by one multiplication in f32 and one rounding, half to
//! even, that saturates ([`rounding`]). So every instruction set gives the same bytes, those of
//! [`reference`].
//!
//! Bytes lie in memory of floats, see [`BlockedLayout`](crate::BlockedLayout): whoever plans and
//! shares the memory need not know of them.

mod add;
mod conv;
mod convert;
mod memory;
mod pool;
pub mod reference;
mod rounding;
mod sums;

pub use self::add::Add;
pub use self::conv::{Conv2d, Conv2dSpec};
pub use self::convert::{Convert, ConvertSpec};
pub(crate) use self::memory::{bytes, bytes_mut};
pub use self::pool::Pool;
use crate::KernelError;

/// What the bytes of a tensor stand for: `(q - zero) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantisation {
    /// What a step is worth: more than zero.
    pub scale: f32,
    /// The byte that means zero.
    pub zero: u8,
}

impl Quantisation {
    pub(crate) fn check(self) -> Result<(), KernelError> {
        if self.scale.is_normal() && self.scale > 0.0 {
            Ok(())
        } else {
            Err(KernelError::Scale { scale: self.scale })
        }
    }
}
