//! Pictures to a byte of gray a pixel.

use super::bt601::{colour, tint};
use super::frame::CropRows;

/// ITU-R BT.601's luma of full-range colours in 65536ths, rounded to the nearest byte: as Pillow's mode `L`.
const RED: u32 = 19_595;
const GREEN: u32 = 38_470;
const BLUE: u32 = 7_471;

/// From pixels of red, green and blue.
pub(super) fn of_rgb(copy: &[u8], gray: &mut [u8]) {
    for (gray, [red, green, blue]) in gray.iter_mut().zip(copy.as_chunks().0) {
        *gray = luma([*red, *green, *blue]);
    }
}

/// From pixels of blue, green and red.
pub(super) fn of_bgr(copy: &[u8], gray: &mut [u8]) {
    for (gray, [blue, green, red]) in gray.iter_mut().zip(copy.as_chunks().0) {
        *gray = luma([*red, *green, *blue]);
    }
}

fn luma([red, green, blue]: [u8; 3]) -> u8 {
    let sum = RED * u32::from(red) + GREEN * u32::from(green) + BLUE * u32::from(blue);
    ((sum + (1 << 15)) >> 16) as u8
}

/// From NV12's luma plane.
pub(super) fn of_nv12(copy: &[u8], levels: &[u8; 256], gray: &mut [u8]) {
    for (gray, luma) in gray.iter_mut().zip(copy) {
        *gray = levels[usize::from(*luma)];
    }
}

/// From YUYV's luma.
pub(super) fn of_yuyv(rows: &CropRows, copy: &[u8], levels: &[u8; 256], gray: &mut [u8]) {
    let [plane] = rows.planes() else {
        unreachable!("YUYV has one plane");
    };
    let (odd_x, _) = rows.odd();
    let gray_rows = gray.chunks_exact_mut(rows.crop().width as usize);
    for (row, gray_row) in copy.chunks_exact(plane.len).zip(gray_rows) {
        let pixels = row.as_chunks::<2>().0.iter().skip(usize::from(odd_x));
        for (gray, [luma, _]) in gray_row.iter_mut().zip(pixels) {
            *gray = levels[usize::from(*luma)];
        }
    }
}

/// The full-range gray of each limited-range luma: what all three colours would be without chroma.
pub(super) fn levels() -> Box<[u8; 256]> {
    let [without_chroma, ..] = tint([128, 128]);
    Box::new(std::array::from_fn(|luma| {
        colour(luma as u8, without_chroma)
    }))
}
