//! A camera's frames, and what can be wrong with their description.

use punctual_types::{FrameLayout, PixelFormat, SIDE_MAX, Size};
use serde::Serialize;
use thiserror::Error;

use crate::document::{Section, within_whole};
use crate::keys::word;
use crate::problem::{At, Problems};

const FRAME_SIDE_MAX: u64 = SIDE_MAX as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameCause {
    /// A crop that is not inside the frame.
    #[error("the crop of {crop_width}x{crop_height} is larger than the frame of {width}x{height}")]
    CropTooLarge {
        crop_width: u64,
        crop_height: u64,
        width: u32,
        height: u32,
    },
    #[error("a stride of {stride} bytes is less than a row's {least}")]
    StrideTooShort { stride: u64, least: u64 },
    /// NV12 or YUYV with half a chroma sample.
    #[error("{0} is odd")]
    OddDimension(u64),
    #[error("{count} numbers where [width, height] is wanted")]
    NotASize { count: usize },
}

/// A stream's frames: fixed at plan time, so that a descriptor has only to say where the crop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FramePlan {
    pub format: PixelFormat,
    pub size: Size,
    /// Bytes from a row to the next; NV12's second plane has the same.
    pub stride: u32,
    /// Size of the part that the network sees; where it lies is each frame's own.
    pub crop: Size,
}

impl FramePlan {
    /// Where rows and planes lie in a slot.
    #[must_use]
    pub const fn layout(&self) -> FrameLayout {
        FrameLayout::strided(self.format, self.size.width, self.size.height, self.stride)
    }

    /// Bytes of a whole frame.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        let rows = match self.format {
            PixelFormat::Nv12 => self.size.height as u64 * 3 / 2,
            _ => self.size.height as u64,
        };
        self.stride as u64 * rows
    }

    /// Bytes of the crop alone, rows packed without gaps: the intake's private copy.
    #[must_use]
    pub const fn crop_bytes(&self) -> u64 {
        let first_plane = self.format.row_bytes(self.crop.width) as u64 * self.crop.height as u64;
        match self.format {
            PixelFormat::Nv12 => first_plane * 3 / 2,
            _ => first_plane,
        }
    }
}

/// A task's `frame`, as written.
pub(crate) struct RawFrame {
    pub(crate) format: PixelFormat,
    pub(crate) width: At<u64>,
    pub(crate) height: At<u64>,
    pub(crate) stride: Option<At<u64>>,
    pub(crate) crop: Option<At<Vec<u64>>>,
}

impl RawFrame {
    pub(crate) fn of_task(task: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let frame = task.table("frame", problems);
        task.missing("frame", "a table with format, width, height", problems);
        Self::read(frame?, problems)
    }

    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let formats = PixelFormat::ALL.map(|format| (format.name(), format));
        let format = word(&mut section, "format", &formats, problems);
        let width = section.required::<u64>("width", problems);
        let height = section.required::<u64>("height", problems);
        let stride = section.optional::<u64>("stride", problems).map(|at| At {
            value: within_whole(&at, 1..=FRAME_SIDE_MAX * 4, " bytes", problems),
            place: at.place,
        });
        let crop = section.optional("crop", problems);
        section.finish(problems);
        let mut side = |at: At<u64>| At {
            value: within_whole(&at, 1..=FRAME_SIDE_MAX, " pixels", problems),
            place: at.place,
        };
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
