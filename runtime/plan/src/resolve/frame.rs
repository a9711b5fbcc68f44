//! A stream's frames, checked.

use punctual_diagnostics::{Invalid, Place, Problems, Rule, Spanned, list};
use punctual_model::{InputForm, InputSpec, Tensor};
use punctual_types::{Fit, FrameLayout, PixelFormat, Size};
use serde::Serialize;
use thiserror::Error;

use crate::manifest::{RawFrame, RawPicture, frame_format};

/// The largest frame that a channel takes: 64 MiB; 8K in RGB takes 95 MiB, in NV12 47.
const FRAME_BYTES_MAX: u64 = 64 << 20;

/// What is wrong with the sizes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameRule {
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
    /// NV12, YUYV or UYVY with half a chroma sample.
    #[error("{0} is odd")]
    OddDimension(u64),
    #[error("expected [width, height], found {count} numbers")]
    NotASize { count: usize },
    #[error("frames of {} do not fit a network of {}", format.name(), channels_text(*channels))]
    Channels { format: PixelFormat, channels: u32 },
    /// Pictures for a network that takes numbers as they are.
    #[error("frames of {} for a network that takes a prepared tensor of {input}", format.name())]
    NotPrepared { format: PixelFormat, input: Tensor },
    /// A tensor for a network that takes pictures.
    #[error("a tensor for a network that takes pictures of {}", channels_text(*channels))]
    NoTensor { channels: u32 },
    #[error("`{0}` of a tensor")]
    OfPictures(&'static str),
    #[error("`letterbox_fill` without borders to fill")]
    NothingToFill,
}

fn channels_text(channels: u32) -> String {
    match channels {
        1 => "1 channel".to_owned(),
        more => format!("{more} channels"),
    }
}

/// The formats that give `channels` channels.
fn formats_of(channels: u32) -> String {
    let formats = PixelFormat::ALL.into_iter();
    let giving = formats.filter(|format| format.gives(channels));
    list(&giving.map(PixelFormat::name).collect::<Vec<_>>())
}

impl Rule for FrameRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::CropTooLarge { .. } => "a crop lies inside its frame",
            Self::StrideTooShort { .. } => "a row's bytes fit into the stride",
            Self::OddDimension(_) => {
                "sizes are even where two pixels share a colour: NV12's, and YUYV's and UYVY's in a row"
            }
            Self::NotASize { .. } => "a size is [width, height] in pixels",
            Self::Channels { .. } => {
                "a frame has what its network sees: 1 channel is gray, 3 are red, green and blue, 4 are rgba8's"
            }
            Self::NotPrepared { .. } | Self::NoTensor { .. } => {
                "a network takes pictures, or tensors that the client prepares, as it was compiled"
            }
            Self::OfPictures(_) => "the size of a tensor is that of the network's input",
            Self::NothingToFill => "a letterbox has borders, a stretched crop has none",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::CropTooLarge { .. } => "shrink the crop".into(),
            Self::StrideTooShort { least, .. } => format!("set at least {least}, or leave it out"),
            Self::OddDimension(_) => "use an even number".into(),
            Self::NotASize { .. } => "write [width, height]".into(),
            Self::Channels { channels, .. } => format!(
                "use one of {}, or compile a network of other channels",
                formats_of(*channels)
            ),
            Self::NotPrepared { .. } => {
                "set format = \"tensor\", or compile the network with --mean and --std for pictures"
                    .into()
            }
            Self::NoTensor { channels } => format!(
                "use one of {}, or compile the network without --mean and --std",
                formats_of(*channels)
            ),
            Self::OfPictures(key) => format!("remove `{key}`"),
            Self::NothingToFill => "set fit = \"letterbox\", or remove it".into(),
        }
    }
}

/// A stream's frames: fixed at plan time, so that a descriptor has only to say where the crop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FramePlan {
    pub format: PixelFormat,
    pub size: Size,
    /// Bytes from a row to the next; NV12's second plane has the same.
    pub stride: u32,
    /// Size of the part that the network sees; where it lies is each frame's own. Of a tensor a channel's.
    pub crop: Size,
    /// What becomes of a crop with another aspect ratio than the network's input.
    #[serde(skip_serializing_if = "Fit::is_stretch")]
    pub fit: Fit,
}

