//! From a picture or an array to the frame that a task takes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use image::imageops::{self, FilterType};
use image::{DynamicImage, GenericImageView as _, ImageBuffer, ImageError, Pixel, Rgb, Rgba};
use punctual_client::{Crop, FrameSpec, PixelFormat, StreamTerms};
use punctual_decode::Rect;
use punctual_platform::read;
use punctual_signs::from_rgb8;
use punctual_types::{Fit as Borders, Letterbox, Size};

use super::npy::{self, Array, NpyError, Values};
use crate::picture;

/// What becomes of a picture that has not the proportions of what the network sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Fit {
    /// All of it, with grey borders.
    #[default]
    Letterbox,
    /// All of it, out of proportion.
    Stretch,
    /// Its middle.
    Cut,
}

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("it is no picture that can be decoded (PNG, JPEG, BMP, PNM): {0}")]
    Picture(#[from] ImageError),
    #[error(transparent)]
    Npy(#[from] NpyError),
    #[error(
        "an array of {what} with shape {shape:?} is no picture: this task takes uint8 of (rows, columns) or (rows, columns, 3 or 4), \
         or uint16 of (rows, columns)"
    )]
    NoPicture { what: &'static str, shape: Vec<u32> },
    #[error("the shape is {found:?}, and the task takes float32 of {expected:?}")]
    Shape { found: Vec<u32>, expected: [u32; 3] },
    #[error(
        "the task takes no pictures but prepared tensors: save float32 of {expected:?} with `numpy.save`, and name that file"
    )]
    Tensor { expected: [u32; 3] },
}

/// What a file has for a frame.
pub enum Given {
    Picture(DynamicImage),
    Array(Array),
}

impl Given {
    /// Of a file, which is what its content says.
    pub fn read(path: &Path) -> Result<Self, FrameError> {
        let mut start = Vec::new();
        let file: File = read::open(path)?;
        file.take(8).read_to_end(&mut start)?;
        if npy::is_npy(&start) {
            return Ok(Self::Array(npy::load(path)?));
        }
        Ok(Self::Picture(picture::decode(path)?))
    }

    fn into_picture(self) -> Result<DynamicImage, FrameError> {
        let array = match self {
            Self::Picture(picture) => return Ok(picture),
            Self::Array(array) => array,
        };
        let shape = array.trimmed(3).to_vec();
        let what = match &array.values {
            Values::U8(_) => "uint8",
            Values::U16(_) => "uint16",
            Values::F32(_) => "numbers that are not bytes",
        };
        let picture = match (array.values, &shape[..]) {
            (Values::U8(bytes), &[rows, columns] | &[rows, columns, 1]) => {
                ImageBuffer::from_raw(columns, rows, bytes).map(DynamicImage::ImageLuma8)
            }
            (Values::U16(words), &[rows, columns] | &[rows, columns, 1]) => {
                ImageBuffer::from_raw(columns, rows, words).map(DynamicImage::ImageLuma16)
            }
            (Values::U8(bytes), &[rows, columns, 3]) => {
                ImageBuffer::from_raw(columns, rows, bytes).map(DynamicImage::ImageRgb8)
            }
            (Values::U8(bytes), &[rows, columns, 4]) => {
                ImageBuffer::from_raw(columns, rows, bytes).map(DynamicImage::ImageRgba8)
            }
            _ => None,
        };
        let has_pixels = |picture: &DynamicImage| picture.width() > 0 && picture.height() > 0;
        picture
            .filter(has_pixels)
            .ok_or(FrameError::NoPicture { what, shape })
    }

    fn into_tensor(self, expected: [u32; 3]) -> Result<Vec<f32>, FrameError> {
        let Self::Array(array) = self else {
            return Err(FrameError::Tensor { expected });
        };
        let one_channel = expected[0] == 1 && array.trimmed(2) == &expected[1..];
        if array.trimmed(3) != expected && !one_channel {
            let found = array.shape;
            return Err(FrameError::Shape { found, expected });
        }
        Ok(array.floats())
    }
}

/// Where a picture lies in the frame, for places in answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    pub picture: Size,
    /// The part of the picture that is in the frame.
    part: Rect,
    /// Where in the frame it is.
    left: u32,
    top: u32,
    size: Size,
    fit: Fit,
}

