//! x86-64: AVX-512F and AVX2 with FMA.

use core::arch::x86_64::{
    __m256, __m256i, __m512, __m512i, __mmask16, _CMP_EQ_OQ, _CMP_LT_OQ, _MM_FROUND_NO_EXC,
    _MM_FROUND_TO_NEAREST_INT, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC, _mm_loadu_ps,
    _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256, _mm256_blendv_ps, _mm256_castps_pd,
    _mm256_castps_si256, _mm256_castps128_ps256, _mm256_castsi256_ps, _mm256_cmp_ps,
    _mm256_cvtepi32_ps, _mm256_cvtps_epi32, _mm256_div_ps, _mm256_fmadd_ps, _mm256_insertf128_ps,
    _mm256_loadu_ps, _mm256_loadu_si256, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
    _mm256_or_si256, _mm256_permutevar8x32_ps, _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_sqrt_ps, _mm256_srli_epi32, _mm256_storeu_ps,
    _mm256_sub_epi32, _mm256_sub_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps, _mm512_add_ps,
    _mm512_castpd_ps, _mm512_castpd256_pd512, _mm512_cmp_ps_mask, _mm512_cmpge_epi32_mask,
    _mm512_div_ps, _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_getexp_ps, _mm512_getmant_ps,
    _mm512_insertf64x4, _mm512_loadu_epi32, _mm512_loadu_ps, _mm512_mask_blend_ps,
    _mm512_mask_permutexvar_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_rcp14_ps,
    _mm512_roundscale_ps, _mm512_scalef_ps, _mm512_set1_ps, _mm512_setzero_si512,
    _mm512_shuffle_ps, _mm512_sqrt_ps, _mm512_storeu_ps, _mm512_sub_ps, _mm512_unpackhi_ps,
    _mm512_unpacklo_ps,
};

use super::vector::{LaneMap, Vector};

/// Rounds to the nearest whole number, the even one of two.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// The first two of each four lanes, and the last two.
const LOW_HALVES: i32 = 0b01_00_01_00;
const HIGH_HALVES: i32 = 0b11_10_11_10;