impl FramePlan {
    /// What a network takes as it is: a tensor, or a picture of the size of its input.
    #[must_use]
    pub const fn of_network(input: &InputSpec) -> Self {
        let whole = Self::tensor(input);
        let picture = Self {
            size: whole.crop,
            ..whole
        };
        picture.in_format_of(input)
    }

    /// A frame of this size, in the format that a network's input has.
    const fn in_format_of(self, input: &InputSpec) -> Self {
        match frame_format(input) {
            PixelFormat::Tensor => Self::tensor(input),
            format => Self {
                format,
                stride: format.row_bytes(self.size.width),
                ..self
            },
        }
    }

    /// What a network takes that is given a prepared tensor: as wide as a channel, as high as all of them together.
    #[must_use]
    pub const fn tensor(input: &InputSpec) -> Self {
        let plane = Size {
            width: input.width,
            height: input.height,
        };
        let layout = FrameLayout::tensor(input.channels, plane);
        Self {
            format: layout.format,
            size: layout.size(),
            stride: layout.row_stride,
            crop: plane,
            fit: Fit::Stretch,
        }
    }

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
            PixelFormat::Tensor => self.bytes(),
            PixelFormat::Nv12 => first_plane * 3 / 2,
            _ => first_plane,
        }
    }
}

/// What preparation has to be measured for, as far as a manifest says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum FrameNeeds {
    Picture(FramePlan),
    /// Of this size, in the format that the network's input has.
    Sized(FramePlan),
    /// As the network takes it: a tensor, or a picture of the size of its input.
    OfNetwork,
}

impl FrameNeeds {
    /// What is right about the frame without its network.
    pub(crate) fn of(raw: &RawFrame, problems: &mut Problems<'_>) -> Option<Self> {
        match raw {
            RawFrame::OfNetwork(_) => Some(Self::OfNetwork),
            RawFrame::Picture(picture) => {
                let plan = resolve_picture(picture, problems);
                plan.map(match picture.format {
                    Some(_) => Self::Picture,
                    None => Self::Sized,
                })
            }
            RawFrame::Tensor { of_pictures, .. } => {
                for (key, place) in of_pictures {
                    problems.add(place, FrameRule::OfPictures(key));
                }
                of_pictures.is_empty().then_some(Self::OfNetwork)
            }
        }
    }

    /// For a network with this input.
    #[must_use]
    pub const fn with(&self, input: &InputSpec) -> FramePlan {
        match self {
            Self::Picture(plan) => *plan,
            Self::Sized(plan) => plan.in_format_of(input),
            Self::OfNetwork => FramePlan::of_network(input),
        }
    }
}

/// The frame, if its sizes go together and the network can see it; without a network as far as that can be said.
pub(crate) fn resolve(
    raw: &RawFrame,
    input: Option<&InputSpec>,
    problems: &mut Problems<'_>,
) -> Option<FramePlan> {
    let needs = FrameNeeds::of(raw, problems);
    let (needs, input) = (needs?, input?);
    let frame = needs.with(input);
    let (format, channels) = (frame.format, input.channels);
    let takes_pictures = matches!(input.form, InputForm::Image { .. });
    let (place, rule) = match raw {
        RawFrame::Picture(raw) => match &raw.format {
            Some(written) if !takes_pictures => {
                let input = input.tensor();
                (&written.place, FrameRule::NotPrepared { format, input })
            }
            Some(written) if !format.gives(channels) => {
                (&written.place, FrameRule::Channels { format, channels })
            }
            None if !takes_pictures => (&raw.width.place, FrameRule::OfPictures("width")),
            Some(_) => return Some(frame),
            None => return fits_channel(frame, &raw.width.place, problems),
        },
        RawFrame::Tensor { format, .. } if takes_pictures => {
            (format, FrameRule::NoTensor { channels })
        }
        RawFrame::Tensor { format: place, .. } | RawFrame::OfNetwork(place) => {
            return fits_channel(frame, place, problems);
        }
    };
    problems.add(place, rule);
    None
}

