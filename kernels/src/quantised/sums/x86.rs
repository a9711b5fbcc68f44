//! x86-64: AVX-512 VNNI and AVX2.

use core::arch::x86_64::{
    __m256i, __m512i, _mm_loadl_epi64, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_epi32,
    _mm256_and_si256, _mm256_cvtepu8_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_set1_epi16, _mm256_set1_epi32, _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srli_epi16,
    _mm256_storeu_si256, _mm512_add_epi32, _mm512_cvtepi32_epi8, _mm512_cvtepi32_ps,
    _mm512_cvtepu8_epi32, _mm512_cvtps_epi32, _mm512_dpbusd_epi32, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_storeu_ps,
};

use super::portable::Portable;
use super::vector::Vector;
use crate::quantised::rounding::Rounding;

/// AVX-512: `vpdpbusd` multiplies u8 by i8 and adds four products a lane.
#[derive(Clone, Copy)]
pub(in crate::quantised) struct Vnni(__m512i);

// SAFETY (of every block): the trait's promises are the intrinsics' conditions.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for Vnni {
    const LANES: usize = 16;
    type Pixels = __m512i;
    type Weights = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        Vnni(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn weights(from: *const i8) -> Self::Weights {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self::Pixels {
        unsafe { _mm512_set1_epi32(from.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn spread(from: *const u8) -> Self::Pixels {
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn dot(self, pixels: Self::Pixels, weights: Self::Weights) -> Self {
        Vnni(unsafe { _mm512_dpbusd_epi32(self.0, pixels, weights) })
    }

    #[inline(always)]
    unsafe fn store_bytes(self, scales: *const f32, rounding: &Rounding, to: *mut u8) {
        unsafe {
            let steps = _mm512_mul_ps(_mm512_cvtepi32_ps(self.0), _mm512_loadu_ps(scales));
            let steps = _mm512_max_ps(steps, _mm512_set1_ps(rounding.low));
            let steps = _mm512_min_ps(steps, _mm512_set1_ps(rounding.high));
            // Rounds half to even: no code here changes the processor's mode.
            let integers = _mm512_cvtps_epi32(steps);
            let integers = _mm512_add_epi32(integers, _mm512_set1_epi32(rounding.zero));
            _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(integers));
        }
    }

    #[inline(always)]
    unsafe fn store_floats(self, scales: *const f32, low: f32, high: f32, to: *mut f32) {
        unsafe {
            let values = _mm512_mul_ps(_mm512_cvtepi32_ps(self.0), _mm512_loadu_ps(scales));
            let values = _mm512_max_ps(values, _mm512_set1_ps(low));
            _mm512_storeu_ps(to, _mm512_min_ps(values, _mm512_set1_ps(high)));
        }
    }
}

/// AVX2. `vpmaddubsw` would saturate at 16 bits, so bytes are widened: the even ones and the odd
/// ones of each group of four, two products a pair, exactly.
#[derive(Clone, Copy)]
pub(in crate::quantised) struct Avx2(__m256i);

/// The even and the odd bytes of a vector as 16-bit integers.
#[derive(Clone, Copy)]
pub(in crate::quantised) struct Widened {
    even: __m256i,
    odd: __m256i,
}

impl Avx2 {
    #[inline(always)]
    unsafe fn portable(self) -> Portable<8> {
        let mut sums = [0; 8];
        // SAFETY: the caller has AVX2; the array is as large as the vector.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), self.0) };
        Portable::new(sums)
    }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn widened(bytes: __m256i) -> Widened {
    // SAFETY: the caller's promise.
    unsafe {
        Widened {
            even: _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)),
            odd: _mm256_srli_epi16::<8>(bytes),
        }
    }
}

// SAFETY (of every block): the trait's promises are the intrinsics' conditions.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for Avx2 {
    const LANES: usize = 8;
    type Pixels = Widened;
    type Weights = Widened;

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        Avx2(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn weights(from: *const i8) -> Self::Weights {
        unsafe {
            let bytes = _mm256_loadu_si256(from.cast());
            Widened {
                even: _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)),
                odd: _mm256_srai_epi16::<8>(bytes),
            }
        }
    }

    #[inline(always)]
    unsafe fn broadcast(from: *const u8) -> Self::Pixels {
        unsafe { widened(_mm256_set1_epi32(from.cast::<i32>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn spread(from: *const u8) -> Self::Pixels {
        unsafe { widened(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn dot(self, pixels: Self::Pixels, weights: Self::Weights) -> Self {
        unsafe {
            let even = _mm256_madd_epi16(pixels.even, weights.even);
            let odd = _mm256_madd_epi16(pixels.odd, weights.odd);
            Avx2(_mm256_add_epi32(_mm256_add_epi32(self.0, even), odd))
        }
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
