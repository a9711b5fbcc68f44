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
//! use punctual_types::{Fit, FrameLayout, PixelFormat, Size};
//! let layout = FrameLayout::packed(PixelFormat::Nv12, 640, 480);
//! let mut preprocessor = Preprocessor::new(&PreprocessSpec {
//!     frame: layout,
//!     crop: Size { width: 192, height: 192 },
//!     output: Size { width: 64, height: 64 },
//!     channels: 3,
//!     fit: Fit::Stretch,
//!     mean: [0.5; 4],
//!     std: [0.25; 4],
//! })?;
//! let frame = vec![128; layout.len()];
//! let mut copy = vec![0; preprocessor.copy_len_max()];
//! let mut planes = vec![0.0; 3 * 64 * 64];
//! let rows = preprocessor.crop_rows(101, 33)?;
//! rows.copy_from(&frame, &mut copy);
//! preprocessor.run(&rows, &copy, PlanarOutput::packed(&mut planes, 64, 64))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bt601;
mod frame;
mod gray;
mod picture;
mod resize;
mod tensor;
mod yuv;

pub use frame::{CropRows, RowSpan};
pub use tensor::NotFinite;

use picture::Picture;
use punctual_types::{Fit, FrameError, FrameLayout, PixelFormat, Size};

/// Most channels of a picture.
pub const CHANNELS_MAX: usize = 4;

/// What a stream's frames are and what the network wants of them. Fixed at registration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreprocessSpec {
    /// Where pixels lie in the frame.
    pub frame: FrameLayout,
    /// Size of the rectangle to be cut out; its position comes with each frame. Of a tensor, the size of a channel.
    pub crop: Size,
    /// Size of the network's input.
    pub output: Size,
    /// Planes of the network's input: 1 (gray), 3 (red, green, blue) or 4 (a further one); of a tensor any number.
    pub channels: u32,
    /// What becomes of a crop with another aspect ratio than the input's.
    pub fit: Fit,
    /// Subtracted a channel, in units of the format's full scale. Not from a tensor.
    pub mean: [f32; CHANNELS_MAX],
    /// Divided by a channel, in units of the format's full scale. Not of a tensor.
    pub std: [f32; CHANNELS_MAX],
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
    /// No picture of the format has these channels.
    #[error("frames of {} do not fit a network of {channels} channels", format.name())]
    Channels { format: PixelFormat, channels: u32 },
    /// A tensor that is not the network's input.
    #[error("a tensor of {found} does not fit an input of {channels} channels of {output}")]
    TensorSize {
        /// Columns, and rows of all channels together.
        found: Size,
        channels: u32,
        output: Size,
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
        /// 0 red (or gray), 1 green, 2 blue.
        channel: usize,
        mean: f32,
        std: f32,
    },
}

/// The smallest divisor: 1/1000 of the full scale is a quarter of one level of a byte.
pub const STD_MIN: f32 = 0.001;

/// Where the planes (gray; or red, green, blue, and perhaps a fourth; or a tensor's) are written. Strides are in elements.
#[derive(Debug)]
pub struct PlanarOutput<'a> {
    pub data: &'a mut [f32],
    /// Element of the first plane's first pixel.
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

/// Crops, resizes and normalises the frames of one stream; or copies the tensors of one.
#[derive(Debug)]
pub struct Preprocessor {
    frame: FrameLayout,
    /// Of a tensor, all of it.
    crop: Size,
    output: Size,
    channels: usize,
    /// None: a tensor, which is only copied.
    picture: Option<Picture>,
}

impl Preprocessor {
    /// Checks the geometry and makes the tables.
    pub fn new(spec: &PreprocessSpec) -> Result<Self, PreprocessError> {
        spec.frame.check()?;
        let (crop, picture) = if spec.frame.format == PixelFormat::Tensor {
            tensor::check(spec)?;
            (spec.frame.size(), None)
        } else {
            check_picture(spec)?;
            (spec.crop, Some(Picture::new(spec)?))
        };
        Ok(Self {
            frame: spec.frame,
            crop,
            output: spec.output,
            channels: spec.channels as usize,
            picture,
        })
    }

    /// Which bytes of the frame the crop with this top left corner needs.
    pub fn crop_rows(&self, x: u32, y: u32) -> Result<CropRows, PreprocessError> {
        self.rows_in(&self.frame, x, y)
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
        self.rows_in(layout, x, y)
    }

    fn rows_in(&self, layout: &FrameLayout, x: u32, y: u32) -> Result<CropRows, PreprocessError> {
        CropRows::new(layout, self.crop, self.channels > 1, x, y)
    }

    /// Bytes that a private copy has at most, whatever the crop's position.
    pub fn copy_len_max(&self) -> usize {
        CropRows::copy_len_max(&self.frame, self.crop)
    }

    /// Size of the network's input.
    pub fn output(&self) -> Size {
        self.output
    }

    /// Planes of the network's input.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Turns a private copy of the crop's rows, as laid out by `rows`, into normalised planes.
    ///
    /// # Errors
    /// If a tensor has a value that is not finite; what the planes then hold is not specified. Never of a picture.
    ///
    /// # Panics
    /// If `rows` is of another geometry, the copy is shorter than [`CropRows::copy_len`], or the planes do not
    /// fit into the output: sizes are fixed by the plan, so that is a programmer's error, never a client's.
    pub fn run(
        &mut self,
        rows: &CropRows,
        copy: &[u8],
        mut output: PlanarOutput<'_>,
    ) -> Result<(), NotFinite> {
        assert_eq!(rows.crop(), self.crop, "rows of another preprocessor");
        assert_eq!(rows.format(), self.frame.format, "rows of another format");
        assert!(copy.len() >= rows.copy_len(), "copy shorter than its rows");
        assert!(
            output.plane_stride >= self.output.width as usize,
            "planes would overlap: stride {} under {}",
            output.plane_stride,
            self.output.width
        );
        match &mut self.picture {
            Some(picture) => picture.prepare(rows, copy, &mut output),
            None => tensor::copy(copy, self.output, self.channels, &mut output)?,
        }
        Ok(())
    }
}

/// Whether a picture's crop can be cut out and made into the network's channels.
fn check_picture(spec: &PreprocessSpec) -> Result<(), PreprocessError> {
    let (frame, crop) = (spec.frame, spec.crop);
    crop.check("crop")?;
    spec.output.check("output")?;
    if crop.width > frame.width || crop.height > frame.height {
        return Err(PreprocessError::CropSize {
            crop,
            frame: frame.size(),
        });
    }
    let (format, channels) = (frame.format, spec.channels);
    if !format.gives(channels) {
        return Err(PreprocessError::Channels { format, channels });
    }
    for channel in 0..channels as usize {
        let (mean, std) = (spec.mean[channel], spec.std[channel]);
        if !mean.is_finite() || !std.is_finite() || std < STD_MIN {
            return Err(PreprocessError::Normalisation { channel, mean, std });
        }
    }
    Ok(())
}
