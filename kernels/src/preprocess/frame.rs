//! Where a frame's pixels lie, and which of its bytes a crop needs.

use super::{PreprocessError, SIDE_MAX, Size};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    /// Three bytes a pixel: red, green, blue.
    Rgb8,
    /// A plane of luma bytes, then a plane at half the resolution of interleaved U and V bytes.
    /// BT.601 coefficients, limited range (luma 16 to 235, chroma 16 to 240): what V4L2 means by
    /// `V4L2_PIX_FMT_NV12` with the default quantisation and `V4L2_YCBCR_ENC_601`.
    Nv12,
    /// Three bytes a pixel: blue, green, red.
    Bgr8,
    /// One byte a pixel: red, green and blue alike.
    Gray8,
    /// Four bytes for two pixels of a row: luma, U, luma, V. Colours as for [`Self::Nv12`].
    Yuyv,
}

impl PixelFormat {
    pub const ALL: [Self; 5] = [Self::Rgb8, Self::Nv12, Self::Bgr8, Self::Gray8, Self::Yuyv];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rgb8 => "rgb8",
            Self::Nv12 => "nv12",
            Self::Bgr8 => "bgr8",
            Self::Gray8 => "gray8",
            Self::Yuyv => "yuyv",
        }
    }

    /// Bytes of a row of `width` pixels in the first plane.
    #[must_use]
    pub const fn row_bytes(self, width: u32) -> u32 {
        match self {
            Self::Rgb8 | Self::Bgr8 => width.saturating_mul(3),
            Self::Nv12 | Self::Gray8 => width,
            Self::Yuyv => width.saturating_mul(2),
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

/// Where a frame's pixels lie, from the first byte of its slot on.
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

impl FrameLayout {
    /// Rows and planes without gaps. Sides beyond [`SIDE_MAX`] are refused by [`Self::check`].
    pub fn packed(format: PixelFormat, width: u32, height: u32) -> Self {
        let (chroma_offset, chroma_stride) = match format {
            PixelFormat::Nv12 => (width.saturating_mul(height), width),
            _ => (0, 0),
        };
        Self {
            format,
            width,
            height,
            offset: 0,
            row_stride: format.row_bytes(width),
            chroma_offset,
            chroma_stride,
        }
    }

    pub fn size(&self) -> Size {
        Size {
            width: self.width,
            height: self.height,
        }
    }

    /// Bytes from the frame's first to the last that belongs to a pixel. Zero for a frame that
    /// [`Self::check`] refuses for its sides.
    #[allow(clippy::len_without_is_empty)] // A checked frame is never empty.
    pub fn len(&self) -> usize {
        usize::try_from(self.len_u64()).expect("checked frames have 32-bit lengths")
    }

    fn len_u64(&self) -> u64 {
        if self.width == 0 || self.height == 0 {
            return 0;
        }
        let plane = |rows: u32, stride: u32, row: u32| {
            u64::from(rows.saturating_sub(1)) * u64::from(stride) + u64::from(row)
        };
        let row = self.format.row_bytes(self.width);
        let first_end = u64::from(self.offset) + plane(self.height, self.row_stride, row);
        match self.format {
            PixelFormat::Nv12 => {
                let chroma = plane(self.height / 2, self.chroma_stride, self.width);
                first_end.max(u64::from(self.chroma_offset) + chroma)
            }
            _ => first_end,
        }
    }

    /// Whether the rows and planes are possible.
    pub fn check(&self) -> Result<(), PreprocessError> {
        check_side("frame", self.size())?;
        let stride = |plane, stride, row| {
            if stride < row {
                return Err(PreprocessError::Stride { plane, stride, row });
            }
            Ok(())
        };
        self.check_chroma_sites()?;
        let row = self.format.row_bytes(self.width);
        stride(self.format.plane(), self.row_stride, row)?;
        if self.format == PixelFormat::Nv12 {
            stride("chroma", self.chroma_stride, self.width)?;
            let luma_end = u64::from(self.offset)
                + u64::from(self.row_stride) * u64::from(self.height - 1)
                + u64::from(self.width);
            if u64::from(self.chroma_offset) < luma_end {
                return Err(PreprocessError::ChromaOffset {
                    offset: self.chroma_offset,
                    luma_end,
                });
            }
        }
        let len = self.len_u64();
        if u32::try_from(len).is_err() {
            return Err(PreprocessError::FrameLen { len });
        }
        Ok(())
    }

    /// Pixels that share a chroma sample must all be there.
    fn check_chroma_sites(&self) -> Result<(), PreprocessError> {
        let Self { width, height, .. } = *self;
        let (odd_width, odd_height) = (width % 2 == 1, height % 2 == 1);
        match self.format {
            PixelFormat::Nv12 if odd_width || odd_height => {
                Err(PreprocessError::OddNv12 { width, height })
            }
            PixelFormat::Yuyv if odd_width => Err(PreprocessError::OddYuyv { width }),
            _ => Ok(()),
        }
    }
}

pub(super) fn check_side(what: &'static str, size: Size) -> Result<(), PreprocessError> {
    let Size { width, height } = size;
    if (1..=SIDE_MAX).contains(&width) && (1..=SIDE_MAX).contains(&height) {
        return Ok(());
    }
    Err(PreprocessError::Side {
        what,
        width,
        height,
    })
}

/// Rows of equal length at equal distances in one plane of the frame, to be copied without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSpan {
    /// First byte of the first row in the frame.
    pub offset: usize,
    /// Bytes a row.
    pub len: usize,
    pub count: usize,
    /// Bytes from one row to the next in the frame.
    pub stride: usize,
    /// First byte of the first row in the copy; row `i` begins at `copy_offset + i * len`.
    pub copy_offset: usize,
}

impl RowSpan {
    /// For each row: where it begins in the frame and where in the copy. All have `len` bytes.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (usize, usize)> + use<> {
        let span = *self;
        (0..span.count).map(move |row| {
            (
                span.offset + row * span.stride,
                span.copy_offset + row * span.len,
            )
        })
    }

    /// Bytes of all rows.
    fn copy_len(&self) -> usize {
        self.len * self.count
    }
}

