//! Where a frame's pixels lie in a slot; fixed when a stream is registered.

use punctual_types::FrameLayout;
pub use punctual_types::PixelFormat;
use serde::{Deserialize, Serialize};

/// Where rows and planes lie in a slot, in bytes; a client may have its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The first row's first byte.
    pub offset: u32,
    /// From one row of the first plane to the next.
    pub row_stride: u32,
    /// The chroma plane's first byte, counted from the slot's; zero for formats without one.
    pub chroma_offset: u32,
    /// From one row of chroma to the next; zero for formats without a chroma plane.
    pub chroma_stride: u32,
}

/// Where a frame's pixels lie, from the first byte of its slot on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSpec {
    pub format: PixelFormat,
    pub width: u32,
    pub height: u32,
    /// The first row's first byte.
    pub offset: u32,
    /// Bytes from one row of the first plane to the next.
    pub row_stride: u32,
    /// First byte of the chroma plane; zero for formats without one.
    pub chroma_offset: u32,
    /// Bytes from one row of chroma to the next; zero for formats without a chroma plane.
    pub chroma_stride: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum FrameError {
    /// Width or height out of range.
    #[error("a frame of {width} x {height} pixels: each side must be 1 to {limit}, of a tensor to 2^24", limit = FrameSpec::SIDE_MAX)]
    Side { width: u32, height: u32 },
    /// Pixels that share a chroma sample would be torn apart.
    #[error(
        "a frame of {width} x {height} pixels: NV12 needs both sides even, YUYV and UYVY an even width"
    )]
    Odd { width: u32, height: u32 },
    /// Rows would overlap.
    #[error("a stride of {stride} bytes for rows of {row}: it must be at least that")]
    Stride {
        /// Bytes from row to row.
        stride: u32,
        /// Bytes a row.
        row: u32,
    },
    /// Planes would overlap, or there is a chroma plane where there can be none.
    #[error(
        "the chroma plane begins at byte {offset}: it must be {expected} or more (0, with a stride of 0, for formats without one)"
    )]
    Chroma {
        offset: u32,
        /// The least for NV12; the only value for other formats.
        expected: u64,
    },
    /// Larger than a slot can be.
    #[error("a frame of {bytes} bytes: at most {limit}", limit = FrameSpec::BYTES_MAX)]
    Bytes { bytes: u64 },
}

impl FrameSpec {
    pub const SIDE_MAX: u32 = punctual_types::SIDE_MAX;
    /// The largest frame: a 16-megapixel RGB image with generous strides.
    pub const BYTES_MAX: u64 = 64 << 20;

    /// Rows and planes without gaps.
    #[must_use]
    pub fn packed(format: PixelFormat, width: u32, height: u32) -> Self {
        FrameLayout::packed(format, width, height).into()
    }

    /// Rows `stride` bytes apart, in all planes, which follow each other without a gap.
    #[must_use]
    pub fn strided(format: PixelFormat, width: u32, height: u32, stride: u32) -> Self {
        FrameLayout::strided(format, width, height, stride).into()
    }

    /// The same pixels, lying elsewhere.
    #[must_use]
    pub const fn with_layout(self, layout: Layout) -> Self {
        Self {
            offset: layout.offset,
            row_stride: layout.row_stride,
            chroma_offset: layout.chroma_offset,
            chroma_stride: layout.chroma_stride,
            ..self
        }
    }

    /// Where its rows and planes lie.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        Layout {
            offset: self.offset,
            row_stride: self.row_stride,
            chroma_offset: self.chroma_offset,
            chroma_stride: self.chroma_stride,
        }
    }

    /// Bytes from the slot's first to the last that belongs to a pixel.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        FrameLayout::from(*self).bytes()
    }

    /// Whether such a frame can be.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self) -> Result<(), FrameError> {
        FrameLayout::from(*self).check()?;
        let plane = (self.chroma_offset, self.chroma_stride);
        if self.format != PixelFormat::Nv12 && plane != (0, 0) {
            return Err(FrameError::Chroma {
                offset: self.chroma_offset,
                expected: 0,
            });
        }
        match self.bytes() {
            bytes if bytes > Self::BYTES_MAX => Err(FrameError::Bytes { bytes }),
            _ => Ok(()),
        }
    }
}

