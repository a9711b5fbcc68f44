//! A picture's way: to pixels that can be resized, then resized and normalised, with borders around.

use punctual_types::{Fit, Letterbox, PixelFormat};

use super::frame::CropRows;
use super::gray;
use super::resize::{Columns, Rows, Sample, Taps};
use super::spec::{CHANNELS_MAX, PlanarOutput, PreprocessError, PreprocessSpec};
use super::yuv::Conversion;
use crate::Isa;

/// Tables and scratch for the pictures of one stream.
#[derive(Debug)]
pub(super) struct Picture {
    /// Of this processor.
    isa: Isa,
    format: PixelFormat,
    channels: u32,
    /// Where the resized crop lies in `height` rows of `width`.
    place: Letterbox,
    width: usize,
    height: usize,
    columns: Columns,
    rows: Taps,
    /// Normalised = value * scale + bias, a channel.
    scale: [f32; CHANNELS_MAX],
    bias: [f32; CHANNELS_MAX],
    /// The borders' value, normalised.
    border: [f32; CHANNELS_MAX],
    /// The gray of each luma, where that is all that the network sees.
    levels: Option<Box<[u8; 256]>>,
    /// To rows of red, green and blue, where that is not what the frame has and the network sees.
    conversion: Option<Conversion>,
    /// The crop as red, green and blue, or as gray, where it is not resized as it is.
    converted: Box<[u8]>,
    /// One row of the crop after the vertical pass.
    row: Box<[f32]>,
}

impl Picture {
    /// For a checked spec.
    pub(super) fn new(spec: &PreprocessSpec) -> Result<Self, PreprocessError> {
        let (format, channels, output) = (spec.frame.format, spec.channels, spec.output);
        let full_scale = format.full_scale();
        let place = spec.fit.place(spec.crop, output);
        let scale = spec.std.map(|std| 1.0 / (full_scale * std));
        let bias = std::array::from_fn(|channel| -spec.mean[channel] / spec.std[channel]);
        let fill = match spec.fit {
            Fit::Stretch => 0.0,
            Fit::Letterbox { fill } => f32::from(fill) / 255.0 * full_scale,
        };
        let yuv = matches!(format, PixelFormat::Nv12 | PixelFormat::Yuyv);
        let is_gray = matches!(format, PixelFormat::Gray8 | PixelFormat::Gray16);
        let samples = match format {
            PixelFormat::Rgba8 => 4,
            _ if is_gray || channels == 1 => 1,
            _ => 3,
        };
        let row_len = spec.crop.width as usize * samples;
        let converted = if yuv || (channels == 1 && !is_gray) {
            row_len * spec.crop.height as usize
        } else {
            0
        };
        Ok(Self {
            isa: Isa::detect(),
            format,
            channels,
            place,
            width: output.width as usize,
            height: output.height as usize,
            columns: Columns::new(spec.crop.width, place.inner.width),
            rows: Taps::new(spec.crop.height, place.inner.height),
            scale,
            bias,
            border: std::array::from_fn(|channel| fill * scale[channel] + bias[channel]),
            levels: (yuv && channels == 1).then(gray::levels),
            conversion: match format {
                PixelFormat::Nv12 if channels > 1 => {
                    Some(Conversion::of_nv12(spec.crop.width as usize))
                }
                PixelFormat::Yuyv if channels > 1 => {
                    Some(Conversion::of_yuyv(spec.crop.width as usize))
                }
                _ => None,
            },
            converted: vec![0; converted].into(),
            row: vec![0.0; row_len].into(),
        })
    }

    /// From a private copy of the crop's rows to normalised planes.
    pub(super) fn prepare(&mut self, rows: &CropRows, copy: &[u8], output: &mut PlanarOutput<'_>) {
        let levels = self.levels.as_deref();
        match (self.format, levels, &mut self.conversion) {
            (_, _, Some(conversion)) => conversion.run(rows, copy, &mut self.converted),
            (PixelFormat::Nv12, Some(levels), _) => {
                gray::of_nv12(copy, levels, &mut self.converted)
            }
            (PixelFormat::Yuyv, Some(levels), _) => {
                gray::of_yuyv(rows, copy, levels, &mut self.converted);
            }
            (PixelFormat::Rgb8, ..) if self.channels == 1 => {
                gray::of_rgb(copy, &mut self.converted);
            }
            (PixelFormat::Bgr8, ..) if self.channels == 1 => {
                gray::of_bgr(copy, &mut self.converted);
            }
            _ => return self.planes(copy, output),
        }
        // Out of self meanwhile, so that it can be read while self's row is written.
        let converted = std::mem::take(&mut self.converted);
        if self.conversion.is_some() {
            self.resize(&converted, output, Self::colour_row::<3>);
        } else {
            self.planes(&converted, output);
        }
        self.converted = converted;
    }

