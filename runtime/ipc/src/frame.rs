//! Where a frame's pixels lie in a slot; fixed when a stream is registered.

use serde::{Deserialize, Serialize};

/// How pixels are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PixelFormat {
    /// Three bytes a pixel: red, green, blue.
    Rgb8,
    /// A plane of luma bytes, then a plane at half the resolution of interleaved U and V bytes.
    Nv12,
}

impl PixelFormat {
    /// Its number in a descriptor.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Rgb8 => 1,
            Self::Nv12 => 2,
        }
    }
}

/// Where a frame's pixels lie, from the first byte of its slot on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSpec {
    /// How pixels are coded.
    pub format: PixelFormat,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from one row of RGB or luma to the next.
    pub row_stride: u32,
    /// First byte of the chroma plane; zero for RGB.
    pub chroma_offset: u32,
    /// Bytes from one row of chroma to the next; zero for RGB.
    pub chroma_stride: u32,
}

/// A frame that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum FrameError {
    /// Width or height out of range.
    #[error("a frame of {width} x {height} pixels: each side must be 1 to {limit}", limit = FrameSpec::SIDE_MAX)]
    Side {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// NV12 shares one chroma sample between four pixels.
    #[error("an NV12 frame of {width} x {height} pixels: both sides must be even")]
    Odd {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// Rows would overlap.
    #[error("a stride of {stride} bytes for rows of {row}: it must be at least that")]
    Stride {
        /// Bytes from row to row.
        stride: u32,
        /// Bytes a row.
        row: u32,
    },
    /// Planes would overlap, or there is a chroma plane where there can be none.
    #[error("the chroma plane begins at byte {offset}: it must be {expected} or more (RGB: 0)")]
    Chroma {
        /// Where it begins.
        offset: u32,
        /// The least for NV12; the only value for RGB.
        expected: u64,
    },
    /// Larger than a slot can be.
    #[error("a frame of {bytes} bytes: at most {limit}", limit = FrameSpec::BYTES_MAX)]
    Bytes {
        /// Its size.
        bytes: u64,
    },
}

impl FrameSpec {
    /// The longest side.
    pub const SIDE_MAX: u32 = 16_384;
    /// The largest frame: a 16-megapixel RGB image with generous strides.
    pub const BYTES_MAX: u64 = 64 << 20;

    /// Rows and planes without gaps.
    #[must_use]
    pub const fn packed(format: PixelFormat, width: u32, height: u32) -> Self {
        let row = match format {
            PixelFormat::Rgb8 => width.saturating_mul(3),
            PixelFormat::Nv12 => width,
        };
        Self::strided(format, width, height, row)
    }

    /// Rows `stride` bytes apart, in both planes, which follow each other without a gap.
    #[must_use]
    pub const fn strided(format: PixelFormat, width: u32, height: u32, stride: u32) -> Self {
        let (row_stride, chroma_offset, chroma_stride) = match format {
            PixelFormat::Rgb8 => (stride, 0, 0),
            PixelFormat::Nv12 => (stride, stride.saturating_mul(height), stride),
        };
        Self {
            format,
            width,
            height,
            row_stride,
            chroma_offset,
            chroma_stride,
        }
    }

    /// Bytes from the frame's first to the last that belongs to a pixel.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let plane = |rows: u32, stride: u32, row: u64| {
            u64::from(rows.saturating_sub(1)) * u64::from(stride) + row
        };
        let width = u64::from(self.width);
        match self.format {
            PixelFormat::Rgb8 => plane(self.height, self.row_stride, width * 3),
            PixelFormat::Nv12 => {
                u64::from(self.chroma_offset) + plane(self.height / 2, self.chroma_stride, width)
            }
        }
    }

    /// Whether such a frame can be.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self) -> Result<(), FrameError> {
        let (width, height) = (self.width, self.height);
        let side = 1..=Self::SIDE_MAX;
        if !side.contains(&width) || !side.contains(&height) {
            return Err(FrameError::Side { width, height });
        }
        let stride = |stride, row| {
            if stride < row {
                return Err(FrameError::Stride { stride, row });
            }
            Ok(())
        };
        let chroma = |expected: u64, fits: bool| {
            if fits {
                return Ok(());
            }
            Err(FrameError::Chroma {
                offset: self.chroma_offset,
                expected,
            })
        };
        match self.format {
            PixelFormat::Rgb8 => {
                stride(self.row_stride, width * 3)?;
                chroma(0, self.chroma_offset == 0 && self.chroma_stride == 0)?;
            }
            PixelFormat::Nv12 => {
                if !width.is_multiple_of(2) || !height.is_multiple_of(2) {
                    return Err(FrameError::Odd { width, height });
                }
                stride(self.row_stride, width)?;
                stride(self.chroma_stride, width)?;
                let luma_end =
                    u64::from(height - 1) * u64::from(self.row_stride) + u64::from(width);
                chroma(luma_end, u64::from(self.chroma_offset) >= luma_end)?;
            }
        }
        match self.bytes() {
            bytes if bytes > Self::BYTES_MAX => Err(FrameError::Bytes { bytes }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_frames_have_the_obvious_size() {
        let rgb = FrameSpec::packed(PixelFormat::Rgb8, 640, 480);
        assert_eq!((rgb.check(), rgb.bytes()), (Ok(()), 921_600));
        let nv12 = FrameSpec::packed(PixelFormat::Nv12, 640, 480);
        assert_eq!((nv12.check(), nv12.bytes()), (Ok(()), 460_800));
    }

    #[test]
    fn impossible_frames_are_refused_with_their_values() {
        let rgb = FrameSpec::packed(PixelFormat::Rgb8, 640, 480);
        let nv12 = FrameSpec::packed(PixelFormat::Nv12, 640, 480);
        for bad in [
            FrameSpec { width: 0, ..rgb },
            FrameSpec {
                height: u32::MAX,
                ..rgb
            },
            FrameSpec {
                row_stride: 1_919,
                ..rgb
            },
            FrameSpec {
                chroma_offset: 1,
                ..rgb
            },
            FrameSpec {
                row_stride: u32::MAX,
                ..rgb
            },
            FrameSpec { width: 639, ..nv12 },
            FrameSpec {
                chroma_stride: 10,
                ..nv12
            },
            FrameSpec {
                chroma_offset: 307_199,
                ..nv12
            },
            FrameSpec {
                chroma_offset: u32::MAX,
                ..nv12
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
