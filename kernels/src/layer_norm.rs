//! Layer normalisation: the channels of each pixel are scaled to mean 0 and variance 1.

use crate::simd::{Vector, compiled_for};
use crate::spec::{check_equal, check_finite, check_room};
use crate::{BlockedLayout, Image, Isa, Kernel, KernelError, Part, Weights};

/// `scale * (x - mean) / sqrt(variance + epsilon) + bias` over the channels of each pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNormSpec {
    pub input: BlockedLayout,
    /// What it writes: the same image size.
    pub output: BlockedLayout,
    pub epsilon: f32,
}

/// A layer normalisation for one instruction set.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    spec: LayerNormSpec,
    kernel: unsafe fn(&Pixels),
}

impl LayerNorm {
    pub fn new(isa: Isa, spec: &LayerNormSpec) -> Result<LayerNorm, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        spec.input.check_lanes("input", isa)?;
        spec.output.check_lanes("output", isa)?;
        spec.input.check_same_image(&spec.output)?;
        Ok(LayerNorm {
            spec: *spec,
            kernel: compiled_for!(isa, normalise, Pixels),
        })
    }
}

impl Kernel for LayerNorm {
    fn packed_len(&self) -> usize {
        2 * self.spec.output.blocks() * self.spec.output.lanes()
    }

    /// The scale and the bias of each channel.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let (scale, bias) = (weights.floats[0], weights.floats[1]);
        check_room(packed.len(), self.packed_len());
        let channels = self.spec.output.channels();
        check_equal("the number of scales", scale.len(), channels)?;
        check_equal("the number of biases", bias.len(), channels)?;
        check_finite("scale", scale)?;
        check_finite("bias", bias)?;
        packed.fill(0.0);
        let (scales, biases) = packed.split_at_mut(packed.len() / 2);
        scales[..channels].copy_from_slice(scale);
        biases[..channels].copy_from_slice(bias);
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        let LayerNormSpec {
            input,
            output,
            epsilon,
        } = &self.spec;
        let (range, lanes) = (output.part(part), output.lanes());
        let (scales, biases) = packed.split_at(packed.len() / 2);
        for image in images {
            image.prepare([input.len()], output, part);
            for span in output.spans(part) {
                for row in span.rows.clone() {
                    let from = input.row_start(0, row);
                    let to = output.row_start(span.block, row) - range.start;
                    let weights = span.block * lanes..(span.block + span.blocks) * lanes;
                    let pixels = Pixels {
                        input: image.input()[from..].as_ptr(),
                        input_block: input.block_stride(),
                        channels: input.channels(),
                        output: image.output[to..].as_mut_ptr(),
                        output_block: output.block_stride(),
                        first_block: span.block,
                        blocks: span.blocks,
                        pixels: output.width(),
                        scale: scales[weights.clone()].as_ptr(),
                        bias: biases[weights].as_ptr(),
                        epsilon: *epsilon,
                    };
                    // SAFETY: the constructor saw that the instruction set is available. A row of
                    // each block is `width` pixels of whole blocks inside the slices, whose lengths
                    // were just checked; the output is borrowed for us alone.
                    unsafe { (self.kernel)(&pixels) };
                }
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        Some(Vec::new())
    }
}

/// A row of pixels: all blocks of it are read, some are written.
struct Pixels {
    input: *const f32,
    input_block: usize,
    channels: usize,
    output: *mut f32,
    output_block: usize,
    first_block: usize,
    blocks: usize,
    pixels: usize,
    /// From the first block written on.
    scale: *const f32,
    bias: *const f32,
    epsilon: f32,
}

/// Pixels normalised at once: blocks are far apart, so each visit of a block reads several pixels.
const PIXELS: usize = 4;

/// # Safety
/// The processor has the instruction set; the pointers are valid for the blocks and pixels, and
/// nothing aliases `output`.
#[inline(always)]
unsafe fn normalise<V: Vector>(row: &Pixels) {
    let mut pixel = 0;
    while pixel < row.pixels {
        // SAFETY: the caller's promise; the pixels are the row's.
        unsafe {
            if pixel + PIXELS <= row.pixels {
                normalise_pixels::<V, PIXELS>(row, pixel);
                pixel += PIXELS;
            } else {
                normalise_pixels::<V, 1>(row, pixel);
                pixel += 1;
            }
        }
    }
}

/// Normalises `P` pixels from `pixel` on.
///
/// # Safety
/// As of [`normalise`].
#[inline(always)]
unsafe fn normalise_pixels<V: Vector, const P: usize>(row: &Pixels, pixel: usize) {
    let blocks = row.channels.div_ceil(V::LANES);
    // Surplus lanes of the last block hold anything, and so are chosen away rather than multiplied by 0.
    let mut mask = [0.0; LANES_MAX];
    let used = row.channels - (blocks - 1) * V::LANES;
    mask[..used].fill(1.0);
    let count = 1.0 / row.channels as f32;
    // SAFETY: blocks and pixels are inside the row, lanes inside the block, and `mask` has at least as many values as a
    // vector.
    unsafe {
        let (mask, one, zero) = (V::load(mask.as_ptr()), V::splat(1.0), V::splat(0.0));
        let from = row.input.add(pixel * V::LANES);
        let tail = from.add((blocks - 1) * row.input_block);
        let mut sums = [V::splat(0.0); P];
        for block in 0..blocks - 1 {
            let block = from.add(block * row.input_block);
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum = sum.add(V::load(block.add(at * V::LANES)));
            }
        }
        let mut means = [V::splat(0.0); P];
        for (at, mean) in means.iter_mut().enumerate() {
            let values = V::load(tail.add(at * V::LANES));
            let sum = sums[at].add(mask.where_equal(one, values, zero));
            *mean = V::splat(total(sum) * count);
        }
        let mut squares = [V::splat(0.0); P];
        for block in 0..blocks - 1 {
            let block = from.add(block * row.input_block);
            for (at, sum) in squares.iter_mut().enumerate() {
                let off = V::load(block.add(at * V::LANES)).sub(means[at]);
                *sum = sum.mul_add(off, off);
            }
        }
        let mut factors = [V::splat(0.0); P];
        for (at, factor) in factors.iter_mut().enumerate() {
            let off = V::load(tail.add(at * V::LANES)).sub(means[at]);
            let off = mask.where_equal(one, off, zero);
            let variance = total(squares[at].mul_add(off, off)) * count;
            *factor = V::splat(1.0 / (variance + row.epsilon).sqrt());
        }
        for block in 0..row.blocks {
            let read = from.add((row.first_block + block) * row.input_block);
            let to = row.output.add(block * row.output_block + pixel * V::LANES);
            let scale = V::load(row.scale.add(block * V::LANES));
            let bias = V::load(row.bias.add(block * V::LANES));
            for at in 0..P {
                let normal = V::load(read.add(at * V::LANES))
                    .sub(means[at])
                    .mul(factors[at]);
                bias.mul_add(normal, scale).store(to.add(at * V::LANES));
            }
        }
    }
}

const LANES_MAX: usize = 16;

/// The sum of all lanes.
///
/// # Safety
/// The processor has the instruction set.
#[inline(always)]
unsafe fn total<V: Vector>(vector: V) -> f32 {
    let mut lanes = [0.0; LANES_MAX];
    // SAFETY: `lanes` has at least as many values as a vector.
    unsafe { vector.store(lanes.as_mut_ptr()) };
    let mut half = V::LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}
