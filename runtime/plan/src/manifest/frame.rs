//! A camera's frames, as written.

use punctual_diagnostics::{Problems, Section, Spanned};
use serde::Serialize;

/// 16,384 is more than any camera on a Jetson gives, and keeps a frame's bytes below 2^32.
const FRAME_SIDE_MAX: u64 = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PixelFormat {
    /// Interleaved red, green, blue, a byte each.
    Rgb8,
    /// A plane of luma, then a plane of half the rows with interleaved Cb and Cr, each for a
    /// square of two by two pixels.
    Nv12,
    /// Interleaved blue, green, red, a byte each.
    Bgr8,
    /// Luma alone, a byte a pixel.
    Gray8,
    /// Interleaved luma, Cb, luma, Cr for two pixels of a row.
    Yuyv,
}

impl PixelFormat {
    /// All of them, as in manifests.
    const WORDS: [(&str, Self); 5] = [
        (Self::Rgb8.name(), Self::Rgb8),
        (Self::Nv12.name(), Self::Nv12),
        (Self::Bgr8.name(), Self::Bgr8),
        (Self::Gray8.name(), Self::Gray8),
        (Self::Yuyv.name(), Self::Yuyv),
    ];

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
    pub const fn row_bytes(self, width: u32) -> u64 {
        match self {
            Self::Rgb8 | Self::Bgr8 => width as u64 * 3,
            Self::Nv12 | Self::Gray8 => width as u64,
            Self::Yuyv => width as u64 * 2,
        }
    }

    /// Pixels in a row, and in a column, that share colour.
    #[must_use]
    pub const fn shared_colour(self) -> (u64, u64) {
        match self {
            Self::Rgb8 | Self::Bgr8 | Self::Gray8 => (1, 1),
            Self::Nv12 => (2, 2),
            Self::Yuyv => (2, 1),
        }
    }
}

/// A task's `frame`, as written.
pub(crate) struct RawFrame {
    pub(crate) format: PixelFormat,
    pub(crate) width: Spanned<u64>,
    pub(crate) height: Spanned<u64>,
    pub(crate) stride: Option<Spanned<u64>>,
    pub(crate) crop: Option<Spanned<Vec<u64>>>,
}

impl RawFrame {
    pub(crate) fn of_task(task: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let frame = task.table("frame", problems);
        task.missing("frame", "a table with format, width, height", problems);
        Self::read(frame?, problems)
    }

    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let format = section.word("format", &PixelFormat::WORDS, problems);
        let width = section.required::<u64>("width", problems);
        let height = section.required::<u64>("height", problems);
        let stride = section.optional::<u64>("stride", problems);
        let stride = stride.map(|at| at.within(1..=FRAME_SIDE_MAX * 4, " bytes", problems));
        let crop = section.optional("crop", problems);
        section.finish(problems);
        let mut side = |at: Spanned<u64>| at.within(1..=FRAME_SIDE_MAX, " pixels", problems);
        let (width, height) = (width.map(&mut side), height.map(&mut side));
        Some(Self {
            format: format?,
            width: width?,
            height: height?,
            stride,
            crop,
        })
    }
}
