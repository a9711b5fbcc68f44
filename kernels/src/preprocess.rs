//! From a camera frame to a network's input: crop, anti-aliased resize, normalise.
//!
//! The frame lies in memory that another process may write to at any time, so nothing here reads
//! it. [`Preprocessor::crop_rows`] says which bytes of the frame a crop needs; the caller copies
//! them into a private buffer by whatever means is safe there, and [`Preprocessor::run`] works on
//! that copy. All tables and scratch are made by [`Preprocessor::new`]: `run` allocates nothing,
//! and its time depends on the sizes only, not on the pixels.
//!
//! ```
//! use punctual_kernels::preprocess::{PlanarOutput, Preprocessor, PreprocessSpec};
//! use punctual_types::{FrameLayout, PixelFormat, Size};
//! let layout = FrameLayout::packed(PixelFormat::Nv12, 640, 480);
//! let mut preprocessor = Preprocessor::new(&PreprocessSpec {
//!     frame: layout,
//!     crop: Size { width: 192, height: 192 },
//!     output: Size { width: 64, height: 64 },
//!     mean: [0.5; 3],
//!     std: [0.25; 3],
//! })?;
//! let frame = vec![128; layout.len()];
//! let mut copy = vec![0; preprocessor.copy_len_max()];
//! let mut planes = vec![0.0; 3 * 64 * 64];
//! let rows = preprocessor.crop_rows(101, 33)?;
//! rows.copy_from(&frame, &mut copy);
//! preprocessor.run(&rows, &copy, PlanarOutput::packed(&mut planes, 64, 64));
//! # Ok::<(), punctual_kernels::preprocess::PreprocessError>(())
//! ```

mod bt601;
mod frame;
mod nv12;
mod resize;
mod yuyv;

pub use frame::{CropRows, RowSpan};

use punctual_types::{FrameError, FrameLayout, PixelFormat, Size};
use resize::Taps;

/// What a stream's frames are and what the network wants of them. Fixed at registration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreprocessSpec {
    /// Where pixels lie in the frame.
    pub frame: FrameLayout,
    /// Size of the rectangle to be cut out; its position comes with each frame.
    pub crop: Size,
    /// Size of the network's input.
    pub output: Size,
    /// Subtracted a channel (R, G, B), in units of the full scale.
    pub mean: [f32; 3],
    /// Divided by a channel, in units of the full scale.
    pub std: [f32; 3],
}

/// Why a geometry cannot be preprocessed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PreprocessError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a crop of {crop} does not fit into a frame of {frame}")]
    CropSize { crop: Size, frame: Size },
    /// A client's own layout is one of other frames.
    #[error("a layout of other frames: {} of {} instead of {} of {}",
        found.format.name(), found.size(), expected.format.name(), expected.size())]
    OtherFrames {
        found: FrameLayout,
        /// What this preprocessor was made for.
        expected: FrameLayout,
    },
    /// The crop does not fit at this position.
    #[error(
        "a crop at ({x}, {y}) reaches beyond the frame; x is at most {x_max}, y at most {y_max}"
    )]
    CropPosition {
        x: u32,
        y: u32,
        x_max: u32,
        y_max: u32,
    },
    /// Dividing by it gives no number.
    #[error(
        "mean {mean} and std {std} of channel {channel}: both must be finite, std at least {STD_MIN}"
    )]
    Normalisation {
        /// 0 red, 1 green, 2 blue.
        channel: usize,
        mean: f32,
        std: f32,
    },
}

/// The smallest divisor: 1/1000 of the full scale is a quarter of one level of a byte.
pub const STD_MIN: f32 = 0.001;

/// Where the three planes (R, G, B) are written. Strides are in elements.
#[derive(Debug)]
pub struct PlanarOutput<'a> {
    pub data: &'a mut [f32],
    /// Element of red's first pixel.
    pub offset: usize,
    /// From one row to the next.
    pub row_stride: usize,
    /// From one plane to the next.
    pub plane_stride: usize,
}

impl<'a> PlanarOutput<'a> {
    /// Planes of `width` x `height` without gaps, from the first element on.
    pub fn packed(data: &'a mut [f32], width: usize, height: usize) -> Self {
        Self {
            data,
            offset: 0,
            row_stride: width,
            plane_stride: width * height,
        }
    }
}

/// Crops, resizes and normalises the frames of one stream.
#[derive(Debug)]
pub struct Preprocessor {
    frame: FrameLayout,
    crop: Size,
    output: Size,
    columns: Taps,
    rows: Taps,
    /// Normalised = byte * scale + bias, a channel.
    scale: [f32; 3],
    bias: [f32; 3],
    /// The crop as RGB, where the frame is in YUV: `crop.width * crop.height * 3` bytes.
    rgb: Box<[u8]>,
    /// One row of the crop after the vertical pass: a value for each byte.
    row: Box<[f32]>,
}

