//! What can be wrong with the description of a camera's frames.

use thiserror::Error;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameCause {
    /// A crop that is not inside the frame.
    #[error("the crop of {crop_width}x{crop_height} is larger than the frame of {width}x{height}")]
    CropTooLarge {
        /// Columns of the crop.
        crop_width: u64,
        /// Rows of the crop.
        crop_height: u64,
        /// Columns of the frame.
        width: u32,
        /// Rows of the frame.
        height: u32,
    },
    /// Rows that overlap.
    #[error("a stride of {stride} bytes is less than a row's {least}")]
    StrideTooShort {
        /// Bytes from row to row.
        stride: u64,
        /// Bytes of a row.
        least: u64,
    },
    /// NV12 or YUYV with half a chroma sample.
    #[error("{0} is odd")]
    OddDimension(u64),
    /// Not a pair of numbers.
    #[error("{count} numbers where [width, height] is wanted")]
    NotASize {
        /// How many there are.
        count: usize,
    },
}
