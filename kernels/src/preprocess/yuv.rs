//! NV12, YUYV and UYVY to red, green and blue, chroma not interpolated. A row of pixels becomes a row of each colour, one
//! behind the other: loops over rows of one colour are computed many pixels at a time, loops over whole pixels are not.

use punctual_types::SharedBytes;

use super::bt601::{colour, tint};
use super::frame::CropRows;
use super::pieces;
use crate::Isa;
use crate::simd::vectorised;

/// The conversion of one format, compiled for this processor.
#[derive(Debug)]
pub(super) struct Colours {
    tint: unsafe fn(&mut Chroma<'_>),
    colour: unsafe fn(&mut Luma<'_>),
    /// What chroma adds to the red, green and blue of each pixel of a row, and of one more.
    tints: [Box<[i32]>; 3],
}

/// One row of chroma, and where what it adds goes: the same for two pixels.
struct Chroma<'a> {
    /// Of YUYV and UYVY with its luma.
    chroma: SharedBytes<'a>,
    tints: [&'a mut [i32]; 3],
}

/// One row of luma, what is added to each pixel of it, and where its colours go.
struct Luma<'a> {
    /// Of YUYV and UYVY with its chroma, from the first pixel on.
    luma: SharedBytes<'a>,
    tints: [&'a [i32]; 3],
    /// Red, green, blue.
    colours: &'a mut [u8],
}

impl Colours {
    pub(super) fn of_nv12(width: usize) -> Self {
        Self {
            tint: vectorised!(
                Isa::detect(),
                nv12_tints::<true>,
                nv12_tints::<false>,
                Chroma<'_>
            ),
            colour: vectorised!(
                Isa::detect(),
                colours::<1, 0, true>,
                colours::<1, 0, false>,
                Luma<'_>
            ),
            tints: tints(width),
        }
    }

    pub(super) fn of_yuyv(width: usize) -> Self {
        Self {
            tint: vectorised!(
                Isa::detect(),
                pair_tints::<0, true>,
                pair_tints::<0, false>,
                Chroma<'_>
            ),
            colour: vectorised!(
                Isa::detect(),
                colours::<2, 0, true>,
                colours::<2, 0, false>,
                Luma<'_>
            ),
            tints: tints(width),
        }
    }

    pub(super) fn of_uyvy(width: usize) -> Self {
        Self {
            tint: vectorised!(
                Isa::detect(),
                pair_tints::<1, true>,
                pair_tints::<1, false>,
                Chroma<'_>
            ),
            colour: vectorised!(
                Isa::detect(),
                colours::<2, 1, true>,
                colours::<2, 1, false>,
                Luma<'_>
            ),
            tints: tints(width),
        }
    }

    /// Row `y` of the crop; rows come one after the other.
    pub(super) fn row(
        &mut self,
        y: usize,
        rows: &CropRows,
        frame: SharedBytes<'_>,
        colours: &mut [u8],
    ) {
        let width = rows.crop().width as usize;
        let (odd_x, odd_y) = rows.odd();
        // The crop may begin with the second of two pixels, or rows, that share their chroma.
        let (lead_x, lead_y) = (usize::from(odd_x), usize::from(odd_y));
        let planes = rows.planes();
        let luma = planes[0].row(y, frame);
        let (chroma, luma) = match planes.get(1) {
            Some(plane) => (plane.row((y + lead_y) / 2, frame), luma),
            None => (luma, luma.part(2 * lead_x, 2 * width)),
        };
        let has_own_chroma = planes.len() < 2 || (y + lead_y).is_multiple_of(2);
        if has_own_chroma || y == 0 {
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

fn tints(width: usize) -> [Box<[i32]>; 3] {
    std::array::from_fn(|_| vec![0; (width + 2).next_multiple_of(2)].into())
}

#[inline(always)]
fn nv12_tints<const AVX: bool>(row: &mut Chroma<'_>) {
    let mut piece = [0; pieces::BYTES];
    for at in pieces::starts(row.chroma) {
        let piece = pieces::load::<AVX>(row.chroma, at, &mut piece);
        spread(piece.as_chunks::<2>().0.iter().copied(), row, at);
    }
}

/// Of rows with two bytes a pixel, of which number `LUMA` is its luma, and the other chroma of two pixels.
#[inline(always)]
fn pair_tints<const LUMA: usize, const AVX: bool>(row: &mut Chroma<'_>) {
    let mut piece = [0; pieces::BYTES];
    for at in pieces::starts(row.chroma) {
        let piece = pieces::load::<AVX>(row.chroma, at, &mut piece);
        let pairs = piece.as_chunks::<4>().0.iter();
        let chroma = pairs.map(|pair| [pair[1 - LUMA], pair[3 - LUMA]]);
        spread(chroma, row, at / 2);
    }
}

/// From pixel `first` on.
#[inline(always)]
fn spread(chroma: impl Iterator<Item = [u8; 2]>, row: &mut Chroma<'_>, first: usize) {
    let [red, green, blue] = row.tints.each_mut();
    let [red, green, blue] = [red, green, blue].map(|row| row[first..].as_chunks_mut::<2>().0);
    for (((chroma, red), green), blue) in chroma.zip(red).zip(green).zip(blue) {
        let [to_red, to_green, to_blue] = tint(chroma);
        (*red, *green, *blue) = ([to_red; 2], [to_green; 2], [to_blue; 2]);
    }
}

/// Of rows with `STEP` bytes a pixel, of which number `LUMA` is its luma.
#[inline(always)]
fn colours<const STEP: usize, const LUMA: usize, const AVX: bool>(row: &mut Luma<'_>) {
    let width = row.tints[0].len();
    let mut piece = [0; pieces::BYTES];
    for at in pieces::starts(row.luma) {
        let piece = pieces::load::<AVX>(row.luma, at, &mut piece);
        let first = at / STEP;
        for (tints, colours) in row.tints.iter().zip(row.colours.chunks_exact_mut(width)) {
            let lumas = piece.as_chunks::<STEP>().0;
            let tints = &tints[first..];
            for ((value, luma), tint) in colours[first..].iter_mut().zip(lumas).zip(tints) {
                *value = colour(luma[LUMA], *tint);
            }
        }
    }
}