impl Preprocessor {
    /// Checks the geometry and makes the tables.
    pub fn new(spec: &PreprocessSpec) -> Result<Self, PreprocessError> {
        spec.frame.check()?;
        let (frame, crop, output) = (spec.frame, spec.crop, spec.output);
        crop.check("crop")?;
        output.check("output")?;
        if crop.width > frame.width || crop.height > frame.height {
            return Err(PreprocessError::CropSize {
                crop,
                frame: frame.size(),
            });
        }
        let mut scale = [0.0; 3];
        let mut bias = [0.0; 3];
        for channel in 0..3 {
            let (mean, std) = (spec.mean[channel], spec.std[channel]);
            if !mean.is_finite() || !std.is_finite() || std < STD_MIN {
                return Err(PreprocessError::Normalisation { channel, mean, std });
            }
            scale[channel] = 1.0 / (255.0 * std);
            bias[channel] = -mean / std;
        }
        let row_len = match frame.format {
            PixelFormat::Gray8 => crop.width as usize,
            _ => crop.width as usize * 3,
        };
        let rgb_len = match frame.format {
            PixelFormat::Nv12 | PixelFormat::Yuyv => row_len * crop.height as usize,
            PixelFormat::Rgb8 | PixelFormat::Bgr8 | PixelFormat::Gray8 => 0,
        };
        Ok(Self {
            frame,
            crop,
            output,
            columns: Taps::new(crop.width, output.width),
            rows: Taps::new(crop.height, output.height),
            scale,
            bias,
            rgb: vec![0; rgb_len].into_boxed_slice(),
            row: vec![0.0; row_len].into_boxed_slice(),
        })
    }

    /// Which bytes of the frame the crop with this top left corner needs.
    pub fn crop_rows(&self, x: u32, y: u32) -> Result<CropRows, PreprocessError> {
        CropRows::new(&self.frame, self.crop, x, y)
    }

    /// As [`crop_rows`](Self::crop_rows), in a frame of the same size and format whose rows and planes lie elsewhere.
    pub fn crop_rows_in(
        &self,
        layout: &FrameLayout,
        x: u32,
        y: u32,
    ) -> Result<CropRows, PreprocessError> {
        let (found, expected) = (*layout, self.frame);
        if found.format != expected.format || found.size() != expected.size() {
            return Err(PreprocessError::OtherFrames { found, expected });
        }
        layout.check()?;
        CropRows::new(layout, self.crop, x, y)
    }

    /// Bytes that a private copy has at most, whatever the crop's position.
    pub fn copy_len_max(&self) -> usize {
        CropRows::copy_len_max(&self.frame, self.crop)
    }

    /// Size of the network's input.
    pub fn output(&self) -> Size {
        self.output
    }

    /// Turns a private copy of the crop's rows, as laid out by `rows`, into normalised planes.
    ///
    /// # Panics
    /// If `rows` is of another geometry, the copy is shorter than [`CropRows::copy_len`], or the planes do not
    /// fit into the output: sizes are fixed by the plan, so that is a programmer's error, never a client's.
    pub fn run(&mut self, rows: &CropRows, copy: &[u8], mut output: PlanarOutput<'_>) {
        assert_eq!(rows.crop(), self.crop, "rows of another preprocessor");
        assert_eq!(rows.format(), self.frame.format, "rows of another format");
        assert!(copy.len() >= rows.copy_len(), "copy shorter than its rows");
        let crop = match self.frame.format {
            PixelFormat::Rgb8 | PixelFormat::Bgr8 | PixelFormat::Gray8 => copy,
            PixelFormat::Nv12 => {
                nv12::to_rgb(rows, copy, &mut self.rgb);
                &self.rgb[..]
            }
            PixelFormat::Yuyv => {
                yuyv::to_rgb(rows, copy, &mut self.rgb);
                &self.rgb[..]
            }
        };
        let row_len = self.row.len();
        for y in 0..self.output.height as usize {
            let (first, weights) = self.rows.of(y);
            let source = &crop[first * row_len..][..weights.len() * row_len];
            resize::weighted_row(source, weights, &mut self.row);
            let start = output.offset + y * output.row_stride;
            self.write_row(&mut output, start);
        }
    }

    /// The horizontal pass over `self.row`, normalised into one row of each plane.
    fn write_row(&self, output: &mut PlanarOutput<'_>, start: usize) {
        let width = self.output.width as usize;
        assert!(
            output.plane_stride >= width,
            "planes would overlap: stride {} under {width}",
            output.plane_stride
        );
        let (red, rest) = output.data[start..].split_at_mut(output.plane_stride);
        let (green, blue) = rest.split_at_mut(output.plane_stride);
        let planes = red[..width]
            .iter_mut()
            .zip(&mut green[..width])
            .zip(&mut blue[..width]);
        for (x, ((red, green), blue)) in planes.enumerate() {
            let (first, weights) = self.columns.of(x);
            let [r, g, b] = match self.frame.format {
                PixelFormat::Gray8 => [resize::weighted_value(&self.row[first..], weights); 3],
                PixelFormat::Bgr8 => {
                    let [b, g, r] = resize::weighted_pixel(&self.row[first * 3..], weights);
                    [r, g, b]
                }
                _ => resize::weighted_pixel(&self.row[first * 3..], weights),
            };
            *red = r * self.scale[0] + self.bias[0];
            *green = g * self.scale[1] + self.bias[1];
            *blue = b * self.scale[2] + self.bias[2];
        }
    }
}
