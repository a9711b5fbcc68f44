//! A picture's way: to pixels that can be resized, then resized and normalised, with borders around.

use punctual_types::{Fit, Letterbox, PixelFormat};

use super::resize::{self, Sample, Taps};
use super::{CHANNELS_MAX, CropRows, PlanarOutput, PreprocessError, PreprocessSpec};
use super::{gray, nv12, yuyv};

/// Tables and scratch for the pictures of one stream.
#[derive(Debug)]
pub(super) struct Picture {
    format: PixelFormat,
    channels: u32,
    /// Where the resized crop lies in `height` rows of `width`.
    place: Letterbox,
    width: usize,
    height: usize,
    columns: Taps,
    rows: Taps,
    /// Normalised = value * scale + bias, a channel.
    scale: [f32; CHANNELS_MAX],
    bias: [f32; CHANNELS_MAX],
    /// The borders' value, normalised.
    border: [f32; CHANNELS_MAX],
    /// The gray of each luma, where that is all that the network sees.
    levels: Option<Box<[u8; 256]>>,
    /// The crop as red, green and blue, or as gray, where it is not resized as it is.
    converted: Box<[u8]>,
    /// One row of the crop after the vertical pass: the samples of one pixel after those of the other.
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
        let converted = match yuv || (channels == 1 && !is_gray) {
            true => row_len * spec.crop.height as usize,
            false => 0,
        };
        Ok(Self {
            format,
            channels,
            place,
            width: output.width as usize,
            height: output.height as usize,
            columns: Taps::new(spec.crop.width, place.inner.width),
            rows: Taps::new(spec.crop.height, place.inner.height),
            scale,
            bias,
            border: std::array::from_fn(|channel| fill * scale[channel] + bias[channel]),
            levels: (yuv && channels == 1).then(gray::levels),
            converted: vec![0; converted].into(),
            row: vec![0.0; row_len].into(),
        })
    }

    /// From a private copy of the crop's rows to normalised planes.
    pub(super) fn prepare(&mut self, rows: &CropRows, copy: &[u8], output: &mut PlanarOutput<'_>) {
        let levels = self.levels.as_deref();
        match (self.format, levels) {
            (PixelFormat::Nv12, None) => nv12::to_rgb(rows, copy, &mut self.converted),
            (PixelFormat::Nv12, Some(levels)) => gray::of_nv12(copy, levels, &mut self.converted),
            (PixelFormat::Yuyv, None) => yuyv::to_rgb(rows, copy, &mut self.converted),
            (PixelFormat::Yuyv, Some(levels)) => {
                gray::of_yuyv(rows, copy, levels, &mut self.converted);
            }
            (PixelFormat::Rgb8, _) if self.channels == 1 => {
                gray::of_rgb(copy, &mut self.converted);
            }
            (PixelFormat::Bgr8, _) if self.channels == 1 => {
                gray::of_bgr(copy, &mut self.converted);
            }
            _ => return self.planes(copy, output),
        }
        // Out of self meanwhile, so that it can be read while self's row is written.
        let converted = std::mem::take(&mut self.converted);
        self.planes(&converted, output);
        self.converted = converted;
    }

    /// Resizes and normalises a crop without gaps: from the samples of a pixel to the channels of the network.
    fn planes(&mut self, crop: &[u8], output: &mut PlanarOutput<'_>) {
        let words = crop.as_chunks::<2>().0;
        match (self.format, self.channels) {
            (PixelFormat::Gray16, 1) => self.resize(words, output, |gray: [f32; 1]| gray),
            (PixelFormat::Gray16, _) => self.resize(words, output, |[gray]: [f32; 1]| [gray; 3]),
            (_, 1) => self.resize(crop, output, |gray: [f32; 1]| gray),
            (PixelFormat::Gray8, _) => self.resize(crop, output, |[gray]: [f32; 1]| [gray; 3]),
            (PixelFormat::Bgr8, _) => self.resize(crop, output, |[b, g, r]: [f32; 3]| [r, g, b]),
            (PixelFormat::Rgba8, 3) => {
                self.resize(crop, output, |[r, g, b, _]: [f32; 4]| [r, g, b]);
            }
            (PixelFormat::Rgba8, _) => self.resize(crop, output, |rgba: [f32; 4]| rgba),
            _ => self.resize(crop, output, |rgb: [f32; 3]| rgb),
        }
    }

    fn resize<S: Sample, const SAMPLES: usize, const PLANES: usize>(
        &mut self,
        crop: &[S],
        output: &mut PlanarOutput<'_>,
        order: impl Fn([f32; SAMPLES]) -> [f32; PLANES],
    ) {
        let (top, inner) = (self.place.top as usize, self.place.inner.height as usize);
        let row_len = self.row.len();
        for y in 0..self.height {
            let planes = rows_of::<PLANES>(output, y, self.width);
            if (top..top + inner).contains(&y) {
                let (first, weights) = self.rows.of(y - top);
                let source = &crop[first * row_len..][..weights.len() * row_len];
                resize::weighted_row(source, weights, &mut self.row);
                self.write_row(planes, &order);
            } else {
                for (plane, border) in planes.into_iter().zip(self.border) {
                    plane.fill(border);
                }
            }
        }
    }

    /// The horizontal pass over `self.row`, normalised into one row of each plane, between its borders.
    fn write_row<const SAMPLES: usize, const PLANES: usize>(
        &self,
        planes: [&mut [f32]; PLANES],
        order: &impl Fn([f32; SAMPLES]) -> [f32; PLANES],
    ) {
        let (left, inner) = (self.place.left as usize, self.place.inner.width as usize);
        let mut borders = self.border.into_iter();
        let mut planes = planes.map(|plane| {
            let border = borders.next().unwrap_or_default();
            let (before, rest) = plane.split_at_mut(left);
            let (plane, behind) = rest.split_at_mut(inner);
            before.fill(border);
            behind.fill(border);
            plane
        });
        let row = self.row.as_chunks::<SAMPLES>().0;
        for x in 0..inner {
            let (first, weights) = self.columns.of(x);
            let values = order(resize::weighted_pixel(&row[first..], weights));
            for (channel, plane) in planes.iter_mut().enumerate() {
                plane[x] = values[channel] * self.scale[channel] + self.bias[channel];
            }
        }
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
