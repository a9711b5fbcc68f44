//! A camera's frames: how pixels are coded, and where they lie.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest side of a frame, in pixels: more than any camera on a Jetson gives, and it keeps a
/// frame's bytes below 2^32.
pub const SIDE_MAX: u32 = 16_384;

/// The longest side of a [tensor](PixelFormat::Tensor), in values: as many as the largest frame of a channel holds.
const TENSOR_SIDE_MAX: u32 = 1 << 24;

/// Most vectors that come with a frame.
pub const VECTORS_MAX: usize = 4;

/// Most numbers of such a vector. A client's intake thread copies and checks all of them for each frame; how long that
/// takes is in the profile, in the time of the frame's preparation.
pub const VECTOR_LENGTH_MAX: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

impl Size {
    /// Whether each side is 1 to [`SIDE_MAX`]; `what` names it in the error.
    pub fn check(self, what: &'static str) -> Result<(), FrameError> {
        self.within(SIDE_MAX, what)
    }

    fn within(self, limit: u32, what: &'static str) -> Result<(), FrameError> {
        let Self { width, height } = self;
        if (1..=limit).contains(&width) && (1..=limit).contains(&height) {
            return Ok(());
        }
        Err(FrameError::Side {
            what,
            width,
            height,
            limit,
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// How pixels are coded. The numbers stand in the channel's descriptors of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u32)]
pub enum PixelFormat {
    /// Three bytes a pixel: red, green, blue.
    Rgb8 = 1,
    /// A plane of luma bytes, then a plane at half the resolution of interleaved U and V bytes.
    /// BT.601 coefficients, limited range (luma 16 to 235, chroma 16 to 240): what V4L2 means by
    /// `V4L2_PIX_FMT_NV12` with the default quantisation and `V4L2_YCBCR_ENC_601`.
    Nv12 = 2,
    /// Three bytes a pixel: blue, green, red.
    Bgr8 = 3,
    /// One byte a pixel: red, green and blue alike.
    Gray8 = 4,
    /// Four bytes for two pixels of a row: luma, U, luma, V. Colours as for [`Self::Nv12`].
    Yuyv = 5,
    /// Two bytes a pixel, the low one first: red, green and blue alike. 65535 is full scale. For depth and thermal
    /// cameras; V4L2's `V4L2_PIX_FMT_Y16`.
    Gray16 = 6,
    /// Four bytes a pixel: red, green, blue, and a fourth value.
    Rgba8 = 7,
    /// No picture, but the input that a network takes, as the client prepared it: little-endian `f32`, four bytes
    /// each, a row after the other, a channel after the other. As a frame it is as wide as a channel, and as high as
    /// all of them together.
    Tensor = 8,
    /// Four bytes for two pixels of a row: U, luma, V, luma. Colours as for [`Self::Nv12`].
    Uyvy = 9,
}

impl PixelFormat {
    pub const ALL: [Self; 9] = [
        Self::Rgb8,
        Self::Nv12,
        Self::Bgr8,
        Self::Gray8,
        Self::Yuyv,
        Self::Gray16,
        Self::Rgba8,
        Self::Tensor,
        Self::Uyvy,
    ];

    /// Its number in a descriptor of a frame.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// As in manifests and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rgb8 => "rgb8",
            Self::Nv12 => "nv12",
            Self::Bgr8 => "bgr8",
            Self::Gray8 => "gray8",
            Self::Yuyv => "yuyv",
            Self::Gray16 => "gray16",
            Self::Rgba8 => "rgba8",
            Self::Tensor => "tensor",
            Self::Uyvy => "uyvy",
        }
    }

    /// Whether a picture of this format can be made into one for a network of `channels` channels: 1 is gray, 3 are red,
    /// green and blue, 4 are these and a fourth. Never of a tensor, which is no picture.
    #[must_use]
    pub const fn gives(self, channels: u32) -> bool {
        match self {
            Self::Rgb8
            | Self::Nv12
            | Self::Bgr8
            | Self::Gray8
            | Self::Yuyv
            | Self::Gray16
            | Self::Uyvy => matches!(channels, 1 | 3),
            Self::Rgba8 => matches!(channels, 3 | 4),
            Self::Tensor => false,
        }
    }

    /// Whether a kernel of the GPU prepares pictures of this format for a network of `channels` channels, stretched to its input.
    #[must_use]
    pub const fn has_frame_kernel(self, channels: u32) -> bool {
        matches!(self, Self::Rgb8 | Self::Nv12 | Self::Yuyv) && channels == 3
    }

    /// The value that a network sees as 1 before it is normalised.
    #[must_use]
    pub const fn full_scale(self) -> f32 {
        match self {
            Self::Gray16 => 65535.0,
            Self::Tensor => 1.0,
            _ => 255.0,
        }
    }

    /// Bytes of a row of `width` pixels in the first plane.
    #[must_use]
    pub const fn row_bytes(self, width: u32) -> u32 {
        match self {
            Self::Rgb8 | Self::Bgr8 => width.saturating_mul(3),
            Self::Nv12 | Self::Gray8 => width,
            Self::Yuyv | Self::Uyvy | Self::Gray16 => width.saturating_mul(2),
            Self::Rgba8 | Self::Tensor => width.saturating_mul(4),
        }
    }

    /// Pixels in a row, and in a column, that share a chroma sample: a frame has whole ones.
    #[must_use]
    pub const fn shared_colour(self) -> (u32, u32) {
        match self {
            Self::Nv12 => (2, 2),
            Self::Yuyv | Self::Uyvy => (2, 1),
            _ => (1, 1),
        }
    }

    /// What the first plane is called in errors.
    const fn plane(self) -> &'static str {
        match self {
            Self::Nv12 => "luma",
            _ => self.name(),
        }
    }
}

/// No [name](PixelFormat::name) of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of rgb8, nv12, bgr8, gray8, yuyv, gray16, rgba8, tensor, uyvy")]
pub struct UnknownFormat;

impl FromStr for PixelFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let named = |format: &Self| format.name() == name;
        Self::ALL.into_iter().find(named).ok_or(UnknownFormat)
    }
}

