//! A camera that shows scenes drawn beforehand.

use punctual_types::{FrameLayout, PixelFormat};

use crate::colour::from_rgb8;
use crate::region::Region;
use crate::scene::Scene;
use crate::street::{Object, Street};
use crate::{FRAME_HEIGHT, FRAME_WIDTH};

/// Frames that were drawn at start, so that showing one costs a copy.
///
/// To save memory and time, the scenes of a camera of [signs](Camera::signs) share the surroundings of
/// the first one: only the crop around the sign is drawn for each. The network sees nothing but the crop.
#[derive(Debug)]
pub struct Camera {
    layout: FrameLayout,
    /// The first scene, whole; empty if each scene is.
    surroundings: Box<[u8]>,
    scenes: Vec<Drawn>,
}

/// What of a scene the network sees, in the camera's format.
#[derive(Debug)]
struct Drawn {
    truth: Truth,
    crop: Region,
    pixels: Box<[u8]>,
}

/// What a frame shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Truth {
    /// One sign that counts: an index into [`CLASSES`](crate::CLASSES).
    Sign(usize),
    /// All signs of a street.
    Objects(Vec<Object>),
}

impl Camera {
    /// A camera of signs, each within a crop of [`CROP_SIDE`](crate::CROP_SIDE)²: draws the first
    /// `scenes` (at least one) of `seed`, about 3 ms and 110 kB each.
    ///
    /// # Panics
    /// With [`PixelFormat::Tensor`], which is no picture.
    pub fn signs(format: PixelFormat, seed: u64, scenes: u32) -> Self {
        let scenes = (0..u64::from(scenes.max(1))).map(|index| {
            let scene = Scene::new(seed, index);
            Drawn {
                truth: Truth::Sign(scene.label()),
                crop: scene.crop(),
                pixels: draw(&scene, scene.crop(), format),
            }
        });
        let scenes = scenes.collect();
        let surroundings = draw(&Scene::new(seed, 0), Region::FRAME, format);
        Self::of(format, surroundings, scenes)
    }

    /// A camera of streets, whole frames: draws the first `scenes` (at least one) of `seed`, about
    /// 40 ms and up to 1.2 MB each.
    ///
    /// # Panics
    /// With [`PixelFormat::Tensor`], which is no picture.
    pub fn streets(format: PixelFormat, seed: u64, scenes: u32) -> Self {
        let scenes = (0..u64::from(scenes.max(1))).map(|index| {
            let street = Street::new(seed, index);
            let mut rgb = vec![0; Region::FRAME.rgb8_len()];
            street.render(&mut rgb);
            Drawn {
                truth: Truth::Objects(street.objects().to_vec()),
                crop: Region::FRAME,
                pixels: from_rgb8(rgb, Region::FRAME.width, Region::FRAME.height, format),
            }
        });
        let scenes = scenes.collect();
        Self::of(format, Box::default(), scenes)
    }

    fn of(format: PixelFormat, surroundings: Box<[u8]>, scenes: Vec<Drawn>) -> Self {
        Self {
            layout: FrameLayout::packed(format, FRAME_WIDTH, FRAME_HEIGHT),
            surroundings,
            scenes,
        }
    }

    /// How many scenes it shows before it begins anew.
    pub fn scenes(&self) -> u64 {
        self.scenes.len() as u64
    }

    /// How the frames lie in memory: 640x480, packed.
    pub fn layout(&self) -> FrameLayout {
        self.layout
    }

    /// What the camera shows at its frame `number`: the scenes in turn, again and again.
    pub fn shot(&self, number: u64) -> Shot<'_> {
        let index = number % self.scenes.len() as u64;
        Shot {
            camera: self,
            drawn: &self.scenes[index as usize],
        }
    }
}

/// One frame of a [`Camera`].
#[derive(Clone, Copy, Debug)]
pub struct Shot<'a> {
    camera: &'a Camera,
    drawn: &'a Drawn,
}

impl Shot<'_> {
    pub fn truth(&self) -> &Truth {
        &self.drawn.truth
    }

    /// Column and row of the top left corner of the crop that the network is to see.
    pub fn crop(&self) -> (u32, u32) {
        (self.drawn.crop.x, self.drawn.crop.y)
    }

    /// Copies the frame's pixels.
    ///
    /// # Panics
    /// If `frame` is shorter than [`FrameLayout::len`] of [`Camera::layout`].
    pub fn write(&self, frame: &mut [u8]) {
        self.for_each_piece(|offset, bytes| {
            frame[offset..offset + bytes.len()].copy_from_slice(bytes);
        });
    }

    /// Calls `put(offset, bytes)` for the pieces of the frame, in the order in which they must be
    /// written: later ones lie over earlier ones. For memory that is not a slice.
    pub fn for_each_piece(&self, mut put: impl FnMut(usize, &[u8])) {
        if self.drawn.crop == Region::FRAME {
            return put(0, &self.drawn.pixels);
        }
        put(0, &self.camera.surroundings);
        let layout = &self.camera.layout;
        let Region {
            x,
            y,
            width,
            height,
        } = self.drawn.crop;
        let (x, y, width) = (x as usize, y as usize, width as usize);
        let mut rows = |first: usize, stride: u32, bytes: &[u8], len: usize| {
            for (row, line) in bytes.chunks_exact(len).enumerate() {
                put(first + row * stride as usize, line);
            }
        };
        match layout.format {
            PixelFormat::Tensor => unreachable!("no camera is made of it"),
            PixelFormat::Rgb8
            | PixelFormat::Bgr8
            | PixelFormat::Gray8
            | PixelFormat::Yuyv
            | PixelFormat::Uyvy
            | PixelFormat::Gray16
            | PixelFormat::Rgba8 => {
                let bytes = |pixels| layout.format.row_bytes(pixels) as usize;
                let first = y * layout.row_stride as usize + bytes(x as u32);
                let row = bytes(width as u32);
                rows(first, layout.row_stride, &self.drawn.pixels, row);
            }
            PixelFormat::Nv12 => {
                let (luma, chroma) = self.drawn.pixels.split_at(width * height as usize);
                let first = y * layout.row_stride as usize + x;
                rows(first, layout.row_stride, luma, width);
                let first =
                    layout.chroma_offset as usize + y / 2 * layout.chroma_stride as usize + x;
                rows(first, layout.chroma_stride, chroma, width);
            }
        }
    }
}

fn draw(scene: &Scene, region: Region, format: PixelFormat) -> Box<[u8]> {
    let mut rgb = vec![0; region.rgb8_len()];
    scene.render(region, &mut rgb);
    from_rgb8(rgb, region.width, region.height, format)
}