/// Implements [`Vector`] by the named intrinsics.
macro_rules! vector {
    ($name:ident($register:ty), $count:literal, $registers:literal, $splat:ident, $load:ident, $store:ident,
     |$first:ident, $step:ident| $fours:expr, $alternate_low:ident, $alternate_high:ident, $shuffle:ident,
     $fmadd:ident, $add:ident, $sub:ident, $mul:ident, $div:ident, $max:ident, $min:ident, $sqrt:ident,
     $round:ident, $compare:ident, $choose:ident, |$whole:ident| $split:expr, |$value:ident, $exponent:ident| $scale:expr,
     $lane_map:ty = |$from:ident| $lanes:expr, |$own:ident, $other:ident, $map:ident| $pick:expr $(, |$divisor:ident| $reciprocal:expr)?) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        // SAFETY (of every block): the trait's promises are the intrinsics' conditions.
        #[allow(clippy::undocumented_unsafe_blocks)]
        impl Vector for $name {
            const LANES: usize = $count;
            const REGISTERS: usize = $registers;
            type Lanes = $lane_map;

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
            unsafe fn load_fours($first: *const f32, $step: usize) -> Self {
                $name(unsafe { $fours })
            }

            #[inline(always)]
            unsafe fn alternate_low(self, other: Self) -> Self {
                $name(unsafe { $alternate_low(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn alternate_high(self, other: Self) -> Self {
                $name(unsafe { $alternate_high(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn low_halves(self, other: Self) -> Self {
                $name(unsafe { $shuffle::<LOW_HALVES>(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn high_halves(self, other: Self) -> Self {
                $name(unsafe { $shuffle::<HIGH_HALVES>(self.0, other.0) })
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

            $(
                #[inline(always)]
                unsafe fn reciprocal(self) -> Self {
                    let $divisor = self.0;
                    $name(unsafe { $reciprocal })
                }
            )?

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
            unsafe fn lanes(from: &LaneMap) -> Self::Lanes {
                let $from = from.as_ptr();
                unsafe { $lanes }
            }

            #[inline(always)]
            unsafe fn pick(self, other: Self, lanes: Self::Lanes) -> Self {
                let ($own, $other, $map) = (self.0, other.0, lanes);
                $name(unsafe { $pick })
            }

            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                $name(unsafe { $max(self.0, other.0) })
            }

            // The instructions give the second of their operands where either is a NaN.
            #[inline(always)]
            unsafe fn larger(self, other: Self) -> Self {
                $name(unsafe { $max(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn smaller(self, other: Self) -> Self {
                $name(unsafe { $min(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn sqrt(self) -> Self {
                $name(unsafe { $sqrt(self.0) })
            }

            #[inline(always)]
            unsafe fn clamp(self, low: Self, high: Self) -> Self {
                // Both instructions return their second operand if either is NaN.
                $name(unsafe { $min(high.0, $max(low.0, self.0)) })
            }

            #[inline(always)]
            unsafe fn where_less(self, other: Self, yes: Self, no: Self) -> Self {
                $name(unsafe { $choose(no.0, yes.0, $compare::<_CMP_LT_OQ>(self.0, other.0)) })
            }

            #[inline(always)]
            unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self {
                $name(unsafe { $choose(no.0, yes.0, $compare::<_CMP_EQ_OQ>(self.0, other.0)) })
            }

            #[inline(always)]
            unsafe fn split(self) -> (Self, Self) {
                let $whole = self.0;
                let (significand, exponent) = unsafe { $split };
                ($name(significand), $name(exponent))
            }
        }
    };
}

/// `yes` where the mask is set, else `no`; operands in the order that blends of narrower vectors take them.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
unsafe fn select(no: __m512, yes: __m512, mask: __mmask16) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_mask_blend_ps(mask, no, yes) }
}

vector!(
    Avx512(__m512),
    16,
    32,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    |from, step| {
        let halves = Avx2Fma::load_fours(from, step).0;
        let others = Avx2Fma::load_fours(from.wrapping_add(2 * step), step).0;
        let (halves, others) = (_mm256_castps_pd(halves), _mm256_castps_pd(others));
        _mm512_castpd_ps(_mm512_insertf64x4::<1>(
            _mm512_castpd256_pd512(halves),
            others,
        ))
    },
    _mm512_unpacklo_ps,
    _mm512_unpackhi_ps,
    _mm512_shuffle_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_div_ps,
    _mm512_max_ps,
    _mm512_min_ps,
    _mm512_sqrt_ps,
    _mm512_roundscale_ps,
    _mm512_cmp_ps_mask,
    select,
    |whole| {
        let significand = _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC>(whole);
        (significand, _mm512_getexp_ps(whole))
    },
    |value, exponent| _mm512_scalef_ps(value, exponent),
    (__mmask16, __m512i) = |from| {
        let from = _mm512_loadu_epi32(from);
        (_mm512_cmpge_epi32_mask(from, _mm512_setzero_si512()), from)
    },
    |own, other, map| _mm512_mask_permutexvar_ps(own, map.0, map.1, other),
    |divisor| {
        // A step of Newton's doubles the estimate's 14 bits; a division takes as long as ten
        // multiplications.
        let estimate = _mm512_rcp14_ps(divisor);
        let rest = _mm512_fnmadd_ps(divisor, estimate, _mm512_set1_ps(1.0));
        _mm512_fmadd_ps(estimate, rest, estimate)
    }
);
vector!(
    Avx2Fma(__m256),
    8,
    16,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    |from, step| {
        let low = _mm256_castps128_ps256(_mm_loadu_ps(from));
        _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(from.wrapping_add(step)))
    },
    _mm256_unpacklo_ps,
    _mm256_unpackhi_ps,
    _mm256_shuffle_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_div_ps,
    _mm256_max_ps,
    _mm256_min_ps,
    _mm256_sqrt_ps,
    _mm256_round_ps,
    _mm256_cmp_ps,
    _mm256_blendv_ps,
    |whole| {
        let bits = _mm256_castps_si256(whole);
        let fraction = _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff));
        let significand = _mm256_or_si256(fraction, _mm256_set1_epi32(0x3f80_0000));
        let exponent = _mm256_sub_epi32(_mm256_srli_epi32::<23>(bits), _mm256_set1_epi32(127));
        (
            _mm256_castsi256_ps(significand),
            _mm256_cvtepi32_ps(exponent),
        )
    },
    |value, exponent| {
        // The bits of 2^n for a normal number: its biased exponent.
        let biased = _mm256_add_epi32(_mm256_cvtps_epi32(exponent), _mm256_set1_epi32(127));
        _mm256_mul_ps(value, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
    },
    __m256i = |from| _mm256_loadu_si256(from.cast()),
    // The blend goes by the sign, which is that of `KEPT`.
    |own, other, map| {
        _mm256_blendv_ps(
            _mm256_permutevar8x32_ps(other, map),
            own,
            _mm256_castsi256_ps(map),
        )
    }
);