/// Where a frame's pixels lie, from the first byte of its memory on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    pub format: PixelFormat,
    pub width: u32,
    pub height: u32,
    /// First byte of the first row.
    pub offset: u32,
    /// Bytes from one row of the first plane to the next.
    pub row_stride: u32,
    /// First byte of the chroma plane; zero for formats without one.
    pub chroma_offset: u32,
    /// Bytes from one row of chroma to the next; zero for formats without a chroma plane.
    pub chroma_stride: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A side is zero or beyond [`SIDE_MAX`], of a tensor beyond 2^24.
    #[error("{what} is {width}x{height}; each side must be 1 to {limit}")]
    Side {
        what: &'static str,
        width: u32,
        height: u32,
        limit: u32,
    },
    /// NV12 has one chroma sample for 2x2 pixels.
    #[error("an NV12 frame needs even sides, but is {width}x{height}")]
    OddNv12 { width: u32, height: u32 },
    /// YUYV and UYVY have one chroma sample for two pixels of a row.
    #[error("a frame of {} needs an even width, but has {width} columns", format.name())]
    OddWidth {
        format: PixelFormat,
        width: u32,
        height: u32,
    },
    /// Rows of a plane would overlap.
    #[error("the stride of {plane} is {stride} bytes, but a row has {row}")]
    Stride {
        plane: &'static str,
        stride: u32,
        row: u32,
    },
    /// The chroma plane would overlap the luma plane.
    #[error("the chroma plane begins at byte {offset}, but luma ends at byte {luma_end}")]
    ChromaOffset { offset: u32, luma_end: u64 },
    /// The frame is larger than 32-bit offsets reach.
    #[error("the frame has {len} bytes; at most {} can be addressed", u32::MAX)]
    Len { len: u64 },
}

impl FrameLayout {
    /// Rows and planes without gaps. Sides beyond [`SIDE_MAX`] are refused by [`Self::check`].
    #[must_use]
    pub const fn packed(format: PixelFormat, width: u32, height: u32) -> Self {
        Self::strided(format, width, height, format.row_bytes(width))
    }

    /// Rows `stride` bytes apart, in all planes, which follow each other without a gap.
    #[must_use]
    pub const fn strided(format: PixelFormat, width: u32, height: u32, stride: u32) -> Self {
        let (chroma_offset, chroma_stride) = match format {
            PixelFormat::Nv12 => (stride.saturating_mul(height), stride),
            _ => (0, 0),
        };
        Self {
            format,
            width,
            height,
            offset: 0,
            row_stride: stride,
            chroma_offset,
            chroma_stride,
        }
    }

