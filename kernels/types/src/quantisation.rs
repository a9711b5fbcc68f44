//! What bytes stand for.

use serde::{Deserialize, Serialize};

/// What the bytes of a tensor stand for: `(q - zero) * scale`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantisation {
    /// What a step is worth: [a size](Self::is_step).
    pub scale: f32,
    /// The byte that means zero.
    pub zero: u8,
}

impl Quantisation {
    /// Whether `scale` is the size of a step: more than zero, and a number that can be divided by.
    #[must_use]
    pub fn is_step(scale: f32) -> bool {
        scale.is_normal() && scale > 0.0
    }
}
