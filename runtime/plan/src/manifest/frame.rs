//! A camera's frames, as written.

use punctual_diagnostics::{Problems, Section, Spanned};
use punctual_types::{PixelFormat, SIDE_MAX};

const FRAME_SIDE_MAX: u64 = SIDE_MAX as u64;

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
        let formats = PixelFormat::ALL.map(|format| (format.name(), format));
        let format = section.word("format", &formats, problems);
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
