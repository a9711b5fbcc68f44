//! A camera's frames, as written.

use punctual_diagnostics::{Place, Problems, Section, Spanned};
use punctual_types::{Fit, PixelFormat, SIDE_MAX};

const FRAME_SIDE_MAX: u64 = SIDE_MAX as u64;

/// A task's `frame`, as written.
pub(crate) enum RawFrame {
    Picture(Box<RawPicture>),
    /// What the network takes, so its size is not written.
    Tensor {
        format: Place,
        /// Keys that only pictures have.
        of_pictures: Vec<(&'static str, Place)>,
    },
}

pub(crate) struct RawPicture {
    pub(crate) format: Spanned<PixelFormat>,
    pub(crate) width: Spanned<u64>,
    pub(crate) height: Spanned<u64>,
    pub(crate) stride: Option<Spanned<u64>>,
    pub(crate) crop: Option<Spanned<Vec<u64>>>,
    /// With the usual fill, if it is a letterbox.
    pub(crate) fit: Fit,
    pub(crate) fill: Option<Spanned<u64>>,
}

const OF_PICTURES: [&str; 6] = ["width", "height", "stride", "crop", "fit", "letterbox_fill"];

const FITS: [(&str, Fit); 2] = [
    ("stretch", Fit::Stretch),
    ("letterbox", Fit::Letterbox { fill: Fit::FILL }),
];

impl RawFrame {
    pub(crate) fn of_task(task: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let frame = task.table("frame", problems);
        task.missing("frame", "a table with format, width, height", problems);
        Self::read(frame?, problems)
    }

    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let formats = PixelFormat::ALL.map(|format| (format.name(), format));
        let format = section.word("format", &formats, problems);
        let place = section.place_of("format");
        let is_tensor = format == Some(PixelFormat::Tensor);
        let mut side = |key, problems: &mut Problems<'_>| {
            if is_tensor {
                section.optional::<u64>(key, problems)
            } else {
                section.required::<u64>(key, problems)
            }
        };
        let (width, height) = (side("width", problems), side("height", problems));
        let stride = section.optional::<u64>("stride", problems);
        let stride = stride.map(|at| at.within(1..=FRAME_SIDE_MAX * 4, " bytes", problems));
        let crop = section.optional("crop", problems);
        let fit = section.optional_word("fit", &FITS, problems);
        let fill = section.optional::<u64>("letterbox_fill", problems);
        let fill = fill.map(|at| at.within(0..=255, "", problems));
        let given = OF_PICTURES.into_iter().filter(|key| section.has(key));
        let of_pictures = given.map(|key| (key, section.place_of(key))).collect();
        section.finish(problems);
        if is_tensor {
            return Some(Self::Tensor {
                format: place,
                of_pictures,
            });
        }
        let mut side = |at: Spanned<u64>| at.within(1..=FRAME_SIDE_MAX, " pixels", problems);
        let (width, height) = (width.map(&mut side), height.map(&mut side));
        Some(Self::Picture(Box::new(RawPicture {
            format: Spanned {
                value: format?,
                place,
            },
            width: width?,
            height: height?,
            stride,
            crop,
            fit: fit.unwrap_or_default(),
            fill,
        })))
    }

    /// Where it is marked for what is wrong with all of it.
    pub(crate) const fn place(&self) -> &Place {
        match self {
            Self::Picture(picture) => &picture.width.place,
            Self::Tensor { format, .. } => format,
        }
    }
}
