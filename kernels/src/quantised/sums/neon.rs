//! AArch64 with the dot product of bytes (FEAT_DotProd, Armv8.2).

use core::arch::aarch64::{
    int8x16_t, int32x4_t, vdupq_n_u8, vdupq_n_u32, veorq_u8, vld1q_s8, vld1q_s32,
    vreinterpretq_s8_u8, vreinterpretq_u8_u32, vst1q_s32,
};
use core::arch::asm;

use super::portable::Portable;
use super::vector::{Vector, offset};
use crate::quantised::rounding::Rounding;

#[derive(Clone, Copy)]
pub(in crate::quantised) struct NeonDot(int32x4_t);

impl NeonDot {
    #[inline(always)]
    unsafe fn portable(self) -> Portable<4> {
        let mut sums = [0; 4];
        // SAFETY: the caller has NEON; the array is as large as the vector.
        unsafe { vst1q_s32(sums.as_mut_ptr(), self.0) };
        Portable::new(sums)
    }
}

/// Four bytes a lane, less 128 each: both factors of `sdot` are signed.
///
/// # Safety
/// The processor has NEON.
#[inline(always)]
unsafe fn signed(lanes: core::arch::aarch64::uint32x4_t) -> int8x16_t {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = vreinterpretq_u8_u32(lanes);
        vreinterpretq_s8_u8(veorq_u8(bytes, vdupq_n_u8(offset(4))))
    }
}

// SAFETY (of every block): the trait's promises are the intrinsics' conditions.
#[allow(clippy::undocumented_unsafe_blocks, unused_unsafe)]
impl Vector for NeonDot {
    const LANES: usize = 4;
    type Pixels = int8x16_t;
    type Weights = int8x16_t;

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        NeonDot(unsafe { vld1q_s32(from) })
    }

    #[inline(always)]
    unsafe fn weights(from: *const i8) -> Self::Weights {
        unsafe { vld1q_s8(from) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self::Pixels {
        unsafe { signed(vdupq_n_u32(from.cast::<u32>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn spread(from: *const u8) -> Self::Pixels {
        let lanes = unsafe { from.cast::<[u8; 4]>().read() }.map(u32::from);
        unsafe { signed(core::arch::aarch64::vld1q_u32(lanes.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn dot(self, pixels: Self::Pixels, weights: Self::Weights) -> Self {
        let mut sums = self.0;
        // By its name, since the intrinsic is not stable yet.
        unsafe {
            asm!(
                "sdot {sums:v}.4s, {pixels:v}.16b, {weights:v}.16b",
                sums = inout(vreg) sums,
                pixels = in(vreg) pixels,
                weights = in(vreg) weights,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        NeonDot(sums)
    }

    #[inline(always)]
    unsafe fn store_bytes(self, scales: *const f32, rounding: &Rounding, to: *mut u8) {
        unsafe { self.portable().store_bytes(scales, rounding, to) }
    }

    #[inline(always)]
    unsafe fn store_floats(self, scales: *const f32, low: f32, high: f32, to: *mut f32) {
        unsafe { self.portable().store_floats(scales, low, high, to) }
    }
}