impl From<FrameLayout> for FrameSpec {
    fn from(layout: FrameLayout) -> Self {
        Self {
            format: layout.format,
            width: layout.width,
            height: layout.height,
            offset: layout.offset,
            row_stride: layout.row_stride,
            chroma_offset: layout.chroma_offset,
            chroma_stride: layout.chroma_stride,
        }
    }
}

impl From<FrameSpec> for FrameLayout {
    fn from(spec: FrameSpec) -> Self {
        Self {
            format: spec.format,
            width: spec.width,
            height: spec.height,
            offset: spec.offset,
            row_stride: spec.row_stride,
            chroma_offset: spec.chroma_offset,
            chroma_stride: spec.chroma_stride,
        }
    }
}

impl From<punctual_types::FrameError> for FrameError {
    fn from(error: punctual_types::FrameError) -> Self {
        use punctual_types::FrameError as Of;
        match error {
            Of::Side { width, height, .. } => Self::Side { width, height },
            Of::OddNv12 { width, height } | Of::OddWidth { width, height, .. } => {
                Self::Odd { width, height }
            }
            Of::Stride { stride, row, .. } => Self::Stride { stride, row },
            Of::ChromaOffset { offset, luma_end } => Self::Chroma {
                offset,
                expected: luma_end,
            },
            Of::Len { len } => Self::Bytes { bytes: len },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_frames_have_the_obvious_size() {
        for (format, bytes) in [
            (PixelFormat::Rgb8, 921_600),
            (PixelFormat::Bgr8, 921_600),
            (PixelFormat::Nv12, 460_800),
            (PixelFormat::Gray8, 307_200),
            (PixelFormat::Yuyv, 614_400),
            (PixelFormat::Uyvy, 614_400),
            (PixelFormat::Gray16, 614_400),
            (PixelFormat::Rgba8, 1_228_800),
            (PixelFormat::Tensor, 1_228_800),
        ] {
            let frame = FrameSpec::packed(format, 640, 480);
            assert_eq!((frame.check(), frame.bytes()), (Ok(()), bytes));
        }
    }

    #[test]
    fn another_layout_moves_the_pixels_and_keeps_what_they_are() {
        let packed = FrameSpec::packed(PixelFormat::Nv12, 640, 480);
        let layout = Layout {
            offset: 128,
            row_stride: 704,
            chroma_offset: 128 + 704 * 512,
            chroma_stride: 768,
        };
        let moved = packed.with_layout(layout);
        assert_eq!((moved.layout(), moved.check()), (layout, Ok(())));
        assert_eq!((moved.format, moved.width), (PixelFormat::Nv12, 640));
        assert_eq!(moved.bytes(), 128 + 704 * 512 + 239 * 768 + 640);
        assert_eq!(moved.with_layout(packed.layout()), packed);
    }

    #[test]
    fn impossible_frames_are_refused_with_their_values() {
        let rgb = FrameSpec::packed(PixelFormat::Rgb8, 640, 480);
        let nv12 = FrameSpec::packed(PixelFormat::Nv12, 640, 480);
        let yuyv = FrameSpec::packed(PixelFormat::Yuyv, 640, 480);
        let gray = FrameSpec::packed(PixelFormat::Gray8, 640, 480);
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
            FrameSpec {
                offset: u32::MAX,
                ..rgb
            },
            FrameSpec { width: 639, ..nv12 },
            FrameSpec {
                height: 479,
                ..nv12
            },
            FrameSpec {
                chroma_stride: 10,
                ..nv12
            },
            FrameSpec {
                chroma_offset: 307_199,
                ..nv12
            },
            FrameSpec { offset: 1, ..nv12 },
            FrameSpec {
                chroma_offset: u32::MAX,
                ..nv12
            },
            FrameSpec { width: 639, ..yuyv },
            FrameSpec {
                format: PixelFormat::Uyvy,
                width: 639,
                ..yuyv
            },
            FrameSpec {
                row_stride: 1_279,
                ..yuyv
            },
            FrameSpec {
                chroma_stride: 640,
                ..gray
            },
            FrameSpec {
                row_stride: 639,
                ..gray
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
