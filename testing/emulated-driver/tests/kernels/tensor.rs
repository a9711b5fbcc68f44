//! Tensors as kernels see them, and as the references do.
use crate::buffer::Buffer;
use punctual_cuda_kernels::{TensorView, padded};
use punctual_kernels::Shape;
use punctual_types::{Random, half};

/// `count` halves in [-`largest`, `largest`), as floats.
pub fn halves(random: &mut Random, count: usize, largest: f32) -> Vec<f32> {
    let rounded = |value| half::to_f32(half::from_f32(value));
    (0..count)
        .map(|_| rounded(random.signed_unit() * largest))
        .collect()
}

pub const fn shape(channels: usize, height: usize, width: usize) -> Shape {
    Shape {
        channels,
        height,
        width,
    }
}

/// A batch of images, halves in NHWC order.
pub struct Tensor {
    pub shape: Shape,
    pub images: usize,
    pub buffer: Buffer,
}

impl Tensor {
    /// One that has not been written yet.
    pub fn unwritten(shape: Shape, images: usize) -> Self {
        let bytes = images * shape.height * shape.width * pitch(shape) * 2;
        Self {
            shape,
            images,
            buffer: Buffer::of_bytes(bytes),
        }
    }

    /// Planar images, each `[channel][row][column]` of values that are halves, with zeros as padding.
    pub fn of(shape: Shape, images: &[Vec<f32>]) -> Self {
        let pixels = shape.height * shape.width;
        let mut halves = Vec::new();
        for image in images {
            for pixel in 0..pixels {
                let channels =
                    (0..shape.channels).map(|c| half::from_f32(image[c * pixels + pixel]));
                let padding = pitch(shape) - shape.channels;
                halves.extend(channels.chain(std::iter::repeat_n(0, padding)));
            }
        }
        Self {
            shape,
            images: images.len(),
            buffer: Buffer::of_halves(&halves),
        }
    }

    /// Images of random halves in [-1, 1).
    pub fn random(shape: Shape, images: usize, random: &mut Random) -> (Self, Vec<Vec<f32>>) {
        let planar: Vec<Vec<f32>> = (0..images)
            .map(|_| halves(random, shape.elements(), 1.0))
            .collect();
        (Self::of(shape, &planar), planar)
    }

    pub fn view(&mut self) -> TensorView {
        TensorView {
            address: self.buffer.address(),
            height: self.shape.height as u32,
            width: self.shape.width as u32,
            channels: self.shape.channels as u32,
            pitch: pitch(self.shape) as u32,
        }
    }

    /// The images, planar. Panics if padding is not zero.
    pub fn planar(&self) -> Vec<Vec<f32>> {
        let halves = self.buffer.halves();
        let (pixels, pitch) = (self.shape.height * self.shape.width, pitch(self.shape));
        let images = halves[..self.images * pixels * pitch].chunks_exact(pixels * pitch);
        images
            .map(|image| {
                for pixel in image.chunks_exact(pitch) {
                    let padding = &pixel[self.shape.channels..];
                    assert!(padding.iter().all(|&half| half == 0), "{padding:?}");
                }
                (0..self.shape.channels)
                    .flat_map(|c| (0..pixels).map(move |pixel| image[pixel * pitch + c]))
                    .map(half::to_f32)
                    .collect()
            })
            .collect()
    }
}

pub fn pitch(shape: Shape) -> usize {
    padded(shape.channels as u32) as usize
}
