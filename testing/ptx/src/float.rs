//! Floating-point operations as the manual defines them, where Rust's own are not the same.

use punctual_types::mix;

use crate::instruction::{Float1, Rounding};

/// How exact approximate functions and tensor cores are. Both are within what the manual allows: what a kernel
/// computes must be good enough with either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// The value nearest to the true one; sums of matrix products one after the other.
    #[default]
    Exact,
    /// Off by up to the documented error of each function, in a direction drawn from its argument; matrix products
    /// are cut to the largest one's precision before they are added.
    Coarse,
}

/// Half to float.
#[inline(always)]
pub(crate) fn from_half(half: u32) -> f32 {
    let magnitude = half & 0x7fff;
    // The multiplication corrects the exponent's bias, and normalises subnormal halves.
    let value = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
    let special = magnitude >= 0x7c00;
    let bits = if special {
        0x7f80_0000 | (half & 0x3ff) << 13
    } else {
        value.to_bits()
    };
    f32::from_bits(bits | (half & 0x8000) << 16)
}

/// Float to half, to the nearest, halves to even ones.
#[inline(always)]
pub(crate) fn to_half(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Adding one half leaves multiples of 2^-24 in the lowest bits, rounded as floats are.
    let small = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    let rounded = if magnitude < 0x3880_0000 {
        small
    } else {
        normal
    };
    let rounded = if magnitude >= 0x477f_f000 {
        0x7c00
    } else {
        rounded
    };
    let rounded = if magnitude > 0x7f80_0000 {
        0x7fff
    } else {
        rounded
    };
    sign | rounded
}

/// What `min` and `max` return, `b` being preferred to what is not a number.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        return b;
    }
    // Of two zeros the negative one is less.
    let less = a < b || b.is_nan() || (a == b && a.is_sign_negative());
    if less { a } else { b }
}

#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        return b;
    }
    let greater = a > b || b.is_nan() || (a == b && a.is_sign_positive());
    if greater { a } else { b }
}

/// `sum + error`, where `error` is below the last bit of `sum`, as a float.
fn directed(sum: f64, error: f64, rounding: Rounding) -> f32 {
    let near = sum as f32;
    if near.is_nan() || rounding == Rounding::Nearest {
        return near;
    }
    let down = match rounding {
        Rounding::Down => true,
        Rounding::Up => false,
        _ => sum > 0.0 || (sum == 0.0 && error > 0.0),
    };
    let exact = f64::from(near);
    let above = exact > sum || (exact == sum && error < 0.0);
    let below = exact < sum || (exact == sum && error > 0.0);
    match (down, above, below) {
        (true, true, _) => near.next_down(),
        (false, _, true) => near.next_up(),
        _ => near,
    }
}

/// The sum of two numbers, and what rounding took from it (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

pub(crate) fn add(a: f32, b: f32, rounding: Rounding) -> f32 {
    let (sum, error) = two_sum(f64::from(a), f64::from(b));
    directed(sum, error, rounding)
}

pub(crate) fn multiply(a: f32, b: f32, rounding: Rounding) -> f32 {
    // Exact in 64 bits.
    directed(f64::from(a) * f64::from(b), 0.0, rounding)
}

pub(crate) fn fused(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
    let (sum, error) = two_sum(f64::from(a) * f64::from(b), f64::from(c));
    directed(sum, error, rounding)
}

/// Subnormal numbers are zeros.
pub(crate) fn flushed(value: f32) -> f32 {
    if value.is_subnormal() {
        return f32::from_bits(value.to_bits() & 0x8000_0000);
    }
    value
}

/// How much of the documented error a result has, -1 to 1.
fn drawn(argument: u64, arithmetic: Arithmetic) -> f64 {
    match arithmetic {
        Arithmetic::Exact => 0.0,
        Arithmetic::Coarse => (mix(argument) >> 11) as f64 / (1u64 << 52) as f64 - 1.0,
    }
}

/// `div.approx`: off by at most two units in the last place.
pub(crate) fn quotient(a: f32, b: f32, arithmetic: Arithmetic) -> f32 {
    let exact = a / b;
    if !exact.is_normal() {
        return exact;
    }
    let argument = u64::from(a.to_bits()) << 32 | u64::from(b.to_bits());
    // A unit is at least 2^-24 of the value, and this stays below two.
    let off = drawn(argument, arithmetic) / f64::from(1 << 23);
    (f64::from(a) / f64::from(b) * (1.0 + off)) as f32
}