impl Placement {
    /// Of a picture in the part of the frame that begins at `corner`.
    fn new(picture: Size, window: Size, corner: Crop, fit: Fit) -> Self {
        let whole = Rect {
            left: 0.0,
            top: 0.0,
            right: picture.width as f32,
            bottom: picture.height as f32,
        };
        let (part, inner, left, top) = match fit {
            Fit::Stretch => (whole, window, 0, 0),
            Fit::Letterbox => {
                let place = Letterbox::of(picture, window);
                (whole, place.inner, place.left, place.top)
            }
            Fit::Cut => {
                // The largest part of the window's proportions, from the middle.
                let cut = Letterbox::of(window, picture);
                let (left, top) = (cut.left as f32, cut.top as f32);
                let part = Rect {
                    left,
                    top,
                    right: left + cut.inner.width as f32,
                    bottom: top + cut.inner.height as f32,
                };
                (part, window, 0, 0)
            }
        };
        Self {
            picture,
            part,
            left: corner.x + left,
            top: corner.y + top,
            size: inner,
            fit,
        }
    }

    /// The place in the picture of a place in the frame. Outside of the picture where the frame has borders.
    pub fn to_picture(self, x: f32, y: f32) -> (f32, f32) {
        let part = &self.part;
        let scale = |from: f32, to: f32, by: u32| (to - from) / by as f32;
        (
            part.left + (x - self.left as f32) * scale(part.left, part.right, self.size.width),
            part.top + (y - self.top as f32) * scale(part.top, part.bottom, self.size.height),
        )
    }

    /// The place in the frame of a place in the picture.
    pub fn to_frame(self, x: f32, y: f32) -> (f32, f32) {
        let part = &self.part;
        let scale = |from: f32, to: f32, by: u32| by as f32 / (to - from);
        (
            self.left as f32 + (x - part.left) * scale(part.left, part.right, self.size.width),
            self.top as f32 + (y - part.top) * scale(part.top, part.bottom, self.size.height),
        )
    }

    /// A rectangle in the picture, clipped to it.
    pub fn rect(&self, rect: &Rect) -> Rect {
        let (left, top) = self.to_picture(rect.left, rect.top);
        let (right, bottom) = self.to_picture(rect.right, rect.bottom);
        let moved = Rect {
            left,
            top,
            right,
            bottom,
        };
        moved.clipped(&self.part)
    }
}

/// What was done to the picture.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { picture, size, .. } = self;
        write!(f, "{picture}")?;
        match self.fit {
            Fit::Cut => write!(f, ", its middle")?,
            Fit::Stretch | Fit::Letterbox => {}
        }
        if picture != size {
            write!(f, ", scaled to {size}")?;
        }
        Ok(())
    }
}

/// How pictures are put into a task's frames.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    frame: FrameSpec,
    /// What the network sees.
    crop: Crop,
    /// Where pictures go.
    window: Size,
    fit: Fit,
    /// Of each channel of a tensor.
    tensor: [u32; 3],
}

impl Framing {
    /// The network sees all of a picture; with `crop`, what is at that place of the frame that the whole picture fills.
    pub fn new(terms: &StreamTerms, crop: Option<Crop>, fit: Fit) -> Self {
        let frame = terms.frame;
        let window = match crop {
            Some(_) => Size {
                width: frame.width,
                height: frame.height,
            },
            None => Size {
                width: terms.crop_width,
                height: terms.crop_height,
            },
        };
        // A tensor's frame has the rows of all channels below each other, and its crop those of one.
        let rows = terms.crop_height.max(1);
        Self {
            frame,
            crop: crop.unwrap_or(Crop { x: 0, y: 0 }),
            window,
            fit,
            tensor: [frame.height / rows, rows, frame.width],
        }
    }

    pub const fn crop(&self) -> Crop {
        self.crop
    }

