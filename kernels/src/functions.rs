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
    // SAFETY: the caller's promise.
    unsafe {
        let (n, above) = exp_parts(x);
        V::splat(1.0).add(above).scale(n)
    }
}

/// `n` and `p` with `e^x = 2^n (1 + p)`, where `x` is clamped as that of [`exp`].
#[inline(always)]
unsafe fn exp_parts<V: Vector>(x: V) -> (V, V) {
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
        (n, r.mul_add(r.mul(r), polynomial(r, &TERMS)))
    }
}

/// `e^x - 1`; error below 2.5e-7 of the larger of the result's magnitude and `e^x`, so that it is accurate near 0.
#[inline(always)]
unsafe fn exp_minus_one<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let (n, above) = exp_parts(x);
        let one = V::splat(1.0);
        above.scale(n).add(one.scale(n).sub(one))
    }
}

/// The natural logarithm; relative error below 2.5e-7. Minus infinity for 0, NaN below.
#[inline(always)]
pub(crate) unsafe fn logarithm<V: Vector>(x: V) -> V {
    const SCALED: f32 = 16_777_216.0; // 2^24
    // SAFETY: the caller's promise.
    unsafe {
        let (zero, infinity) = (V::splat(0.0), V::splat(f32::INFINITY));
        // Subnormal numbers are scaled up, as they have no exponent of their own.
        let least = V::splat(f32::MIN_POSITIVE);
        let normal = x.where_less(least, x.mul(V::splat(SCALED)), x);
        let lifted = x.where_less(least, V::splat(24.0), zero);
        let found = logarithm_of_normal(normal, lifted);
        let found = x.where_less(infinity, found, x);
        let found = x.where_equal(zero, V::splat(f32::NEG_INFINITY), found);
        x.where_less(zero, V::splat(f32::NAN), found)
    }
}

/// The logarithm of a positive normal number divided by `2^lifted`.
#[inline(always)]
unsafe fn logarithm_of_normal<V: Vector>(x: V, lifted: V) -> V {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // (ln(1 + f) - f + f^2 / 2) / f^3 for 1 + f from sqrt(1/2) to sqrt 2.
    const TERMS: [f32; 8] = [
        -7.634_441_5e-2,
        1.276_156_8e-1,
        -1.316_019_9e-1,
        1.420_176e-1,
        -1.662_335_5e-1,
        2.000_122_7e-1,
        -2.500_082_3e-1,
        3.333_333e-1,
    ];
    // SAFETY: the caller's promise.
    unsafe {
        let (one, half) = (V::splat(1.0), V::splat(0.5));
        let (significand, exponent) = x.split();
        let root = V::splat(core::f32::consts::SQRT_2);
        let n = root.where_less(significand, exponent.add(one), exponent);
        let significand = root.where_less(significand, significand.mul(half), significand);
        let (n, f) = (n.sub(lifted), significand.sub(one));
        let square = f.mul(f);
        let rest = polynomial(f, &TERMS).mul(f).mul(square);
        let rest = rest.mul_add(n, V::splat(LN_2_LOW));
        let rest = rest.mul_add(square, V::splat(-0.5));
        f.add(rest).mul_add(n, V::splat(LN_2_HIGH))
    }
}

/// `ln(1 + e^x)`; error below 2e-7 of the result, where that is above 1e-36.
#[inline(always)]
pub(crate) unsafe fn softplus<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        let positive = x.clamp(zero, V::splat(f32::INFINITY));
        let small = exp(zero.sub(magnitude(x)));
        // The rounding error of 1 + e^-|x| matters where the sum is near 1.
        let sum = one.add(small);
        let lost = small.sub(sum.sub(one)).div(sum);
        positive.add(logarithm_of_normal(sum, zero).add(lost))
    }
}

/// `x * tanh(ln(1 + e^x))`; error below 4e-7 of the larger of 1 and `|x|`.
#[inline(always)]
pub(crate) unsafe fn mish<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        // The tanh is n / (n + 2) with n = e^x (e^x + 2), and 1 to f32's precision beyond 20.
        let two = V::splat(2.0);
        let power = exp(x.clamp(V::splat(EXP_LOW), V::splat(20.0)));
        let n = power.mul(power.add(two));
        x.mul(n.div(n.add(two)))
    }
}

/// `x / (1 + |x|)`; error below 2e-7.
#[inline(always)]
pub(crate) unsafe fn softsign<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        // Beyond these bounds the result is 1 or -1 to f32's precision; infinite values get their limit.
        let x = x.clamp(V::splat(-1e30), V::splat(1e30));
        x.div(V::splat(1.0).add(magnitude(x)))
    }
}

