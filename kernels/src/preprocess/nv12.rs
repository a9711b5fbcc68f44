//! NV12 to RGB: ITU-R BT.601, limited range, chroma not interpolated.

use super::CropRows;

/// Fractional bits of the coefficients. Products stay under 2^24, sums far inside an i32.
const BITS: u32 = 14;

/// A coefficient in fixed point.
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

/// Writes the crop as packed RGB rows.
pub(super) fn to_rgb(rows: &CropRows, copy: &[u8], rgb: &mut [u8]) {
    let [luma, chroma] = rows.planes() else {
        unreachable!("NV12 has two planes");
    };
    let (odd_x, odd_y) = rows.odd();
    for (y, rgb_row) in rgb.chunks_exact_mut(luma.len * 3).enumerate() {
        let luma_row = &copy[luma.copy_offset + y * luma.len..][..luma.len];
        let chroma_y = (y + usize::from(odd_y)) / 2;
        let chroma_row = &copy[chroma.copy_offset + chroma_y * chroma.len..][..chroma.len];
        row_to_rgb(luma_row, chroma_row, odd_x, rgb_row);
    }
}

fn row_to_rgb(luma: &[u8], chroma: &[u8], odd_x: bool, rgb: &mut [u8]) {
    let mut chroma = chroma.as_chunks::<2>().0;
    let mut luma = luma;
    let mut rgb = rgb.as_chunks_mut::<3>().0;
    if odd_x {
        rgb[0] = pixel(luma[0], tint(chroma[0]));
        (luma, chroma, rgb) = (&luma[1..], &chroma[1..], &mut rgb[1..]);
    }
    let (luma_pairs, luma_rest) = luma.as_chunks::<2>();
    let (rgb_pairs, rgb_rest) = rgb.as_chunks_mut::<2>();
    for ((rgb, luma), chroma) in rgb_pairs.iter_mut().zip(luma_pairs).zip(chroma) {
        let tint = tint(*chroma);
        rgb[0] = pixel(luma[0], tint);
        rgb[1] = pixel(luma[1], tint);
    }
    if let ([rgb], [luma]) = (rgb_rest, luma_rest) {
        *rgb = pixel(*luma, tint(chroma[luma_pairs.len()]));
    }
}

/// What chroma adds to red, green and blue, with the rounding half.
fn tint([u, v]: [u8; 2]) -> [i32; 3] {
    let (u, v) = (i32::from(u) - 128, i32::from(v) - 128);
    [
        V_TO_R * v + HALF,
        -U_TO_G * u - V_TO_G * v + HALF,
        U_TO_B * u + HALF,
    ]
}

fn pixel(luma: u8, tint: [i32; 3]) -> [u8; 3] {
    let luma = (i32::from(luma) - 16) * LUMA;
    tint.map(|tint| ((luma + tint) >> BITS).clamp(0, 255) as u8)
}
