//! A camera's frames, as written.

use punctual_diagnostics::{Place, Problems, Section, Spanned};
use punctual_types::{Fit, PixelFormat, SIDE_MAX, Size};

use super::Defaults;

const FRAME_SIDE_MAX: u64 = SIDE_MAX as u64;

/// A task's `frame`, as written.
#[derive(Clone)]
pub(crate) enum RawFrame {
    Picture(Box<RawPicture>),
    /// What the network takes, so its size is not written.
    Tensor {
        format: Place,
        /// Keys that only pictures have.
        of_pictures: Vec<(&'static str, Place)>,
    },
    /// As the network takes it: nothing is written. Where it would be.
    OfNetwork(Place),
}

#[derive(Clone)]
pub(crate) struct RawPicture {
    /// None: the network's.
    pub(crate) format: Option<Spanned<PixelFormat>>,
    /// The key `format`, be it there or not.
    pub(crate) format_place: Place,
    pub(crate) width: Spanned<u64>,
    pub(crate) height: Spanned<u64>,
    pub(crate) stride: Option<Spanned<u64>>,
    pub(crate) crop: Option<Spanned<Vec<u64>>>,
    /// With the usual fill, if it is a letterbox.
    pub(crate) fit: Fit,
    pub(crate) fill: Option<Spanned<u64>>,
}

const OF_PICTURES: [&str; 6] = ["width", "height", "stride", "crop", "fit", "letterbox_fill"];

pub(super) const FITS: [(&str, Fit); 2] = [
    ("stretch", Fit::Stretch),
    ("letterbox", Fit::Letterbox { fill: Fit::FILL }),
];

impl RawFrame {
    pub(crate) fn of_task(task: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let frame = task.table("frame", problems);
        if !task.has("frame") {
            return Some(Self::OfNetwork(task.absent("frame")));
        }
        Self::read(frame?, problems)
    }

    fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let formats = PixelFormat::ALL.map(|format| (format.name(), format));
        let format = section.optional_word("format", &formats, problems);
        if section.has("stride") {
            section.missing(
                "format",
                "a word, as the stride is of rows of that format",
                problems,
            );
        }
        let place = section.place_of("format");
        let is_sound = format.is_some() || !section.has("format");
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
        let format_place = place.clone();
        let format = format.map(|value| Spanned { value, place });
        Some(Self::Picture(Box::new(RawPicture {
            format: is_sound.then_some(format)?,
            format_place,
            width: width?,
            height: height?,
            stride,
            crop,
            fit: fit.unwrap_or_default(),
            fill,
        })))
    }

    /// Notes what it leaves to the network, of which that made this.
    pub(crate) fn note_default(&self, format: PixelFormat, size: Size, defaults: &mut Defaults) {
        let name = format.name();
        let Size { width, height } = size;
        match self {
            Self::OfNetwork(place) if format == PixelFormat::Tensor => {
                defaults.note(place, format!("{{ format = {name:?} }}"));
            }
            Self::OfNetwork(place) => {
                let value = format!("{{ format = {name:?}, width = {width}, height = {height} }}");
                defaults.note(place, value);
            }
            Self::Picture(picture) if picture.format.is_none() => {
                defaults.note(&picture.format_place, format!("{name:?}"));
            }
            Self::Picture(_) | Self::Tensor { .. } => {}
        }
    }

    /// Where it is marked for what is wrong with all of it.
    pub(crate) const fn place(&self) -> &Place {
        match self {
            Self::Picture(picture) => &picture.width.place,
            Self::Tensor { format: place, .. } | Self::OfNetwork(place) => place,
        }
    }
}
