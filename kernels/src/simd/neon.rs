//! AArch64 Advanced SIMD.

use core::arch::aarch64::{
    float32x4_t, uint8x16_t, vaddq_f32, vaddq_s32, vandq_s32, vbslq_f32, vceqq_f32, vcltq_f32,
    vcvtnq_s32_f32, vcvtq_f32_s32, vdivq_f32, vdupq_n_f32, vdupq_n_s32, vfmaq_f32, vfmaq_laneq_f32,
    vld1q_f32, vld1q_u8, vmaxq_f32, vminq_f32, vmulq_f32, vorrq_s32, vqtbx1q_u8,
    vreinterpretq_f32_f64, vreinterpretq_f32_s32, vreinterpretq_f32_u8, vreinterpretq_f64_f32,
    vreinterpretq_s32_f32, vreinterpretq_u8_f32, vrndnq_f32, vshlq_n_s32, vshrq_n_s32, vsqrtq_f32,
    vst1q_f32, vsubq_f32, vsubq_s32, vzip1q_f32, vzip1q_f64, vzip2q_f32, vzip2q_f64,
};

use super::vector::{LaneMap, Vector};

#[derive(Clone, Copy)]
pub(crate) struct Neon(float32x4_t);

// SAFETY (of every block): the trait's promises are the intrinsics' conditions.
#[allow(clippy::undocumented_unsafe_blocks, unused_unsafe)]
impl Vector for Neon {
    const LANES: usize = 4;
    const REGISTERS: usize = 32;
    const MULTIPLIES_BY_LANE: bool = true;
    /// Positions of bytes; those beyond a vector keep what is there.
    type Lanes = uint8x16_t;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Neon(unsafe { vdupq_n_f32(value) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Neon(unsafe { vld1q_f32(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { vst1q_f32(to, self.0) }
    }

    #[inline(always)]
    unsafe fn load_fours(from: *const f32, _step: usize) -> Self {
        unsafe { Self::load(from) }
    }

    #[inline(always)]
    unsafe fn alternate_low(self, other: Self) -> Self {
        Neon(unsafe { vzip1q_f32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn alternate_high(self, other: Self) -> Self {
        Neon(unsafe { vzip2q_f32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn low_halves(self, other: Self) -> Self {
        Neon(unsafe {
            let (own, other) = (
                vreinterpretq_f64_f32(self.0),
                vreinterpretq_f64_f32(other.0),
            );
            vreinterpretq_f32_f64(vzip1q_f64(own, other))
        })
    }

    #[inline(always)]
    unsafe fn high_halves(self, other: Self) -> Self {
        Neon(unsafe {
            let (own, other) = (
                vreinterpretq_f64_f32(self.0),
                vreinterpretq_f64_f32(other.0),
            );
            vreinterpretq_f32_f64(vzip2q_f64(own, other))
        })
    }

    #[inline(always)]
    unsafe fn mul_add(self, a: Self, b: Self) -> Self {
        Neon(unsafe { vfmaq_f32(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn mul_add_lane<const LANE: i32>(self, a: Self, b: Self) -> Self {
        Neon(unsafe { vfmaq_laneq_f32::<LANE>(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Neon(unsafe { vaddq_f32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Neon(unsafe { vsubq_f32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Neon(unsafe { vmulq_f32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        Neon(unsafe { vdivq_f32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn round(self) -> Self {
        Neon(unsafe { vrndnq_f32(self.0) })
    }

    #[inline(always)]
    unsafe fn scale(self, exponent: Self) -> Self {
        // The bits of 2^n for a normal number: its biased exponent.
        Neon(unsafe {
            let biased = vaddq_s32(vcvtnq_s32_f32(exponent.0), vdupq_n_s32(127));
            vmulq_f32(self.0, vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased)))
        })
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        Neon(unsafe { vmaxq_f32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        Neon(unsafe { vsqrtq_f32(self.0) })
    }

    #[inline(always)]
    unsafe fn clamp(self, low: Self, high: Self) -> Self {
        // These two hand a NaN on.
        Neon(unsafe { vminq_f32(vmaxq_f32(self.0, low.0), high.0) })
    }

    #[inline(always)]
    unsafe fn where_less(self, other: Self, yes: Self, no: Self) -> Self {
        Neon(unsafe { vbslq_f32(vcltq_f32(self.0, other.0), yes.0, no.0) })
    }

    #[inline(always)]
    unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self {
        Neon(unsafe { vbslq_f32(vceqq_f32(self.0, other.0), yes.0, no.0) })
    }

    #[inline(always)]
    unsafe fn split(self) -> (Self, Self) {
        unsafe {
            let bits = vreinterpretq_s32_f32(self.0);
            let fraction = vandq_s32(bits, vdupq_n_s32(0x007f_ffff));
            let significand = vorrq_s32(fraction, vdupq_n_s32(0x3f80_0000));
            let exponent = vsubq_s32(vshrq_n_s32::<23>(bits), vdupq_n_s32(127));
            (
                Neon(vreinterpretq_f32_s32(significand)),
                Neon(vcvtq_f32_s32(exponent)),
            )
        }
    }

    #[inline(always)]
    unsafe fn lanes(from: &LaneMap) -> Self::Lanes {
        let mut bytes = [u8::MAX; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let from = from[at / 4];
            if from >= 0 {
                *byte = (from as usize * 4 + at % 4) as u8;
            }
        }
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn pick(self, other: Self, lanes: Self::Lanes) -> Self {
        Neon(unsafe {
            let (own, other) = (vreinterpretq_u8_f32(self.0), vreinterpretq_u8_f32(other.0));
            vreinterpretq_f32_u8(vqtbx1q_u8(own, other, lanes))
        })
    }
}
