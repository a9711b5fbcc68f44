//! Crops as red, green and blue, for people to look at: what networks see is made by the other modules here.

use punctual_types::{FrameLayout, PixelFormat};

use super::bt601::{colour, tint};
use super::frame::CropRows;
use super::spec::PreprocessError;

impl CropRows {
    /// All of a frame that is a picture.
    pub fn whole(layout: &FrameLayout) -> Result<Self, PreprocessError> {
        layout.check()?;
        Self::new(layout, layout.size(), true, 0, 0)
    }

    /// Makes a private copy of the rows into a byte of red, green and blue for each pixel. A value beyond the three is left out,
    /// and of 16 bits the upper ones are shown. A tensor is no picture and gives nothing.
    ///
    /// # Panics
    /// If the copy is shorter than [`Self::copy_len`].
    pub fn to_rgb(&self, copy: &[u8], rgb: &mut Vec<u8>) {
        rgb.clear();
        for y in 0..self.crop().height as usize {
            let row = self.row(0, y, copy);
            match self.format() {
                PixelFormat::Rgb8 => rgb.extend(row),
                PixelFormat::Bgr8 => {
                    let pixels = row.as_chunks::<3>().0.iter();
                    rgb.extend(pixels.flat_map(|[b, g, r]| [*r, *g, *b]));
                }
                PixelFormat::Rgba8 => {
                    let pixels = row.as_chunks::<4>().0.iter();
                    rgb.extend(pixels.flat_map(|[r, g, b, _]| [*r, *g, *b]));
                }
                PixelFormat::Gray8 => rgb.extend(row.iter().flat_map(|gray| [*gray; 3])),
                PixelFormat::Gray16 => {
                    let pixels = row.as_chunks::<2>().0.iter();
                    rgb.extend(pixels.flat_map(|[_, high]| [*high; 3]));
                }
                PixelFormat::Nv12 => self.nv12_row(y, copy, rgb),
                PixelFormat::Yuyv => self.pairs_row::<0>(row, rgb),
                PixelFormat::Uyvy => self.pairs_row::<1>(row, rgb),
                PixelFormat::Tensor => {}
            }
        }
    }

    fn row<'c>(&self, plane: usize, y: usize, copy: &'c [u8]) -> &'c [u8] {
        let span = self.planes()[plane];
        &copy[span.copy_offset + y * span.len..][..span.len]
    }

    /// Gray where the network sees no colours, as then none were copied.
    fn nv12_row(&self, y: usize, copy: &[u8], rgb: &mut Vec<u8>) {
        let (odd_x, odd_y) = self.odd();
        let has_colours = self.planes().len() > 1;
        let chroma = has_colours.then(|| self.row(1, (y + usize::from(odd_y)) / 2, copy));
        let chroma = chroma.map(|row| row.as_chunks::<2>().0);
        for (x, luma) in self.row(0, y, copy).iter().enumerate() {
            let at = (x + usize::from(odd_x)) / 2;
            let tints = tint(chroma.map_or([128; 2], |chroma| chroma[at]));
            rgb.extend(tints.map(|tint| colour(*luma, tint)));
        }
    }

    /// Two bytes a pixel: its luma is the byte `LUMA`, the other is chroma of two pixels.
    fn pairs_row<const LUMA: usize>(&self, row: &[u8], rgb: &mut Vec<u8>) {
        let (odd_x, _) = self.odd();
        let pixels = row.as_chunks::<4>().0.iter().flat_map(|pair| {
            let tints = tint([pair[1 - LUMA], pair[3 - LUMA]]);
            [pair[LUMA], pair[2 + LUMA]].map(|luma| tints.map(|tint| colour(luma, tint)))
        });
        let pixels = pixels.skip(usize::from(odd_x));
        rgb.extend(pixels.take(self.crop().width as usize).flatten());
    }
}

#[cfg(test)]
mod tests {
    use punctual_types::Size;

    use super::*;

    /// The crop of two by two pixels at (1, 1) of a frame of six by four, whose bytes count up.
    fn crop_of(format: PixelFormat, colour: bool) -> Vec<u8> {
        let layout = FrameLayout::packed(format, 6, 4);
        let frame: Vec<u8> = (0..layout.len()).map(|at| 40 + at as u8).collect();
        let crop = Size {
            width: 2,
            height: 2,
        };
        let rows = CropRows::new(&layout, crop, colour, 1, 1).expect("inside");
        let mut copy = vec![0; rows.copy_len()];
        rows.copy_from(&frame, &mut copy);
        let mut rgb = Vec::new();
        rows.to_rgb(&copy, &mut rgb);
        rgb
    }

    #[test]
    fn pixels_keep_their_places_in_every_format() {
        assert_eq!(crop_of(PixelFormat::Rgb8, true)[..3], [61, 62, 63]);
        assert_eq!(crop_of(PixelFormat::Bgr8, true)[..3], [63, 62, 61]);
        assert_eq!(crop_of(PixelFormat::Rgba8, true)[3..6], [72, 73, 74]);
        assert_eq!(
            crop_of(PixelFormat::Gray8, true)[3..9],
            [48, 48, 48, 53, 53, 53]
        );
        assert_eq!(crop_of(PixelFormat::Gray16, true)[..3], [55, 55, 55]);
        assert!(crop_of(PixelFormat::Tensor, true).is_empty());
    }

    #[test]
    fn chroma_goes_to_the_pixels_that_share_it() {
        let pixel = |luma: u8, chroma| tint(chroma).map(|tint| colour(luma, tint));
        let pixels = |of: [[u8; 3]; 4]| of.concat();
        // Of NV12, columns 1 and 2 have different samples, and so have rows 1 and 2.
        let expected = pixels([
            pixel(47, [64, 65]),
            pixel(48, [66, 67]),
            pixel(53, [70, 71]),
            pixel(54, [72, 73]),
        ]);
        assert_eq!(crop_of(PixelFormat::Nv12, true), expected);
        let expected = pixels([
            pixel(54, [53, 55]),
            pixel(56, [57, 59]),
            pixel(66, [65, 67]),
            pixel(68, [69, 71]),
        ]);
        assert_eq!(crop_of(PixelFormat::Yuyv, true), expected);
        let expected = pixels([
            pixel(55, [52, 54]),
            pixel(57, [56, 58]),
            pixel(67, [64, 66]),
            pixel(69, [68, 70]),
        ]);
        assert_eq!(crop_of(PixelFormat::Uyvy, true), expected);
        let gray = crop_of(PixelFormat::Nv12, false);
        assert!(
            gray.as_chunks::<3>()
                .0
                .iter()
                .all(|[r, g, b]| r == g && g == b)
        );
    }

    #[test]
    fn a_whole_frame_is_a_crop_at_its_corner() {
        let layout = FrameLayout::strided(PixelFormat::Nv12, 6, 4, 16);
        let rows = CropRows::whole(&layout).expect("checked");
        assert_eq!((rows.crop(), rows.copy_len()), (layout.size(), 36));
        let odd = FrameLayout::packed(PixelFormat::Nv12, 5, 4);
        assert!(CropRows::whole(&odd).is_err());
    }
}
