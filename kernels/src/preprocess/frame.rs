//! Which of a frame's bytes a crop needs.

use punctual_types::{FrameLayout, PixelFormat, SharedBytes, Size};

use super::spec::PreprocessError;

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

    /// Behind the last row's last byte.
    fn end(&self) -> usize {
        match self.count.checked_sub(1) {
            Some(last) => self.offset + last * self.stride + self.len,
            None => self.offset,
        }
    }

    /// A row, in the memory that it lies in.
    pub(super) fn row<'f>(&self, row: usize, frame: SharedBytes<'f>) -> SharedBytes<'f> {
        frame.part(self.offset + row * self.stride, self.len)
    }
}

/// Which bytes of a frame a crop needs, and where they go in a private copy.
///
/// Only a checked layout and position make one, so every row lies inside the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropRows {
    format: PixelFormat,
    /// Whether NV12's chroma is wanted too.
    colour: bool,
    crop: Size,
    x: u32,
    y: u32,
    planes: [RowSpan; 2],
}

impl CropRows {
    pub(super) fn new(
        frame: &FrameLayout,
        crop: Size,
        colour: bool,
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
            PixelFormat::Yuyv | PixelFormat::Uyvy => {
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
            PixelFormat::Nv12 if colour => chroma_span(frame, crop, x, y, first.copy_len()),
            _ => RowSpan::default(),
        };
        let planes = [first, second];
        Ok(Self {
            format: frame.format,
            colour,
            crop,
            x,
            y,
            planes,
        })
    }

    /// The planes to copy: luma, then chroma for NV12, unless the network sees no colours; one for the other formats.
    pub fn planes(&self) -> &[RowSpan] {
        match self.format {
            PixelFormat::Nv12 if self.colour => &self.planes,
            _ => &self.planes[..1],
        }
    }

    /// Bytes of the copy.
    pub fn copy_len(&self) -> usize {
        self.planes.iter().map(RowSpan::copy_len).sum()
    }

    /// Bytes that a private copy of a crop has at most, whatever its position.
    pub fn copy_len_max(frame: &FrameLayout, crop: Size) -> usize {
        let (width, height) = (crop.width as usize, crop.height as usize);
        match frame.format {
            // From an odd position on, an even crop touches one more chroma column and row.
            PixelFormat::Nv12 => width * height + (width / 2 + 1) * 2 * (height / 2 + 1),
            PixelFormat::Yuyv | PixelFormat::Uyvy => (width / 2 + 1) * 4 * height,
            format => format.row_bytes(crop.width) as usize * height,
        }
    }

    /// Bytes of a frame that the rows lie within.
    pub fn extent(&self) -> usize {
        self.planes().iter().map(RowSpan::end).max().unwrap_or(0)
    }

    /// The same rows as they lie in the copy.
    #[must_use]
    pub fn in_copy(&self) -> Self {
        let planes = self.planes.map(|plane| RowSpan {
            offset: plane.copy_offset,
            stride: plane.len,
            ..plane
        });
        Self { planes, ..*self }
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

    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// Whether the crop begins on the second column (row) of a chroma sample.
    pub fn odd(&self) -> (bool, bool) {
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