/// `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2`; error below 6e-7 of the larger of 1 and `|x|`.
#[inline(always)]
pub(crate) unsafe fn tanh_gelu<V: Vector>(x: V) -> V {
    const TWICE_ROOT: f32 = 1.595_769; // 2 sqrt(2 / pi)
    // SAFETY: the caller's promise.
    unsafe {
        let square = x.mul(x).mul(V::splat(0.044_715 * TWICE_ROOT));
        let twice = x.mul(V::splat(TWICE_ROOT).add(square));
        x.mul(sigmoid(twice))
    }
}

/// `slope * x` below 0, `x` above.
#[inline(always)]
pub(crate) unsafe fn leaky_relu<V: Vector>(x: V, [slope, ..]: [f32; 3]) -> V {
    // SAFETY: the caller's promise.
    unsafe { x.where_less(V::splat(0.0), x.mul(V::splat(slope)), x) }
}

/// `above * x` above 0, `below * (e^(rate * x) - 1)` below; error below 3e-7 of the larger of `|above * x|` and
/// `|below|`.
#[inline(always)]
pub(crate) unsafe fn elu<V: Vector>(x: V, [above, below, rate]: [f32; 3]) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let bent = exp_minus_one(x.mul(V::splat(rate))).mul(V::splat(below));
        x.where_less(V::splat(0.0), bent, x.mul(V::splat(above)))
    }
}

/// `|x|`; a NaN stays a NaN.
#[inline(always)]
pub(crate) unsafe fn magnitude<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(0.0);
        x.where_less(zero, zero.sub(x), x)
    }
}

/// -1 below 0 and 1 above; 0 and NaN stay as they are.
#[inline(always)]
pub(crate) unsafe fn sign<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(0.0);
        let negative = x.where_less(zero, V::splat(-1.0), x);
        zero.where_less(x, V::splat(1.0), negative)
    }
}

/// The largest integer not above `x`.
#[inline(always)]
pub(crate) unsafe fn floor<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let nearest = x.round();
        x.where_less(nearest, nearest.sub(V::splat(1.0)), nearest)
    }
}

/// The smallest integer not below `x`.
#[inline(always)]
pub(crate) unsafe fn ceiling<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let nearest = x.round();
        nearest.where_less(x, nearest.add(V::splat(1.0)), nearest)
    }
}

/// `x` rounded towards zero.
#[inline(always)]
pub(crate) unsafe fn truncate<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { x.where_less(V::splat(0.0), ceiling(x), floor(x)) }
}

/// 1 where `a = b`, else 0.
#[inline(always)]
pub(crate) unsafe fn equal<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { a.where_equal(b, V::splat(1.0), V::splat(0.0)) }
}

/// 0 where `a = b`, else 1.
#[inline(always)]
pub(crate) unsafe fn not_equal<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { a.where_equal(b, V::splat(0.0), V::splat(1.0)) }
}

/// 1 where `a < b`, else 0.
#[inline(always)]
pub(crate) unsafe fn less<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { a.where_less(b, V::splat(1.0), V::splat(0.0)) }
}

/// 1 where `a <= b`, else 0.
#[inline(always)]
pub(crate) unsafe fn less_or_equal<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { a.where_less(b, V::splat(1.0), equal(a, b)) }
}

/// `a` where `b` is not 0, else 0.
#[inline(always)]
pub(crate) unsafe fn keep_where<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { b.where_equal(V::splat(0.0), V::splat(0.0), a) }
}

/// `a` where `b` is 0, else 0.
#[inline(always)]
pub(crate) unsafe fn keep_unless<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { b.where_equal(V::splat(0.0), a, V::splat(0.0)) }
}

/// `a` above 0, `a * b` below.
#[inline(always)]
pub(crate) unsafe fn slope<V: Vector>(a: V, b: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { V::splat(0.0).where_less(a, a, a.mul(b)) }
}

/// A function computed lane by lane: for functions that are not critical for any network's time.
#[inline(always)]
pub(crate) unsafe fn lane_by_lane<V: Vector>(a: V, b: V, function: fn(f32, f32) -> f32) -> V {
    let (mut of_a, mut of_b) = ([0.0; 16], [0.0; 16]);
    // SAFETY: no vector has more lanes; otherwise the caller's promise.
    unsafe {
        a.store(of_a.as_mut_ptr());
        b.store(of_b.as_mut_ptr());
        for (a, b) in of_a.iter_mut().zip(of_b).take(V::LANES) {
            *a = function(*a, b);
        }
        V::load(of_a.as_ptr())
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