    /// Writes what was given into a slot; where a picture lies in it.
    pub fn fill(&self, given: Given, slot: &mut [u8]) -> Result<Framed, FrameError> {
        let frame = &self.frame;
        if frame.format == PixelFormat::Tensor {
            let values = given.into_tensor(self.tensor)?;
            let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
            copy_planes(&bytes, frame, slot);
            return Ok(Framed::Tensor(self.tensor));
        }
        let picture = given.into_picture()?;
        let (width, height) = picture.dimensions();
        let picture_size = Size { width, height };
        let corner = Crop { x: 0, y: 0 };
        let placement = Placement::new(picture_size, self.window, corner, self.fit);
        let (width, height) = (frame.width, frame.height);
        let grey = Borders::FILL;
        let bytes = match frame.format {
            PixelFormat::Gray16 => {
                let fill = image::Luma([u16::from(grey) * 257]);
                let words = placed(&picture.to_luma16(), &placement, frame, fill).into_raw();
                words.into_iter().flat_map(u16::to_le_bytes).collect()
            }
            PixelFormat::Rgba8 => {
                let fill = Rgba([grey, grey, grey, 255]);
                placed(&picture.to_rgba8(), &placement, frame, fill).into_raw()
            }
            format => {
                let fill = Rgb([grey; 3]);
                // A large picture is not copied for nothing.
                let rgb = match &picture {
                    DynamicImage::ImageRgb8(rgb) => placed(rgb, &placement, frame, fill),
                    other => placed(&other.to_rgb8(), &placement, frame, fill),
                };
                from_rgb8(rgb.into_raw(), width, height, format).into_vec()
            }
        };
        copy_planes(&bytes, frame, slot);
        let picture = Box::new(picture);
        Ok(Framed::Picture { picture, placement })
    }
}

/// What a frame was made of.
pub enum Framed {
    Picture {
        picture: Box<DynamicImage>,
        placement: Placement,
    },
    Tensor([u32; 3]),
}

/// A frame of one colour, with the picture where it belongs.
fn placed<P: Pixel + 'static>(
    picture: &ImageBuffer<P, Vec<P::Subpixel>>,
    placement: &Placement,
    frame: &FrameSpec,
    fill: P,
) -> ImageBuffer<P, Vec<P::Subpixel>> {
    let Placement { part, size, .. } = placement;
    let (left, top) = (part.left as u32, part.top as u32);
    let (width, height) = (part.right as u32 - left, part.bottom as u32 - top);
    let cut = picture.view(left, top, width, height);
    let scaled = if (width, height) == (size.width, size.height) {
        cut.to_image()
    } else {
        imageops::resize(&*cut, size.width, size.height, FilterType::Triangle)
    };
    let mut canvas = ImageBuffer::from_pixel(frame.width, frame.height, fill);
    let place = (i64::from(placement.left), i64::from(placement.top));
    imageops::replace(&mut canvas, &scaled, place.0, place.1);
    canvas
}

