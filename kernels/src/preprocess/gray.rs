//! Pictures to a byte of gray a pixel.

use punctual_types::SharedBytes;

use super::bt601::{colour, tint};
use super::pieces;

/// ITU-R BT.601's luma of full-range colours in 65536ths, rounded to the nearest byte: as Pillow's mode `L`.
const RED: u32 = 19_595;
const GREEN: u32 = 38_470;
const BLUE: u32 = 7_471;

/// From a row of red, green and blue.
pub(super) fn of_rgb(row: SharedBytes<'_>, gray: &mut [u8]) {
    of_colours(row, gray, |[red, green, blue]| luma([red, green, blue]));
}

/// From a row of blue, green and red.
pub(super) fn of_bgr(row: SharedBytes<'_>, gray: &mut [u8]) {
    of_colours(row, gray, |[blue, green, red]| luma([red, green, blue]));
}

fn of_colours(row: SharedBytes<'_>, gray: &mut [u8], luma: impl Fn([u8; 3]) -> u8) {
    let mut piece = [0; pieces::BYTES];
    for at in pieces::starts(row) {
        let piece = pieces::load::<false>(row, at, &mut piece);
        let pixels = piece.as_chunks().0;
        for (gray, pixel) in gray[at / 3..].iter_mut().zip(pixels) {
            *gray = luma(*pixel);
        }
    }
}

fn luma([red, green, blue]: [u8; 3]) -> u8 {
    let sum = RED * u32::from(red) + GREEN * u32::from(green) + BLUE * u32::from(blue);
    ((sum + (1 << 15)) >> 16) as u8
}

/// From a row with `STEP` bytes for each pixel, of which number `LUMA` is its luma.
pub(super) fn of_luma<const STEP: usize, const LUMA: usize>(
    row: SharedBytes<'_>,
    levels: &[u8; 256],
    gray: &mut [u8],
) {
    let mut piece = [0; pieces::BYTES];
    for at in pieces::starts(row) {
        let piece = pieces::load::<false>(row, at, &mut piece);
        let lumas = piece.as_chunks::<STEP>().0.iter();
        for (gray, luma) in gray[at / STEP..].iter_mut().zip(lumas) {
            *gray = levels[usize::from(luma[LUMA])];
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
