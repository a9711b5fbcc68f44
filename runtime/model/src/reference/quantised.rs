//! Rounding to bytes. A tensor of bytes is its bytes, each as a float that is a whole number.

use punctual_types::{Activation, Quantisation};

/// Rounds a value, counted in steps of `to`, to one of its bytes: half to even, none outside the
/// activation's bounds, which are rounded to bytes themselves.
pub(crate) fn round(steps: f32, to: Quantisation, activation: Activation) -> f32 {
    let zero = f32::from(to.zero);
    let byte = |value: f32| (value.round_ties_even() + zero).clamp(0.0, 255.0);
    let (low, high) = activation.bounds();
    byte(steps).clamp(byte(low / to.scale), byte(high / to.scale))
}

/// What a step of `from` is worth in steps of `to`.
pub(crate) fn ratio(from: f32, to: Quantisation) -> f32 {
    (f64::from(from) / f64::from(to.scale)) as f32
}
