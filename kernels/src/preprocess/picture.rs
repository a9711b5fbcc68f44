//! A picture's way: to pixels that can be resized, then resized and normalised, with borders around.

use punctual_types::{Fit, Letterbox, PixelFormat, SharedBytes, Size};

use super::converted::Converted;
use super::frame::CropRows;
use super::resize::{Columns, Lines, Rows, Sample, Taps};
use super::spec::{CHANNELS_MAX, PlanarOutput, PreprocessError, PreprocessSpec};
use crate::Isa;

/// Tables and scratch for the pictures of one stream.
#[derive(Debug)]
pub(super) struct Picture {
    /// Of this processor.
    isa: Isa,
    format: PixelFormat,
    channels: u32,
    fit: Fit,
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
    /// The crop as red, green and blue, or as gray, where it is not resized as it is.
    converted: Option<Converted>,
    /// Of a pixel, in `row`.
    samples: usize,
    /// One row of the crop after the vertical pass.
    row: Vec<f32>,
}

impl Picture {
    /// For a checked spec, with room for crops up to its own.
    pub(super) fn new(spec: &PreprocessSpec) -> Result<Self, PreprocessError> {
        let (format, channels, output) = (spec.frame.format, spec.channels, spec.output);
        let full_scale = format.full_scale();
        let scale = spec.std.map(|std| 1.0 / (full_scale * std));
        let bias = std::array::from_fn(|channel| -spec.mean[channel] / spec.std[channel]);
        let fill = match spec.fit {
            Fit::Stretch => 0.0,
            Fit::Letterbox { fill } => f32::from(fill) / 255.0 * full_scale,
        };
        let is_gray = matches!(format, PixelFormat::Gray8 | PixelFormat::Gray16);
        let samples = match format {
            PixelFormat::Rgba8 => 4,
            _ if is_gray || channels == 1 => 1,
            _ => 3,
        };
        let Size { width, height } = spec.crop;
        let mut picture = Self {
            isa: Isa::detect(),
            format,
            channels,
            fit: spec.fit,
            place: spec.fit.place(spec.crop, output),
            width: output.width as usize,
            height: output.height as usize,
            columns: Columns::up_to(width, output.width),
            rows: Taps::up_to(height, output.height),
            converted: Converted::of(spec),
            scale,
            bias,
            border: std::array::from_fn(|channel| fill * scale[channel] + bias[channel]),
            samples,
            row: Vec::with_capacity(width as usize * samples),
        };
        picture.cut(spec.crop);
        Ok(picture)
    }

    /// Makes the tables for crops of this size, which is not larger than that of the spec. Allocates nothing.
    pub(super) fn cut(&mut self, crop: Size) {
        let output = Size {
            width: self.width as u32,
            height: self.height as u32,
        };
        self.place = self.fit.place(crop, output);
        let inner = self.place.inner;
        self.columns.set(crop.width, inner.width);
        self.rows.set(crop.height, inner.height);
        if let Some(converted) = &mut self.converted {
            converted.cut(crop.width, self.rows.count_max());
        }
        self.row.resize(crop.width as usize * self.samples, 0.0);
    }

    /// From the crop's rows in this memory to normalised planes.
    pub(super) fn prepare(
        &mut self,
        rows: &CropRows,
        frame: SharedBytes<'_>,
        output: &mut PlanarOutput<'_>,
    ) {
        let crop = Crop { rows, frame };
        if let Some(converted) = &mut self.converted {
            converted.begin();
            if converted.is_by_colour() {
                return self.resize::<u8, 3>(crop, output, Self::colour_row::<3>);
            }
        }
        match (self.format, self.channels) {
            (PixelFormat::Gray16, 1) => {
                self.resize::<[u8; 2], 1>(crop, output, Self::colour_row::<1>);
            }
            (PixelFormat::Gray16, _) => {
                self.resize_pixels::<[u8; 2], 1, 3>(crop, output, |[gray]| [gray; 3]);
            }
            (_, 1) => self.resize::<u8, 1>(crop, output, Self::colour_row::<1>),
            (PixelFormat::Gray8, _) => {
                self.resize_pixels::<u8, 1, 3>(crop, output, |[gray]| [gray; 3]);
            }
            (PixelFormat::Bgr8, _) => {
                self.resize_pixels::<u8, 3, 3>(crop, output, |[b, g, r]| [r, g, b]);
            }
            (PixelFormat::Rgba8, 3) => {
                self.resize_pixels::<u8, 4, 3>(crop, output, |[r, g, b, _]| [r, g, b]);
            }
            (PixelFormat::Rgba8, _) => {
                self.resize_pixels::<u8, 4, 4>(crop, output, |rgba| rgba);
            }
            _ => self.resize_pixels::<u8, 3, 3>(crop, output, |rgb| rgb),
        }
    }

    /// Of a crop whose rows have the samples of one pixel after those of the other.
    fn resize_pixels<S: Sample, const SAMPLES: usize, const PLANES: usize>(
        &mut self,
        crop: Crop<'_>,
        output: &mut PlanarOutput<'_>,
        order: impl Fn([f32; SAMPLES]) -> [f32; PLANES],
    ) {
        self.resize::<S, PLANES>(crop, output, |picture, planes| {
            picture.pixel_row(planes, &order)
        });
    }

    /// `row` writes one row of each plane from `self.row`, between its borders.
    fn resize<S: Sample, const PLANES: usize>(
        &mut self,
        crop: Crop<'_>,
        output: &mut PlanarOutput<'_>,
        row: impl Fn(&Self, [&mut [f32]; PLANES]),
    ) {
        let (top, left) = (self.place.top as usize, self.place.left as usize);
        let (height, width) = (
            self.place.inner.height as usize,
            self.place.inner.width as usize,
        );
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
                let lines = match &mut self.converted {
                    Some(converted) => {
                        converted.up_to(first + weights.len(), crop.rows, crop.frame);
                        converted.lines()
                    }
                    None => crop.lines(),
                };
                // SAFETY: `self.isa` is available.
                unsafe {
                    sum_rows(&mut Rows {
                        lines,
                        first: lines.at(first),
                        weights,
                        sums: &mut self.row,
                    })
                };
                row(self, planes);
            }
        }
    }

    /// The horizontal pass over a row of each colour, normalised.
    #[inline(always)]
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
    #[inline(always)]
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

/// A crop, and the memory that its rows lie in.
#[derive(Clone, Copy)]
struct Crop<'a> {
    rows: &'a CropRows,
    frame: SharedBytes<'a>,
}

impl<'a> Crop<'a> {
    /// Of a format that is resized as it is.
    fn lines(self) -> Lines<'a> {
        let plane = self.rows.planes()[0];
        let bytes = self.frame;
        Lines {
            bytes: bytes.part(plane.offset, bytes.len() - plane.offset),
            stride: plane.stride,
            count: plane.count,
            len: plane.len,
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
