//! What every vector of sums can do.

use crate::quantised::rounding::Rounding;

/// What four-lane code takes from each byte of an input before it multiplies: NEON's dot product
/// wants both factors signed. The packed weights' biases make up for it.
pub(in crate::quantised) const fn offset(lanes: usize) -> u8 {
    if lanes == 4 { 128 } else { 0 }
}

/// A vector of `LANES` i32 sums. Each lane has a group of four bytes in `Pixels` and in `Weights`.
///
/// # Safety
/// Of every method: the processor has the instruction set, and pointers are valid for what is read
/// or written there; they need no alignment.
pub(in crate::quantised) trait Vector: Copy {
    const LANES: usize;
    /// Four u8 a lane.
    type Pixels: Copy;
    /// Four i8 a lane.
    type Weights: Copy;

    /// `LANES` sums from memory.
    unsafe fn load(from: *const i32) -> Self;
    /// `4 * LANES` weights.
    unsafe fn weights(from: *const i8) -> Self::Weights;
    /// The same four bytes for every lane.
    unsafe fn broadcast(from: *const u8) -> Self::Pixels;
    /// `LANES` bytes, one a lane; the weights of a lane's other three must be zero.
    unsafe fn spread(from: *const u8) -> Self::Pixels;
    /// Adds each lane's four products of `pixel - offset` and weight; wraps around.
    unsafe fn dot(self, pixels: Self::Pixels, weights: Self::Weights) -> Self;
    /// Each sum times its scale, rounded to a byte: `LANES` of each.
    unsafe fn store_bytes(self, scales: *const f32, rounding: &Rounding, to: *mut u8);
    /// Each sum times its scale, clipped: `LANES` of each.
    unsafe fn store_floats(self, scales: *const f32, low: f32, high: f32, to: *mut f32);
}
