//! The structures and numbers of `punctual_decode.h`, field by field as there. `tests/header.rs` compares.

use std::ffi::c_int;

use punctual_decode::{
    Activation, Alignment, BoxForm, Candidates, Detection, Keep, KeyPoint, Layout, Rect,
    Refinement, Size, Suppression, View,
};

use crate::status::Error;

/// `punctual_detection`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
    pub score: f32,
    pub class_index: u32,
    pub place: u32,
    pub reserved: u32,
}

/// `punctual_key_point`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub x: f32,
    pub y: f32,
    pub score: f32,
}

/// `punctual_view`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FrameView {
    pub crop_x: u32,
    pub crop_y: u32,
    pub crop_width: u32,
    pub crop_height: u32,
    pub input_width: u32,
    pub input_height: u32,
    pub letterbox: u32,
    pub reserved: u32,
}

/// `punctual_head`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub size: u32,
    pub input_width: u32,
    pub input_height: u32,
    pub layout: u32,
    pub activation: u32,
    pub background: i32,
    pub form: u32,
    pub threshold: f32,
    pub several_classes: u32,
    pub candidates: u32,
    pub candidates_of: u32,
    pub suppression: u32,
    pub overlap: f32,
    pub weights: [f32; 4],
    pub centre: f32,
}

/// `punctual_map`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Map {
    pub width: u32,
    pub height: u32,
    pub values: *const f64,
    pub count: usize,
    pub scale: f64,
    pub step: f64,
}

/// `punctual_mask`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MaskPlace {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

pub const CORNERS_ALIGNED: u32 = 16;
/// The Gaussian of `PUNCTUAL_DARK`.
const DARK_KERNEL: usize = 11;

impl Found {
    /// At this place of its network.
    #[must_use]
    pub fn new(detection: &Detection, place: u32) -> Self {
        let Detection { rect, score, class } = *detection;
        Self {
            left: rect.left,
            top: rect.top,
            right: rect.right,
            bottom: rect.bottom,
            score,
            class_index: class.into(),
            place,
            reserved: 0,
        }
    }

    #[must_use]
    pub fn rect(&self) -> Rect {
        Rect {
            left: self.left,
            top: self.top,
            right: self.right,
            bottom: self.bottom,
        }
    }
}

impl From<KeyPoint> for Point {
    fn from(KeyPoint { x, y, score }: KeyPoint) -> Self {
        Self { x, y, score }
    }
}

impl From<View> for FrameView {
    fn from(view: View) -> Self {
        let ((crop_x, crop_y), crop, input) = (view.corner(), view.crop(), view.input());
        Self {
            crop_x,
            crop_y,
            crop_width: crop.width,
            crop_height: crop.height,
            input_width: input.width,
            input_height: input.height,
            letterbox: u32::from(view.is_letterboxed()),
            reserved: 0,
        }
    }
}

impl FrameView {
    /// The view that the numbers are of.
    pub fn view(&self) -> Result<View, Error> {
        let size = |width: u32, height: u32| Size { width, height };
        let letterbox = flag(self.letterbox, "view.letterbox")?;
        let crop = size(self.crop_width, self.crop_height);
        let input = size(self.input_width, self.input_height);
        let (x, y) = (self.crop_x, self.crop_y);
        Ok(View::new(x, y, crop, input, letterbox)?)
    }
}

impl Head {
    #[must_use]
    pub fn input(&self) -> Size {
        Size {
            width: self.input_width,
            height: self.input_height,
        }
    }

    pub fn layout(&self) -> Result<Layout, Error> {
        match self.layout {
            0 => Ok(Layout::Places),
            1 => Ok(Layout::Channels),
            _ => Err(Error::Argument("head.layout")),
        }
    }

    pub fn activation(&self) -> Result<Activation, Error> {
        match self.activation {
            0 => Ok(Activation::Sigmoid),
            1 => Ok(Activation::Softmax),
            2 => Ok(Activation::None),
            _ => Err(Error::Argument("head.activation")),
        }
    }

    pub fn background(&self) -> Result<Option<u16>, Error> {
        if self.background == -1 {
            return Ok(None);
        }
        let class = u16::try_from(self.background);
        class
            .map(Some)
            .map_err(|_| Error::Argument("head.background"))
    }

    pub fn form(&self) -> Result<BoxForm, Error> {
        match self.form {
            0 => Ok(BoxForm::Corners),
            1 => Ok(BoxForm::Centre),
            _ => Err(Error::Argument("head.form")),
        }
    }

    /// Which detections are wanted, at most `limit`.
    pub fn keep(&self, limit: usize) -> Result<Keep, Error> {
        let candidates = self.candidates as usize;
        let overlap = self.overlap;
        Ok(Keep {
            threshold: self.threshold,
            candidates: match self.candidates_of {
                0 => Candidates::OfEachLevel(candidates),
                1 => Candidates::OfEachClass(candidates),
                _ => return Err(Error::Argument("head.candidates_of")),
            },
            several_classes: flag(self.several_classes, "head.several_classes")?,
            suppression: match self.suppression {
                0 => Suppression::None,
                1 => Suppression::PerClass { overlap },
                2 => Suppression::AcrossClasses { overlap },
                _ => return Err(Error::Argument("head.suppression")),
            },
            limit,
        })
    }
}

/// What `PUNCTUAL_QUARTER` and its like mean, perhaps with `PUNCTUAL_CORNERS_ALIGNED`.
pub fn refinement(number: u32) -> Result<(Refinement, Alignment), Error> {
    let alignment = match number & CORNERS_ALIGNED {
        0 => Alignment::Areas,
        _ => Alignment::Corners,
    };
    let refinement = match number & !CORNERS_ALIGNED {
        0 => Refinement::None,
        1 => Refinement::Quarter,
        2 => Refinement::Dark {
            kernel: DARK_KERNEL,
        },
        3 => Refinement::Mean,
        _ => return Err(Error::Argument("refinement")),
    };
    Ok((refinement, alignment))
}

fn flag(number: u32, name: &'static str) -> Result<bool, Error> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::Argument(name)),
    }
}

/// As [`flag`], of C's own type.
pub fn choice(number: c_int, name: &'static str) -> Result<bool, Error> {
    flag(u32::try_from(number).unwrap_or(u32::MAX), name)
}
