//! What is preprocessed into what, and why something cannot be.

use punctual_types::{Fit, FrameError, FrameLayout, PixelFormat, Size};

/// Most channels of a picture.
pub const CHANNELS_MAX: usize = 4;

/// What a stream's frames are and what the network wants of them. Fixed at registration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreprocessSpec {
    /// Where pixels lie in the frame.
    pub frame: FrameLayout,
    /// Size of the rectangle to be cut out, the largest if it changes; its position comes with each frame. Of a tensor, the
    /// size of a channel.
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
    #[error("a crop of {crop} is larger than {largest}, the largest that is prepared for")]
    CropBeyond { crop: Size, largest: Size },
    #[error("no crop of {crop}: a tensor is taken as a whole, {tensor}")]
    CropOfTensor { crop: Size, tensor: Size },
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

/// Whether a picture's crop can be cut out and made into the network's channels.
pub(super) fn check_picture(spec: &PreprocessSpec) -> Result<(), PreprocessError> {
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
