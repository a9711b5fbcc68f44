//! x86-64: AVX-512F and AVX2 with FMA.

use core::arch::x86_64::{
    __m256, __m512, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_add_epi32, _mm256_add_ps,
    _mm256_castsi256_ps, _mm256_cvtps_epi32, _mm256_div_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_round_ps, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_slli_epi32, _mm256_storeu_ps, _mm256_sub_ps, _mm512_add_ps,
    _mm512_div_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps,
    _mm512_roundscale_ps, _mm512_scalef_ps, _mm512_set1_ps, _mm512_storeu_ps, _mm512_sub_ps,
};

use super::Vector;

/// Rounds to the nearest whole number, the even one of two.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// Implements [`Vector`] by the named intrinsics.
macro_rules! vector {
    ($name:ident($register:ty), $lanes:literal, $splat:ident, $load:ident, $store:ident,
     $fmadd:ident, $add:ident, $sub:ident, $mul:ident, $div:ident, $max:ident, $min:ident,
     $round:ident, |$value:ident, $exponent:ident| $scale:expr) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        // SAFETY (of every block): the trait's promises are the intrinsics' conditions.
        #[allow(clippy::undocumented_unsafe_blocks)]
        impl Vector for $name {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: f32) -> Self {
                $name(unsafe { $splat(value) })
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                $name(unsafe { $load(from) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                unsafe { $store(to, self.0) }
            }

            #[inline(always)]
            unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                $name(unsafe { $fmadd(a.0, b.0, self.0) })
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                $name(unsafe { $add(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn sub(self, other: Self) -> Self {
                $name(unsafe { $sub(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                $name(unsafe { $mul(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn div(self, other: Self) -> Self {
                $name(unsafe { $div(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn round(self) -> Self {
                $name(unsafe { $round::<NEAREST>(self.0) })
            }

            #[inline(always)]
            unsafe fn scale(self, exponent: Self) -> Self {
                let ($value, $exponent) = (self.0, exponent.0);
                $name(unsafe { $scale })
            }

            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                $name(unsafe { $max(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn clamp(self, low: Self, high: Self) -> Self {
                // Both instructions return their second operand if either is NaN.
                $name(unsafe { $min(high.0, $max(low.0, self.0)) })
            }
        }
    };
}

vector!(
    Avx512(__m512),
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_div_ps,
    _mm512_max_ps,
    _mm512_min_ps,
    _mm512_roundscale_ps,
    |value, exponent| _mm512_scalef_ps(value, exponent)
);
vector!(
    Avx2Fma(__m256),
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_div_ps,
    _mm256_max_ps,
    _mm256_min_ps,
    _mm256_round_ps,
    |value, exponent| {
        // The bits of 2^n for a normal number: its biased exponent.
        let biased = _mm256_add_epi32(_mm256_cvtps_epi32(exponent), _mm256_set1_epi32(127));
        _mm256_mul_ps(value, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
    }
);
