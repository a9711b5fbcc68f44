//! Layer normalisation: the channels of each pixel are scaled to mean 0 and variance 1.

use crate::simd::{Vector, compiled_for};
use crate::spec::{check_equal, check_finite};
use crate::{BlockedLayout, Image, Isa, KernelError, Part};

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

    /// Floats of the packed scales and biases.
    pub fn packed_len(&self) -> usize {
        2 * self.spec.output.blocks() * self.spec.output.lanes()
    }

    /// Packs a scale and a bias a channel.
    ///
    /// # Panics
    /// If `packed` is not [`packed_len`](Self::packed_len) floats long.
    pub fn pack(&self, scale: &[f32], bias: &[f32], packed: &mut [f32]) -> Result<(), KernelError> {
        assert_eq!(
            packed.len(),
            self.packed_len(),
            "the room for packed weights"
        );
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

    /// Runs `part` of the operator for each image.
    pub fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
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

/// # Safety
/// The processor has the instruction set; the pointers are valid for the blocks and pixels, and
/// nothing aliases `output`.
#[inline(always)]
unsafe fn normalise<V: Vector>(row: &Pixels) {
    let blocks = row.channels.div_ceil(V::LANES);
    // Surplus lanes of the last block hold anything finite.
    let mut mask = [0.0; LANES_MAX];
    let used = row.channels - (blocks - 1) * V::LANES;
    mask[..used].fill(1.0);
    let count = 1.0 / row.channels as f32;
    for pixel in 0..row.pixels {
        // SAFETY: of all blocks: block and pixel are inside the row, lanes inside the block, and
        // `mask` has at least as many values as a vector.
        unsafe {
            let last = V::load(mask.as_ptr());
            let from = row.input.add(pixel * V::LANES);
            let mut sum = V::splat(0.0);
            for block in 0..blocks - 1 {
                sum = sum.add(V::load(from.add(block * row.input_block)));
            }
            let tail = from.add((blocks - 1) * row.input_block);
            sum = sum.mul_add(V::load(tail), last);
            let mean = V::splat(total(sum) * count);
            let mut squares = V::splat(0.0);
            for block in 0..blocks - 1 {
                let off = V::load(from.add(block * row.input_block)).sub(mean);
                squares = squares.mul_add(off, off);
            }
            let off = V::load(tail).sub(mean).mul(last);
            squares = squares.mul_add(off, off);
            let variance = total(squares) * count;
            let factor = V::splat(1.0 / (variance + row.epsilon).sqrt());
            for block in 0..row.blocks {
                let read = from.add((row.first_block + block) * row.input_block);
                let normal = V::load(read).sub(mean).mul(factor);
                let scale = V::load(row.scale.add(block * V::LANES));
                let bias = V::load(row.bias.add(block * V::LANES));
                let to = row.output.add(block * row.output_block + pixel * V::LANES);
                bias.mul_add(normal, scale).store(to);
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
    let mut sum = 0.0;
    for lane in &lanes[..V::LANES] {
        sum += lane;
    }
    sum
}
