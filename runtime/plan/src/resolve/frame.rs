//! A stream's frames, checked.

use punctual_diagnostics::{Invalid, Place, Problems, Rule, Spanned};
use punctual_types::{FrameLayout, PixelFormat, Size};
use serde::Serialize;
use thiserror::Error;

use crate::manifest::RawFrame;

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
    /// NV12 or YUYV with half a chroma sample.
    #[error("{0} is odd")]
    OddDimension(u64),
    #[error("expected [width, height], found {count} numbers")]
    NotASize { count: usize },
}

impl Rule for FrameRule {
    fn rule(&self) -> &'static str {
        match self {
            Self::CropTooLarge { .. } => "a crop lies inside its frame",
            Self::StrideTooShort { .. } => "a row's bytes fit into the stride",
            Self::OddDimension(_) => {
                "sizes are even where two pixels share a colour: NV12's, and YUYV's in a row"
            }
            Self::NotASize { .. } => "a size is [width, height] in pixels",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::CropTooLarge { .. } => "shrink the crop".into(),
            Self::StrideTooShort { least, .. } => format!("set at least {least}, or leave it out"),
            Self::OddDimension(_) => "use an even number".into(),
            Self::NotASize { .. } => "write [width, height]".into(),
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

/// The frame, if its sizes go together.
pub(crate) fn resolve(raw: &RawFrame, problems: &mut Problems<'_>) -> Option<FramePlan> {
    let before = problems.count();
    let (width, height) = (raw.width.value as u32, raw.height.value as u32);
    let least = u64::from(raw.format.row_bytes(width));
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
        format: raw.format,
        size,
        stride: stride as u32,
        crop: crop.unwrap_or(size),
    };
    let bytes = Spanned {
        value: frame.bytes(),
        place: raw.width.place.clone(),
    };
    let _ = bytes.within(1..=FRAME_BYTES_MAX, " bytes", problems);
    (problems.count() == before).then_some(frame)
}

/// Notes sides that would tear pixels apart which share their colour.
fn colour_sites(raw: &RawFrame, problems: &mut Problems<'_>) {
    let (columns, rows) = raw.format.shared_colour();
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

fn crop(raw: &RawFrame, frame: Size, problems: &mut Problems<'_>) -> Option<Size> {
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
