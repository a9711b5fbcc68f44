//! Rows of a crop that are not resized as they lie in the frame, but as red, green and blue, or gray: made one after the other,
//! as the resize needs them, so that they stay in the nearest caches.

use punctual_types::{Fit, PixelFormat, SharedBytes};

use super::frame::CropRows;
use super::gray;
use super::resize::Lines;
use super::spec::PreprocessSpec;
use super::yuv::Colours;

/// The last rows that were converted.
#[derive(Debug)]
pub(super) struct Converted {
    conversion: Conversion,
    /// As many as one row of the output is made of.
    rows: Vec<u8>,
    row_len: usize,
    /// Bytes of a pixel.
    samples: usize,
    /// Rows of the crop that were converted.
    done: usize,
}

#[derive(Debug)]
enum Conversion {
    /// From YUV; each row has its reds, then its greens, then its blues.
    Colours(Colours),
    GrayOfRgb,
    GrayOfBgr,
    /// The gray of each luma, where that is all that the network sees.
    GrayOfNv12(Box<[u8; 256]>),
    GrayOfYuyv(Box<[u8; 256]>),
    GrayOfUyvy(Box<[u8; 256]>),
}

impl Converted {
    /// None where the network sees what is in the frame. With room for crops up to that of the spec; as yet of no rows.
    pub(super) fn of(spec: &PreprocessSpec) -> Option<Self> {
        let width = spec.crop.width as usize;
        let conversion = match (spec.frame.format, spec.channels) {
            (PixelFormat::Nv12, 1) => Conversion::GrayOfNv12(gray::levels()),
            (PixelFormat::Yuyv, 1) => Conversion::GrayOfYuyv(gray::levels()),
            (PixelFormat::Uyvy, 1) => Conversion::GrayOfUyvy(gray::levels()),
            (PixelFormat::Nv12, _) => Conversion::Colours(Colours::of_nv12(width)),
            (PixelFormat::Yuyv, _) => Conversion::Colours(Colours::of_yuyv(width)),
            (PixelFormat::Uyvy, _) => Conversion::Colours(Colours::of_uyvy(width)),
            (PixelFormat::Rgb8, 1) => Conversion::GrayOfRgb,
            (PixelFormat::Bgr8, 1) => Conversion::GrayOfBgr,
            _ => return None,
        };
        let samples = match conversion {
            Conversion::Colours(_) => 3,
            _ => 1,
        };
        Some(Self {
            conversion,
            rows: Vec::with_capacity(width * samples * rows_max(spec)),
            row_len: 0,
            samples,
            done: 0,
        })
    }

    /// For crops that are this wide, `count` rows of which make one of the output.
    pub(super) fn cut(&mut self, width: u32, count: usize) {
        self.row_len = width as usize * self.samples;
        self.rows.resize(self.row_len * count, 0);
    }

    /// Whether each colour has a row of its own.
    pub(super) fn is_by_colour(&self) -> bool {
        matches!(self.conversion, Conversion::Colours(_))
    }

    /// The next row is the first of a frame.
    pub(super) fn begin(&mut self) {
        self.done = 0;
    }

    /// Converts the crop's rows before `end` that were not converted yet; they replace the oldest.
    pub(super) fn up_to(&mut self, end: usize, crop: &CropRows, frame: SharedBytes<'_>) {
        while self.done < end {
            let y = self.done;
            let at = y % (self.rows.len() / self.row_len) * self.row_len;
            let to = &mut self.rows[at..][..self.row_len];
            let row = crop.planes()[0].row(y, frame);
            match &mut self.conversion {
                Conversion::Colours(colours) => colours.row(y, crop, frame, to),
                Conversion::GrayOfRgb => gray::of_rgb(row, to),
                Conversion::GrayOfBgr => gray::of_bgr(row, to),
                Conversion::GrayOfNv12(levels) => gray::of_luma::<1, 0>(row, levels, to),
                Conversion::GrayOfYuyv(levels) => {
                    let pixels = pixels_of_pairs(crop, row);
                    gray::of_luma::<2, 0>(pixels, levels, to);
                }
                Conversion::GrayOfUyvy(levels) => {
                    let pixels = pixels_of_pairs(crop, row);
                    gray::of_luma::<2, 1>(pixels, levels, to);
                }
            }
            self.done += 1;
        }
    }

    pub(super) fn lines(&self) -> Lines<'_> {
        Lines {
            bytes: SharedBytes::from(&self.rows[..]),
            stride: self.row_len,
            count: self.rows.len() / self.row_len,
            len: self.row_len,
        }
    }
}

/// Rows of a crop that one row of the output is made of, at most, for crops up to that of the spec.
fn rows_max(spec: &PreprocessSpec) -> usize {
    let (crop, output) = (spec.crop, spec.output);
    let shrunk = |side: u32, to: u32| f64::from(side) / f64::from(to);
    let by_height = shrunk(crop.height, output.height);
    let scale = match spec.fit {
        Fit::Stretch => by_height,
        // Rows of a wide crop are shrunk as its columns are, but to a whole number of rows: just under 1.5 are made one.
        Fit::Letterbox { .. } => by_height.max(1.5 * shrunk(crop.width, output.width)),
    };
    // As many weights as an output position has (`resize::weights_max`).
    let weights = (2.0 * scale.max(1.0)).ceil() as usize + 1;
    weights.min(crop.height as usize)
}

/// The crop's own pixels of a row of whole pairs: it may begin with the second of one.
fn pixels_of_pairs<'f>(crop: &CropRows, row: SharedBytes<'f>) -> SharedBytes<'f> {
    let lead = 2 * usize::from(crop.odd().0);
    row.part(lead, 2 * crop.crop().width as usize)
}