/// From planes without gaps to those of the slot.
fn copy_planes(packed: &[u8], frame: &FrameSpec, slot: &mut [u8]) {
    let row = frame.format.row_bytes(frame.width) as usize;
    let luma = row * frame.height as usize;
    let (first, chroma) = packed.split_at(luma.min(packed.len()));
    let mut copy = |plane: &[u8], offset: u32, stride: u32| {
        let to = slot.get_mut(offset as usize..).unwrap_or_default();
        for (from, to) in plane.chunks(row).zip(to.chunks_mut(stride.max(1) as usize)) {
            let bytes = from.len().min(to.len());
            to[..bytes].copy_from_slice(&from[..bytes]);
        }
    };
    copy(first, frame.offset, frame.row_stride);
    copy(chroma, frame.chroma_offset, frame.chroma_stride);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    fn framing(frame: FrameSpec, fit: Fit) -> Framing {
        Framing {
            frame,
            crop: Crop { x: 0, y: 0 },
            window: size(frame.width, frame.height),
            fit,
            tensor: [2, frame.height / 2, frame.width],
        }
    }

    fn white(width: u32, height: u32) -> Given {
        let white = image::RgbImage::from_pixel(width, height, Rgb([255; 3]));
        Given::Picture(DynamicImage::ImageRgb8(white))
    }

    fn filled(framing: &Framing, given: Given) -> Vec<u8> {
        let mut slot = vec![9; framing.frame.bytes() as usize];
        framing.fill(given, &mut slot).expect("a frame");
        slot
    }

    #[test]
    fn places_in_the_frame_are_found_again_in_the_picture() {
        for fit in [Fit::Letterbox, Fit::Stretch, Fit::Cut] {
            let place = Placement::new(size(100, 40), size(20, 20), Crop { x: 4, y: 6 }, fit);
            let (x, y) = place.to_frame(50.0, 20.0);
            assert_eq!((x, y), (14.0, 16.0), "{fit:?}: the middle is the middle");
            assert_eq!(place.to_picture(x, y), (50.0, 20.0), "{fit:?}");
        }
        let place = Placement::new(size(100, 40), size(20, 20), Crop { x: 0, y: 0 }, Fit::Cut);
        assert_eq!(place.to_picture(0.0, 0.0), (30.0, 0.0));
    }

    #[test]
    fn a_picture_is_letterboxed_stretched_or_cut() {
        let frame = FrameSpec::packed(PixelFormat::Gray8, 4, 4);
        let grey = Borders::FILL;
        let boxed = filled(&framing(frame, Fit::Letterbox), white(8, 4));
        assert_eq!(boxed[..4], [grey; 4]);
        assert_eq!(boxed[4..12], [255; 8]);
        assert_eq!(boxed[12..], [grey; 4]);
        for fit in [Fit::Stretch, Fit::Cut] {
            assert_eq!(filled(&framing(frame, fit), white(8, 4)), [255; 16]);
        }
    }

    #[test]
    fn each_format_gets_its_bytes_and_gaps_stay() {
        let white = || white(2, 2);
        for (format, pixels) in [
            (PixelFormat::Rgb8, [255; 12].to_vec()),
            (PixelFormat::Bgr8, [255; 12].to_vec()),
            (PixelFormat::Rgba8, [255; 16].to_vec()),
            (PixelFormat::Gray8, [255; 4].to_vec()),
            (PixelFormat::Gray16, [255; 8].to_vec()),
            (PixelFormat::Nv12, [[235; 4].as_slice(), &[128; 2]].concat()),
            (PixelFormat::Yuyv, [235, 128, 235, 128].repeat(2)),
            (PixelFormat::Uyvy, [128, 235, 128, 235].repeat(2)),
        ] {
            let frame = FrameSpec::packed(format, 2, 2);
            assert_eq!(
                filled(&framing(frame, Fit::Stretch), white()),
                pixels,
                "{format:?}"
            );
        }
        let frame = FrameSpec::strided(PixelFormat::Nv12, 2, 2, 4);
        let strided = filled(&framing(frame, Fit::Stretch), white());
        assert_eq!(strided, [235, 235, 9, 9, 235, 235, 9, 9, 128, 128]);
    }

    #[test]
    fn sixteen_bits_of_a_depth_picture_are_kept() {
        let frame = FrameSpec::packed(PixelFormat::Gray16, 2, 1);
        let depth = Array {
            shape: vec![1, 2],
            values: Values::U16(vec![0x1234, 0x5678]),
        };
        let bytes = filled(&framing(frame, Fit::Stretch), Given::Array(depth));
        assert_eq!(bytes, [0x34, 0x12, 0x78, 0x56]);
    }

    #[test]
    fn arrays_are_pictures_or_tensors_as_the_task_takes_them() {
        let array = |shape: &[u32], values| {
            Given::Array(Array {
                shape: shape.to_vec(),
                values,
            })
        };
        let floats = || Values::F32(vec![0.5; 8]);
        let tensor = framing(FrameSpec::packed(PixelFormat::Tensor, 2, 4), Fit::Stretch);
        let bytes = filled(&tensor, array(&[1, 2, 2, 2], floats()));
        assert_eq!(bytes, 0.5_f32.to_le_bytes().repeat(8));
        let picture = framing(FrameSpec::packed(PixelFormat::Rgb8, 2, 2), Fit::Stretch);
        let mut slot = [0; 32];
        let mut said = |framing: &Framing, given| match framing.fill(given, &mut slot) {
            Err(error) => error.to_string(),
            Ok(_) => "fine".to_owned(),
        };
        assert!(said(&tensor, array(&[4, 2], floats())).contains("[2, 2, 2]"));
        assert!(said(&tensor, white(2, 2)).contains("no pictures"));
        assert!(said(&picture, array(&[2, 2, 2], floats())).contains("uint8"));
        assert!(said(&picture, array(&[0, 2, 3], Values::U8(vec![]))).contains("uint8"));
        let rgb = Values::U8(vec![0; 12]);
        assert_eq!(said(&picture, array(&[1, 2, 2, 3], rgb)), "fine");
    }
}