/// Functions whose results the manual bounds only.
pub(crate) fn approximate(op: Float1, value: f32, arithmetic: Arithmetic) -> f32 {
    let keeps_small = op == Float1::Logarithm2Approx;
    let x = f64::from(if keeps_small { value } else { flushed(value) });
    // The error, relative (or absolute for logarithm, sine and cosine): PTX ISA 8.5, sections 9.7.3.
    let (exact, relative, absolute) = match op {
        Float1::ReciprocalApprox => (1.0 / x, 1.0 / f64::from(1 << 23), 0.0),
        Float1::SquareRootApprox => (x.sqrt(), 1.0 / f64::from(1 << 23), 0.0),
        Float1::InverseRootApprox => (1.0 / x.sqrt(), 1.0 / f64::from(1 << 22), 0.0),
        Float1::Power2Approx => (x.exp2(), 1.0 / f64::from(1 << 22), 0.0),
        Float1::SineApprox => (x.sin(), 0.0, 1.0 / f64::from(1 << 20)),
        Float1::CosineApprox => (x.cos(), 0.0, 1.0 / f64::from(1 << 20)),
        // Near 1 the error is absolute, elsewhere relative.
        _ if (0.5..=2.0).contains(&x) => (x.log2(), 0.0, 1.0 / f64::from(1 << 22)),
        _ => (x.log2(), 1.0 / f64::from(1 << 22), 0.0),
    };
    let off = drawn(u64::from(value.to_bits()) ^ (op as u64) << 32, arithmetic);
    let is_exact = exact == 0.0 || exact.is_infinite() || exact == 1.0;
    let result = if is_exact {
        exact
    } else {
        exact + off * (exact.abs() * relative + absolute)
    };
    if keeps_small {
        result as f32
    } else {
        flushed(result as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_to_a_float_and_back() {
        for half in 0..=0xffffu32 {
            let value = from_half(half);
            if value.is_nan() {
                assert_eq!(to_half(value) & 0x7fff, 0x7fff);
                continue;
            }
            assert_eq!(to_half(value), half);
        }
        assert_eq!(from_half(0x3c00), 1.0);
        assert_eq!(from_half(1), 2f32.powi(-24));
    }

    #[test]
    fn floats_round_to_the_nearest_half_and_ties_to_even() {
        assert_eq!(to_half(1.0 + 2f32.powi(-11)), 0x3c00);
        assert_eq!(to_half(1.0 + 3.0 * 2f32.powi(-11)), 0x3c02);
        assert_eq!(to_half(65_519.9), 0x7bff);
        assert_eq!(to_half(65_520.0), 0x7c00);
        assert_eq!(to_half(-2f32.powi(-25)), 0x8000, "a tie with zero");
        assert_eq!(to_half(1.5 * 2f32.powi(-25)), 1);
    }

    #[test]
    fn directed_sums_and_products_end_on_the_right_side_of_the_true_value() {
        let tiny = 2f32.powi(-60);
        assert_eq!(add(1.0, tiny, Rounding::Zero), 1.0);
        assert_eq!(add(1.0, -tiny, Rounding::Zero), 1f32.next_down());
        assert_eq!(add(-1.0, tiny, Rounding::Zero), (-1f32).next_up());
        assert_eq!(fused(1.0, 1.0, -tiny, Rounding::Down), 1f32.next_down());
        assert_eq!(fused(1.0, 1.0, tiny, Rounding::Up), 1f32.next_up());
        let third = 1.0f32 / 3.0;
        let exact = f64::from(third) * f64::from(third);
        let product = multiply(third, third, Rounding::Zero);
        assert!(f64::from(product) <= exact && f64::from(product.next_up()) > exact);
    }

    #[test]
    fn minima_prefer_numbers_and_negative_zeros() {
        assert_eq!(min(f32::NAN, 2.0), 2.0);
        assert_eq!(min(2.0, f32::NAN), 2.0);
        assert!(min(0.0, -0.0).is_sign_negative() && min(-0.0, 0.0).is_sign_negative());
        assert!(max(0.0, -0.0).is_sign_positive() && max(-0.0, 0.0).is_sign_positive());
    }

    #[test]
    fn a_coarse_quotient_is_off_by_no_more_than_two_units() {
        let mut differ = 0;
        for i in 1..2000 {
            let (a, b) = (i as f32, 7.0 + i as f32 / 3.0);
            let exact = quotient(a, b, Arithmetic::Exact);
            assert_eq!(exact, a / b);
            let units = exact
                .to_bits()
                .abs_diff(quotient(a, b, Arithmetic::Coarse).to_bits());
            differ += u32::from(units > 0);
            assert!(units <= 2, "{a} / {b}: {units}");
        }
        assert!(differ > 100);
        assert_eq!(quotient(1.0, 0.0, Arithmetic::Coarse), f32::INFINITY);
    }

    #[test]
    fn coarse_functions_are_off_by_no_more_than_documented() {
        let mut differ = 0;
        for i in 1..2000 {
            let x = i as f32 / 37.0;
            let exact = approximate(Float1::ReciprocalApprox, x, Arithmetic::Exact);
            let coarse = approximate(Float1::ReciprocalApprox, x, Arithmetic::Coarse);
            differ += u32::from(exact != coarse);
            assert!(
                (exact - coarse).abs() <= 2.0 * exact * 2f32.powi(-23),
                "{x}"
            );
        }
        assert!(differ > 100);
        assert_eq!(
            approximate(Float1::Power2Approx, f32::NEG_INFINITY, Arithmetic::Coarse),
            0.0
        );
    }
}
