//! NV12 to RGB, chroma not interpolated.

use super::CropRows;
use super::bt601::{pixel, tint};

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