    /// Resizes and normalises a crop without gaps: from the samples of a pixel to the channels of the network.
    fn planes(&mut self, crop: &[u8], output: &mut PlanarOutput<'_>) {
        let words = crop.as_chunks::<2>().0;
        match (self.format, self.channels) {
            (PixelFormat::Gray16, 1) => self.resize(words, output, Self::colour_row::<1>),
            (PixelFormat::Gray16, _) => {
                self.resize_pixels(words, output, |[gray]: [f32; 1]| [gray; 3])
            }
            (_, 1) => self.resize(crop, output, Self::colour_row::<1>),
            (PixelFormat::Gray8, _) => {
                self.resize_pixels(crop, output, |[gray]: [f32; 1]| [gray; 3])
            }
            (PixelFormat::Bgr8, _) => {
                self.resize_pixels(crop, output, |[b, g, r]: [f32; 3]| [r, g, b])
            }
            (PixelFormat::Rgba8, 3) => {
                self.resize_pixels(crop, output, |[r, g, b, _]: [f32; 4]| [r, g, b]);
            }
            (PixelFormat::Rgba8, _) => self.resize_pixels(crop, output, |rgba: [f32; 4]| rgba),
            _ => self.resize_pixels(crop, output, |rgb: [f32; 3]| rgb),
        }
    }

    /// Of a crop whose rows have the samples of one pixel after those of the other.
    fn resize_pixels<S: Sample, const SAMPLES: usize, const PLANES: usize>(
        &mut self,
        crop: &[S],
        output: &mut PlanarOutput<'_>,
        order: impl Fn([f32; SAMPLES]) -> [f32; PLANES],
    ) {
        self.resize(crop, output, |picture, planes| {
            picture.pixel_row(planes, &order)
        });
    }

    /// `row` writes one row of each plane from `self.row`, between its borders.
    fn resize<S: Sample, const PLANES: usize>(
        &mut self,
        crop: &[S],
        output: &mut PlanarOutput<'_>,
        row: impl Fn(&Self, [&mut [f32]; PLANES]),
    ) {
        let (top, left) = (self.place.top as usize, self.place.left as usize);
        let (height, width) = (
            self.place.inner.height as usize,
            self.place.inner.width as usize,
        );
        let row_len = self.row.len();
        let sum_rows = S::sum_rows(self.isa);
        for y in 0..self.height {
            let mut borders = self.border.into_iter();
            let inside = (top..top + height).contains(&y);
            let planes = rows_of::<PLANES>(output, y, self.width).map(|plane| {
                let border = borders.next().unwrap_or_default();
                let (before, rest) = plane.split_at_mut(if inside { left } else { 0 });
                let (plane, behind) = rest.split_at_mut(if inside { width } else { 0 });
                before.fill(border);
                behind.fill(border);
                plane
            });
            if inside {
                let (first, weights) = self.rows.of(y - top);
                let source = &crop[first * row_len..][..weights.len() * row_len];
                let sums = &mut self.row;
                // SAFETY: `self.isa` is available.
                unsafe {
                    sum_rows(&mut Rows {
                        source,
                        weights,
                        sums,
                    })
                };
                row(self, planes);
            }
        }
    }

    /// The horizontal pass over a row of each colour, normalised.
    fn colour_row<const PLANES: usize>(&self, planes: [&mut [f32]; PLANES]) {
        let colours = self.row.chunks_exact(self.row.len() / PLANES);
        for (channel, (plane, row)) in planes.into_iter().zip(colours).enumerate() {
            let (scale, bias) = (self.scale[channel], self.bias[channel]);
            let row = row.as_chunks().0;
            self.columns
                .sums(row, |x, [sum]| plane[x] = sum * scale + bias);
        }
    }

    /// The horizontal pass over a row of pixels, normalised.
    fn pixel_row<const SAMPLES: usize, const PLANES: usize>(
        &self,
        mut planes: [&mut [f32]; PLANES],
        order: &impl Fn([f32; SAMPLES]) -> [f32; PLANES],
    ) {
        let row = self.row.as_chunks().0;
        self.columns.sums(row, |x, sums| {
            for (channel, (plane, value)) in planes.iter_mut().zip(order(sums)).enumerate() {
                plane[x] = value * self.scale[channel] + self.bias[channel];
            }
        });
    }
}

/// One row of each plane.
fn rows_of<'o, const PLANES: usize>(
    output: &'o mut PlanarOutput<'_>,
    y: usize,
    width: usize,
) -> [&'o mut [f32]; PLANES] {
    let start = output.offset + y * output.row_stride;
    let mut planes = output.data[start..].chunks_mut(output.plane_stride);
    std::array::from_fn(|_| {
        let plane = planes.next().expect("the output holds all planes");
        &mut plane[..width]
    })
}
