//! NV12 and YUYV to red, green and blue, chroma not interpolated. A row of pixels becomes a row of each colour, one
//! behind the other: loops over rows of one colour are computed many pixels at a time, loops over whole pixels are not.

use super::bt601::{colour, tint};
use super::frame::CropRows;
use crate::Isa;
use crate::simd::vectorised;

/// The conversion of one format, compiled for this processor.
#[derive(Debug)]
pub(super) struct Conversion {
    tint: unsafe fn(&mut Chroma<'_>),
    colour: unsafe fn(&mut Luma<'_>),
    /// What chroma adds to the red, green and blue of each pixel of a row, and of one more.
    tints: [Box<[i32]>; 3],
}

/// One row of chroma, and where what it adds goes: the same for two pixels.
struct Chroma<'a> {
    /// Of YUYV with its luma.
    chroma: &'a [u8],
    tints: [&'a mut [i32]; 3],
}

/// One row of luma, what is added to each pixel of it, and where its colours go.
struct Luma<'a> {
    /// Of YUYV with its chroma, from the first pixel's luma on.
    luma: &'a [u8],
    tints: [&'a [i32]; 3],
    /// Red, green, blue.
    colours: &'a mut [u8],
}

impl Conversion {
    pub(super) fn of_nv12(width: usize) -> Self {
        Self {
            tint: vectorised!(Isa::detect(), nv12_tints, Chroma<'_>),
            colour: vectorised!(Isa::detect(), nv12_colours, Luma<'_>),
            tints: tints(width),
        }
    }

    pub(super) fn of_yuyv(width: usize) -> Self {
        Self {
            tint: vectorised!(Isa::detect(), yuyv_tints, Chroma<'_>),
            colour: vectorised!(Isa::detect(), yuyv_colours, Luma<'_>),
            tints: tints(width),
        }
    }

    /// From a private copy of the crop's rows.
    pub(super) fn run(&mut self, rows: &CropRows, copy: &[u8], colours: &mut [u8]) {
        let (width, height) = (rows.crop().width as usize, rows.crop().height as usize);
        let (odd_x, odd_y) = rows.odd();
        // The crop may begin with the second of two pixels, or rows, that share their chroma.
        let (lead_x, lead_y) = (usize::from(odd_x), usize::from(odd_y));
        let row_of = |plane: usize, y: usize| {
            let span = rows.planes()[plane];
            &copy[span.copy_offset + y * span.len..][..span.len]
        };
        let two = rows.planes().len() == 2;
        for (y, colours) in colours.chunks_exact_mut(3 * width).take(height).enumerate() {
            let luma = row_of(0, y);
            let (chroma, luma) = if two {
                (row_of(1, (y + lead_y) / 2), luma)
            } else {
                (luma, &luma[2 * lead_x..])
            };
            if !two || y == 0 || (y + lead_y).is_multiple_of(2) {
                let tints = self.tints.each_mut().map(|row| &mut row[..]);
                // SAFETY: compiled for what `Isa::detect` found.
                unsafe { (self.tint)(&mut Chroma { chroma, tints }) };
            }
            let tints = self.tints.each_ref().map(|row| &row[lead_x..][..width]);
            let mut row = Luma {
                luma,
                tints,
                colours,
            };
            // SAFETY: as above.
            unsafe { (self.colour)(&mut row) };
        }
    }
}

fn tints(width: usize) -> [Box<[i32]>; 3] {
    std::array::from_fn(|_| vec![0; (width + 2).next_multiple_of(2)].into())
}

#[inline(always)]
fn nv12_tints(row: &mut Chroma<'_>) {
    spread(
        row.chroma.as_chunks::<2>().0.iter().copied(),
        &mut row.tints,
    );
}

#[inline(always)]
fn yuyv_tints(row: &mut Chroma<'_>) {
    let pairs = row.chroma.as_chunks::<4>().0.iter();
    spread(pairs.map(|[_, u, _, v]| [*u, *v]), &mut row.tints);
}

#[inline(always)]
fn spread(chroma: impl Iterator<Item = [u8; 2]>, [red, green, blue]: &mut [&mut [i32]; 3]) {
    let [red, green, blue] = [red, green, blue].map(|row| row.as_chunks_mut::<2>().0);
    for (((chroma, red), green), blue) in chroma.zip(red).zip(green).zip(blue) {
        let [to_red, to_green, to_blue] = tint(chroma);
        (*red, *green, *blue) = ([to_red; 2], [to_green; 2], [to_blue; 2]);
    }
}

#[inline(always)]
fn nv12_colours(row: &mut Luma<'_>) {
    let width = row.tints[0].len();
    for (tints, colours) in row.tints.iter().zip(row.colours.chunks_exact_mut(width)) {
        for ((value, luma), tint) in colours.iter_mut().zip(row.luma).zip(*tints) {
            *value = colour(*luma, *tint);
        }
    }
}

#[inline(always)]
fn yuyv_colours(row: &mut Luma<'_>) {
    let width = row.tints[0].len();
    for (tints, colours) in row.tints.iter().zip(row.colours.chunks_exact_mut(width)) {
        let luma = row.luma.as_chunks::<2>().0;
        for ((value, [luma, _]), tint) in colours.iter_mut().zip(luma).zip(*tints) {
            *value = colour(*luma, *tint);
        }
    }
}
