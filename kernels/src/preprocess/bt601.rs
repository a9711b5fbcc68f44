//! YUV to RGB: ITU-R BT.601, limited range, in fixed point.

/// Fractional bits of the coefficients. Products stay under 2^24, sums far inside an i32.
const BITS: u32 = 14;

const fn fixed(value: f64) -> i32 {
    (value * (1 << BITS) as f64 + 0.5) as i32
}

// BT.601 inverted: Kr = 0.299, Kb = 0.114; luma spans 219 levels from 16, chroma 224 around 128.
const LUMA: i32 = fixed(255.0 / 219.0);
const V_TO_R: i32 = fixed(255.0 / 224.0 * 2.0 * (1.0 - 0.299));
const U_TO_G: i32 = fixed(255.0 / 224.0 * 2.0 * (1.0 - 0.114) * 0.114 / 0.587);
const V_TO_G: i32 = fixed(255.0 / 224.0 * 2.0 * (1.0 - 0.299) * 0.299 / 0.587);
const U_TO_B: i32 = fixed(255.0 / 224.0 * 2.0 * (1.0 - 0.114));
const HALF: i32 = 1 << (BITS - 1);

/// What chroma adds to red, green and blue, with the rounding half.
#[inline(always)]
pub(super) fn tint([u, v]: [u8; 2]) -> [i32; 3] {
    let (u, v) = (i32::from(u) - 128, i32::from(v) - 128);
    [
        V_TO_R * v + HALF,
        -U_TO_G * u - V_TO_G * v + HALF,
        U_TO_B * u + HALF,
    ]
}

/// One colour of a pixel from its luma and what its chroma adds.
#[inline(always)]
pub(super) fn colour(luma: u8, tint: i32) -> u8 {
    (((i32::from(luma) - 16) * LUMA + tint) >> BITS).clamp(0, 255) as u8
}
