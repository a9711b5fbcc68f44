//! A camera that shows scenes drawn beforehand.

use punctual_types::{FrameLayout, PixelFormat};

use crate::colour::{to_gray8, to_nv12, to_yuyv};
use crate::scene::{Region, Scene};
use crate::{CROP_SIDE, FRAME_HEIGHT, FRAME_WIDTH};

/// Frames that were drawn at start, so that showing one costs a copy.
///
/// To save memory and time, the scenes of a camera share the surroundings of the first one: only
/// the crop around the sign is drawn for each. The network sees nothing but the crop.
#[derive(Debug)]
pub struct Camera {
    layout: FrameLayout,
    /// The first scene, whole.
    surroundings: Box<[u8]>,
    scenes: Vec<Drawn>,
}

/// The crop of one scene, in the camera's format.
#[derive(Debug)]
struct Drawn {
    label: usize,
    crop: Region,
    pixels: Box<[u8]>,
}

impl Camera {
    /// Draws the first `scenes` (at least one) scenes of `seed`: about 3 ms and 110 kB each.
    ///
    /// # Panics
    /// With [`PixelFormat::Tensor`], which is no picture.
    pub fn new(format: PixelFormat, seed: u64, scenes: u32) -> Self {
        let scenes = (0..u64::from(scenes.max(1))).map(|index| Scene::new(seed, index));
        Self {
            layout: FrameLayout::packed(format, FRAME_WIDTH, FRAME_HEIGHT),
            surroundings: draw(&Scene::new(seed, 0), Region::FRAME, format),
            scenes: scenes
                .map(|scene| Drawn {
                    label: scene.label(),
                    crop: scene.crop(),
                    pixels: draw(&scene, scene.crop(), format),
                })
                .collect(),
        }
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
    /// The sign's class: an index into [`CLASSES`](crate::CLASSES).
    pub fn label(&self) -> usize {
        self.drawn.label
    }

    /// Column and row of the top left corner of the [`CROP_SIDE`]² crop that holds the sign.
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

    /// Calls `put(offset, bytes)` for the pieces of the frame, in the order in which they are to be
    /// written: later ones lie over earlier ones. For memory that is not a slice.
    pub fn for_each_piece(&self, mut put: impl FnMut(usize, &[u8])) {
        put(0, &self.camera.surroundings);
        let layout = &self.camera.layout;
        let (x, y) = (self.drawn.crop.x as usize, self.drawn.crop.y as usize);
        let side = CROP_SIDE as usize;
        let mut rows = |first: usize, stride: u32, bytes: &[u8], len: usize| {
            for (row, line) in bytes.chunks_exact(len).enumerate() {
                put(first + row * stride as usize, line);
            }
        };
        match layout.format {
            PixelFormat::Tensor => unreachable!("`Camera::new` refuses it"),
            PixelFormat::Rgb8
            | PixelFormat::Bgr8
            | PixelFormat::Gray8
            | PixelFormat::Yuyv
            | PixelFormat::Gray16
            | PixelFormat::Rgba8 => {
                let bytes = |pixels| layout.format.row_bytes(pixels) as usize;
                let first = y * layout.row_stride as usize + bytes(x as u32);
                let row = bytes(CROP_SIDE);
                rows(first, layout.row_stride, &self.drawn.pixels, row);
            }
            PixelFormat::Nv12 => {
                let (luma, chroma) = self.drawn.pixels.split_at(side * side);
                let first = y * layout.row_stride as usize + x;
                rows(first, layout.row_stride, luma, side);
                let first =
                    layout.chroma_offset as usize + y / 2 * layout.chroma_stride as usize + x;
                rows(first, layout.chroma_stride, chroma, side);
            }
        }
    }
}

/// A region of a scene in this format.
fn draw(scene: &Scene, region: Region, format: PixelFormat) -> Box<[u8]> {
    let mut rgb = vec![0; region.rgb8_len()];
    scene.render(region, &mut rgb);
    match format {
        PixelFormat::Rgb8 => {}
        PixelFormat::Bgr8 => rgb
            .as_chunks_mut::<3>()
            .0
            .iter_mut()
            .for_each(|p| p.reverse()),
        PixelFormat::Gray8 => rgb = to_gray8(&rgb),
        PixelFormat::Gray16 => rgb = to_gray8(&rgb).iter().flat_map(|gray| [*gray; 2]).collect(),
        PixelFormat::Rgba8 => {
            let pixels = rgb.as_chunks::<3>().0.iter();
            rgb = pixels.flat_map(|&[r, g, b]| [r, g, b, 255]).collect();
        }
        PixelFormat::Tensor => panic!("a camera shows pictures"),
        PixelFormat::Yuyv => rgb = to_yuyv(&rgb),
        PixelFormat::Nv12 => {
            let mut nv12 = vec![0; rgb.len() / 2];
            let (width, height) = (region.width as usize, region.height as usize);
            to_nv12(&rgb, width, height, &mut nv12);
            rgb = nv12;
        }
    }
    rgb.into_boxed_slice()
}
