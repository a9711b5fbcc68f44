//! x86-64: AVX-512F and AVX2 with FMA.

use core::arch::x86_64::{
    __m256, __m512, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps,
    _mm256_mul_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_storeu_ps,
};

use super::Vector;

/// Implements [`Vector`] by the named intrinsics.
macro_rules! vector {
    ($name:ident($register:ty), $lanes:literal, $splat:ident, $load:ident, $store:ident,
     $fmadd:ident, $add:ident, $mul:ident, $max:ident, $min:ident) => {
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
            unsafe fn mul(self, other: Self) -> Self {
                $name(unsafe { $mul(self.0, other.0) })
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
    _mm512_mul_ps,
    _mm512_max_ps,
    _mm512_min_ps
);
vector!(
    Avx2Fma(__m256),
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_mul_ps,
    _mm256_max_ps,
    _mm256_min_ps
);