/// Which bytes of a frame a crop needs, and where they go in a private copy.
///
/// Only a checked layout and position make one, so every row lies inside the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropRows {
    format: PixelFormat,
    crop: Size,
    x: u32,
    y: u32,
    planes: [RowSpan; 2],
}

impl CropRows {
    pub(super) fn new(
        frame: &FrameLayout,
        crop: Size,
        x: u32,
        y: u32,
    ) -> Result<Self, PreprocessError> {
        // `Preprocessor::new` made sure of crop <= frame.
        let x_max = frame.width - crop.width;
        let y_max = frame.height - crop.height;
        if x > x_max || y > y_max {
            return Err(PreprocessError::CropPosition { x, y, x_max, y_max });
        }
        let (first_column, row_bytes) = match frame.format {
            PixelFormat::Yuyv => {
                let (first, pairs) = chroma_range(x, crop.width);
                (first * 4, pairs * 4)
            }
            format => (
                format.row_bytes(x) as usize,
                format.row_bytes(crop.width) as usize,
            ),
        };
        let first = RowSpan {
            offset: frame.offset as usize + y as usize * frame.row_stride as usize + first_column,
            len: row_bytes,
            count: crop.height as usize,
            stride: frame.row_stride as usize,
            copy_offset: 0,
        };
        let second = match frame.format {
            PixelFormat::Nv12 => chroma_span(frame, crop, x, y, first.copy_len()),
            _ => RowSpan::default(),
        };
        let planes = [first, second];
        Ok(Self {
            format: frame.format,
            crop,
            x,
            y,
            planes,
        })
    }

    /// The planes to copy: luma, then chroma for NV12; one for the other formats.
    pub fn planes(&self) -> &[RowSpan] {
        match self.format {
            PixelFormat::Nv12 => &self.planes,
            _ => &self.planes[..1],
        }
    }

    /// Bytes of the copy.
    pub fn copy_len(&self) -> usize {
        self.planes.iter().map(RowSpan::copy_len).sum()
    }

    pub(super) fn copy_len_max(frame: &FrameLayout, crop: Size) -> usize {
        let (width, height) = (crop.width as usize, crop.height as usize);
        match frame.format {
            // From an odd position on, an even crop touches one more chroma column and row.
            PixelFormat::Nv12 => width * height + (width / 2 + 1) * 2 * (height / 2 + 1),
            PixelFormat::Yuyv => (width / 2 + 1) * 4 * height,
            format => format.row_bytes(crop.width) as usize * height,
        }
    }

    /// Copies the rows out of a frame in ordinary memory.
    ///
    /// # Panics
    /// If the frame is shorter than its layout or the copy than [`Self::copy_len`].
    pub fn copy_from(&self, frame: &[u8], copy: &mut [u8]) {
        for plane in self.planes() {
            for (from, to) in plane.rows() {
                copy[to..to + plane.len].copy_from_slice(&frame[from..from + plane.len]);
            }
        }
    }

    pub fn crop(&self) -> Size {
        self.crop
    }

    pub(super) fn format(&self) -> PixelFormat {
        self.format
    }

    /// Whether the crop begins on the second column (row) of a chroma sample.
    pub(super) fn odd(&self) -> (bool, bool) {
        (self.x % 2 == 1, self.y % 2 == 1)
    }
}

/// The crop's rows of NV12's chroma plane, behind `copy_offset` bytes of luma.
fn chroma_span(frame: &FrameLayout, crop: Size, x: u32, y: u32, copy_offset: usize) -> RowSpan {
    let (first_column, columns) = chroma_range(x, crop.width);
    let (first_row, rows) = chroma_range(y, crop.height);
    let stride = frame.chroma_stride as usize;
    RowSpan {
        offset: frame.chroma_offset as usize + first_row * stride + first_column * 2,
        len: columns * 2,
        count: rows,
        stride,
        copy_offset,
    }
}

/// The chroma samples under `len` pixels from `first` on: the first, and how many.
fn chroma_range(first: u32, len: u32) -> (usize, usize) {
    let begin = first / 2;
    let end = (first + len).div_ceil(2);
    (begin as usize, (end - begin) as usize)
}
