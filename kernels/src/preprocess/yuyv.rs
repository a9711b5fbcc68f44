//! YUYV to RGB, chroma not interpolated.

use super::CropRows;
use super::bt601::{pixel, tint};

/// Writes the crop as packed RGB rows.
pub(super) fn to_rgb(rows: &CropRows, copy: &[u8], rgb: &mut [u8]) {
    let [plane] = rows.planes() else {
        unreachable!("YUYV has one plane");
    };
    let (odd_x, _) = rows.odd();
    let rgb_rows = rgb.chunks_exact_mut(rows.crop().width as usize * 3);
    for (row, rgb_row) in copy.chunks_exact(plane.len).zip(rgb_rows) {
        row_to_rgb(row.as_chunks::<4>().0, odd_x, rgb_row);
    }
}

fn row_to_rgb(mut pairs: &[[u8; 4]], odd_x: bool, rgb: &mut [u8]) {
    let mut rgb = rgb.as_chunks_mut::<3>().0;
    if odd_x {
        let [_, u, luma, v] = pairs[0];
        rgb[0] = pixel(luma, tint([u, v]));
        (pairs, rgb) = (&pairs[1..], &mut rgb[1..]);
    }
    let (rgb_pairs, rgb_rest) = rgb.as_chunks_mut::<2>();
    for (rgb, [first, u, second, v]) in rgb_pairs.iter_mut().zip(pairs) {
        let tint = tint([*u, *v]);
        *rgb = [pixel(*first, tint), pixel(*second, tint)];
    }
    if let [rgb] = rgb_rest {
        let [luma, u, _, v] = pairs[rgb_pairs.len()];
        *rgb = pixel(luma, tint([u, v]));
    }
}
