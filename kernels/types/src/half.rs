//! Halves: IEEE 754 binary16, kept as its 16 bits.

/// The nearest half, the even one of two that are equally near; beyond the largest finite half
/// (65504) infinity, and not a number for what is none.
#[must_use]
pub const fn from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude >= 0x7f80_0000 {
        let quiet = if magnitude > 0x7f80_0000 { 0x0200 } else { 0 };
        return sign | 0x7c00 | quiet;
    }
    // From here on a half would be rounded up to 65536.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    // Both have their exponent above their fraction, so that rounding may carry into it.
    let exponent = magnitude >> 23;
    let (kept, dropped) = if exponent >= 113 {
        (magnitude - (112 << 23), 13)
    } else if exponent >= 102 {
        // Below the normal halves the leading one is written out.
        ((magnitude & 0x007f_ffff) | 0x0080_0000, 126 - exponent)
    } else {
        return sign;
    };
    let half = kept >> dropped;
    let rest = kept & ((1 << dropped) - 1);
    let tie = 1 << (dropped - 1);
    let up = rest > tie || (rest == tie && half & 1 == 1);
    sign | (half + up as u32) as u16
}

#[must_use]
pub const fn to_f32(half: u16) -> f32 {
    let sign = ((half & 0x8000) as u32) << 16;
    let exponent = ((half >> 10) & 0x1f) as u32;
    let fraction = (half & 0x03ff) as u32;
    let bits = match (exponent, fraction) {
        (0, 0) => 0,
        (0, _) => {
            // The leading one is the exponent of a normal float.
            let above = fraction.leading_zeros() - 21;
            ((113 - above) << 23) | ((fraction << (13 + above)) & 0x007f_ffff)
        }
        (31, _) => 0x7f80_0000 | (fraction << 13),
        _ => ((exponent + 112) << 23) | (fraction << 13),
    };
    f32::from_bits(sign | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By arithmetic instead of bits: a half is its fraction times a power of two.
    fn value_of(half: u16) -> f64 {
        let fraction = f64::from(half & 0x03ff);
        let magnitude = match (half >> 10) & 0x1f {
            0 => fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            exponent => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
        };
        if half & 0x8000 == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    #[test]
    fn every_half_is_itself_again() {
        for half in 0..=u16::MAX {
            let value = to_f32(half);
            if value.is_nan() {
                assert!(value_of(half).is_nan());
                assert!(to_f32(from_f32(value)).is_nan());
                continue;
            }
            assert_eq!(f64::from(value), value_of(half), "{half:#06x}");
            assert_eq!(from_f32(value), half);
        }
    }

    #[test]
    fn what_lies_between_two_halves_goes_to_the_nearer_one_or_the_even_one() {
        for half in 0..0x7bff_u16 {
            let (low, high) = (to_f32(half), to_f32(half + 1));
            // Exact: floats have 13 more bits, and no smaller range.
            let middle = low + (high - low) / 2.0;
            let even = half + (half & 1);
            for (value, nearest) in [
                (middle, even),
                (middle.next_down(), half),
                (middle.next_up(), half + 1),
            ] {
                assert_eq!(from_f32(value), nearest, "{value}");
                assert_eq!(from_f32(-value), 0x8000 | nearest, "-{value}");
            }
        }
    }

    #[test]
    fn what_is_too_large_is_infinite() {
        assert_eq!(from_f32(65519.996), 0x7bff);
        assert_eq!(from_f32(65520.0), 0x7c00);
        assert_eq!(from_f32(f32::NEG_INFINITY), 0xfc00);
        assert_eq!(from_f32(1e-9), 0);
    }
}
