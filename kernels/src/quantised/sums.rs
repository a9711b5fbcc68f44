//! Vectors of i32 sums into which bytes are multiplied, one type an instruction set.
//!
//! As with [`simd`](crate::simd): everything is `#[inline(always)]` into a function that has the `#[target_feature]`.

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(super) use neon::NeonDot;
pub(super) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Vnni};

use super::rounding::Rounding;
use crate::Isa;

/// What four-lane code takes from each byte of an input before it multiplies: NEON's dot product
/// wants both factors signed. The packed weights' biases make up for it.
pub(super) const fn offset(lanes: usize) -> u8 {
    if lanes == 4 { 128 } else { 0 }
}

/// Which of them computes, for the instruction set that fixes the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    /// AVX-512 with its dot product of bytes: 16 lanes.
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// AVX2, by pairs of 16-bit products: 8 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// NEON with its dot product of bytes: 4 lanes.
    #[cfg(target_arch = "aarch64")]
    NeonDot,
    /// Plain Rust, as many lanes as the instruction set has.
    Portable(usize),
}

impl Sums {
    /// The fastest one for `isa`, which this processor has.
    pub fn of(isa: Isa) -> Sums {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512
                if std::arch::is_x86_feature_detected!("avx512vnni")
                    && std::arch::is_x86_feature_detected!("avx512bw") =>
            {
                Sums::Vnni
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2Fma => Sums::Avx2,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon if std::arch::is_aarch64_feature_detected!("dotprod") => Sums::NeonDot,
            _ => Sums::Portable(isa.lanes()),
        }
    }

    /// Those that this processor has, for tests.
    #[cfg(test)]
    pub fn available() -> Vec<(Isa, Sums)> {
        let fastest = Isa::available().map(|isa| (isa, Sums::of(isa)));
        let portable = Isa::available().map(|isa| (isa, Sums::Portable(isa.lanes())));
        fastest.chain(portable).collect()
    }
}

/// A vector of `LANES` i32 sums. Each lane has a group of four bytes in `Pixels` and in `Weights`.
///
/// # Safety
/// Of every method: the processor has the instruction set, and pointers are valid for what is read
/// or written there; they need no alignment.
pub(super) trait Vector: Copy {
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