    /// A [tensor](PixelFormat::Tensor) of `channels` channels of `plane`, without gaps.
    #[must_use]
    pub const fn tensor(channels: u32, plane: Size) -> Self {
        let rows = channels.saturating_mul(plane.height);
        Self::packed(PixelFormat::Tensor, plane.width, rows)
    }

    #[must_use]
    pub const fn size(&self) -> Size {
        Size {
            width: self.width,
            height: self.height,
        }
    }

    /// Bytes from the frame's first to the last that belongs to a pixel. Zero for a frame that
    /// [`Self::check`] refuses for its sides.
    ///
    /// # Panics
    /// Of a frame that [`Self::check`] refuses for its length.
    #[allow(clippy::len_without_is_empty)] // A checked frame is never empty.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.bytes()).expect("checked frames have 32-bit lengths")
    }

    /// As [`Self::len`], of any frame.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        if self.width == 0 || self.height == 0 {
            return 0;
        }
        match self.format {
            PixelFormat::Nv12 => {
                let chroma = plane_bytes(self.height / 2, self.chroma_stride, self.width);
                self.first_plane_end()
                    .max(u64::from(self.chroma_offset) + chroma)
            }
            _ => self.first_plane_end(),
        }
    }

    /// Behind the last byte of the first plane that belongs to a pixel.
    fn first_plane_end(&self) -> u64 {
        let row = self.format.row_bytes(self.width);
        u64::from(self.offset) + plane_bytes(self.height, self.row_stride, row)
    }

    /// Whether the rows and planes are possible.
    pub fn check(&self) -> Result<(), FrameError> {
        match self.format {
            PixelFormat::Tensor => self.size().within(TENSOR_SIDE_MAX, "tensor")?,
            _ => self.size().check("frame")?,
        }
        let stride = |plane, stride, row| {
            if stride < row {
                return Err(FrameError::Stride { plane, stride, row });
            }
            Ok(())
        };
        let (width, height) = (self.width, self.height);
        let (columns, rows) = self.format.shared_colour();
        if !width.is_multiple_of(columns) || !height.is_multiple_of(rows) {
            return Err(match self.format {
                PixelFormat::Nv12 => FrameError::OddNv12 { width, height },
                format => FrameError::OddWidth {
                    format,
                    width,
                    height,
                },
            });
        }
        let row = self.format.row_bytes(self.width);
        stride(self.format.plane(), self.row_stride, row)?;
        if self.format == PixelFormat::Nv12 {
            stride("chroma", self.chroma_stride, self.width)?;
            let luma_end = self.first_plane_end();
            if u64::from(self.chroma_offset) < luma_end {
                return Err(FrameError::ChromaOffset {
                    offset: self.chroma_offset,
                    luma_end,
                });
            }
        }
        let len = self.bytes();
        if u32::try_from(len).is_err() {
            return Err(FrameError::Len { len });
        }
        Ok(())
    }
}

fn plane_bytes(rows: u32, stride: u32, row: u32) -> u64 {
    u64::from(rows.saturating_sub(1)) * u64::from(stride) + u64::from(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_frames_have_no_gaps() {
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
            let frame = FrameLayout::packed(format, 640, 480);
            assert_eq!((frame.check(), frame.bytes()), (Ok(()), bytes));
        }
    }

    #[test]
    fn a_tensor_may_be_longer_than_a_picture_but_no_larger_than_a_channels_frame() {
        let row = Size {
            width: 65_536,
            height: 1,
        };
        let tensor = FrameLayout::tensor(3, row);
        assert_eq!((tensor.check(), tensor.bytes()), (Ok(()), 786_432));
        let picture = FrameLayout::packed(PixelFormat::Gray8, 65_536, 1);
        assert!(picture.check().is_err());
        assert!(FrameLayout::tensor(1 << 25, row).check().is_err());
        assert!(FrameLayout::tensor(0, row).check().is_err());
    }

    #[test]
    fn names_are_read_back() {
        for format in PixelFormat::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        let error = "rgb".parse::<PixelFormat>().unwrap_err().to_string();
        for format in PixelFormat::ALL {
            assert!(error.contains(format.name()), "{error}");
        }
    }
}