/// The frame, unless it is larger than a slot can be, which is noted.
fn fits_channel(frame: FramePlan, place: &Place, problems: &mut Problems<'_>) -> Option<FramePlan> {
    let (value, place) = (frame.bytes(), place.clone());
    let bytes = Spanned { value, place }.within(1..=FRAME_BYTES_MAX, " bytes", problems);
    (bytes.value == value).then_some(frame)
}

fn resolve_picture(raw: &RawPicture, problems: &mut Problems<'_>) -> Option<FramePlan> {
    let before = problems.count();
    let (width, height) = (raw.width.value as u32, raw.height.value as u32);
    // The network's, once it is known, shares no colours between pixels and takes no fewer bytes.
    let format = raw.format.as_ref();
    let format = format.map_or(PixelFormat::Gray8, |at| at.value);
    let least = u64::from(format.row_bytes(width));
    colour_sites(raw, problems);
    if let Some(stride) = raw.stride.as_ref().filter(|stride| stride.value < least) {
        let stride_bytes = stride.value;
        let cause = FrameRule::StrideTooShort {
            stride: stride_bytes,
            least,
        };
        problems.add(&stride.place, cause);
    }
    let size = Size { width, height };
    let crop = crop(raw, size, problems);
    let stride = raw.stride.as_ref().map_or(least, |stride| stride.value);
    let frame = FramePlan {
        format,
        size,
        stride: stride as u32,
        crop: crop.unwrap_or(size),
        fit: fit(raw, problems),
    };
    let frame = fits_channel(frame, &raw.width.place, problems);
    frame.filter(|_| problems.count() == before)
}

fn fit(raw: &RawPicture, problems: &mut Problems<'_>) -> Fit {
    match (raw.fit, &raw.fill) {
        (Fit::Letterbox { .. }, Some(fill)) => Fit::Letterbox {
            fill: fill.value as u8,
        },
        (Fit::Stretch, Some(fill)) => {
            problems.add(&fill.place, FrameRule::NothingToFill);
            Fit::Stretch
        }
        (fit, None) => fit,
    }
}

/// Notes sides that would tear pixels apart which share their colour.
fn colour_sites(raw: &RawPicture, problems: &mut Problems<'_>) {
    let Some(format) = &raw.format else {
        return;
    };
    let (columns, rows) = format.value.shared_colour();
    let mut whole = |value: u64, shared: u32, place: &Place| {
        if !value.is_multiple_of(u64::from(shared)) {
            problems.add(place, FrameRule::OddDimension(value));
        }
    };
    whole(raw.width.value, columns, &raw.width.place);
    whole(raw.height.value, rows, &raw.height.place);
    if let Some(stride) = raw.stride.as_ref() {
        whole(stride.value, columns, &stride.place);
    }
    if let Some(crop) = &raw.crop {
        for (side, shared) in crop.value.iter().zip([columns, rows]) {
            whole(*side, shared, &crop.place);
        }
    }
}

fn crop(raw: &RawPicture, frame: Size, problems: &mut Problems<'_>) -> Option<Size> {
    let crop = raw.crop.as_ref()?;
    let [crop_width, crop_height] = crop.value[..] else {
        let count = crop.value.len();
        problems.add(&crop.place, FrameRule::NotASize { count });
        return None;
    };
    let (width, height) = (frame.width, frame.height);
    if crop_width > u64::from(width) || crop_height > u64::from(height) {
        let cause = FrameRule::CropTooLarge {
            crop_width,
            crop_height,
            width,
            height,
        };
        problems.add(&crop.place, cause);
        return None;
    }
    if crop_width == 0 || crop_height == 0 {
        let cause = Invalid::OutOfRange {
            value: 0.0,
            least: 1.0,
            most: f64::from(width.min(height)),
            unit: " pixels",
        };
        problems.add(&crop.place, cause);
        return None;
    }
    Some(Size {
        width: crop_width as u32,
        height: crop_height as u32,
    })
}
