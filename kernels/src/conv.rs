//! Convolution with bias, residual and activation.

mod minimal;
mod order;
mod packed;
mod solution;
mod spec;
mod strip;
mod tiles;
mod transform;
mod winograd;

use core::ptr;

use self::packed::Packing;
pub use self::solution::Solution;
pub use self::spec::{Conv2dSpec, ConvInput};
use self::strip::{Strip, StripKernel, depthwise_strip};
use self::tiles::{BLOCKS_MAX, Choices};
pub use self::winograd::Winograd;
use crate::activation::{self, Curve};
use crate::layout::Span;
use crate::simd::compiled_for;
use crate::{AlignedBuffer, Image, Isa, KernelError, Part};

/// A convolution for one instruction set.
///
/// A group of output channels that shares a block with another group multiplies the other group's
/// inputs by zero, so an infinity or a NaN may spread to it.
#[derive(Clone, Debug)]
pub struct Conv2d {
    isa: Isa,
    spec: Conv2dSpec,
    packing: Packing,
    kernels: Kernels,
    curve: Option<Curve>,
}

#[derive(Clone, Copy, Debug)]
enum Kernels {
    /// For one, two, ... output blocks at once.
    Dense([Choices; BLOCKS_MAX]),
    Depthwise(StripKernel),
}

impl Conv2d {
    /// Checks the shapes and chooses the code.
    pub fn new(isa: Isa, spec: &Conv2dSpec) -> Result<Conv2d, KernelError> {
        spec.check(isa)?;
        let kernels = if spec.is_depthwise() {
            Kernels::Depthwise(compiled_for!(isa, depthwise_strip, Strip))
        } else {
            let blocked = matches!(spec.input, ConvInput::Blocked(_));
            let (height, width) = (spec.output.height(), spec.output.width());
            Kernels::Dense(core::array::from_fn(|i| {
                Choices::new(
                    isa,
                    blocked,
                    spec.window.stride.width as usize,
                    i + 1,
                    height,
                    width,
                )
            }))
        };
        Ok(Conv2d {
            isa,
            spec: *spec,
            packing: Packing::new(spec),
            kernels,
            curve: activation::curve(spec.activation, isa),
        })
    }

    pub fn spec(&self) -> &Conv2dSpec {
        &self.spec
    }

    /// Floats of the packed weights and biases.
    pub fn packed_len(&self) -> usize {
        self.packing.len
    }

    /// Packs the weights, which are
    /// `[output channel][input channel / groups][kernel row][kernel column]`, and the biases.
    ///
    /// # Panics
    /// If `packed` is not [`packed_len`](Self::packed_len) floats long.
    pub fn pack(
        &self,
        weights: &[f32],
        bias: &[f32],
        packed: &mut [f32],
    ) -> Result<(), KernelError> {
        assert_eq!(
            packed.len(),
            self.packed_len(),
            "the room for packed weights"
        );
        self.spec.check_weights(weights, bias)?;
        self.packing.pack(&self.spec, weights, bias, packed);
        Ok(())
    }

    /// As [`pack`](Self::pack), into memory of its own.
    pub fn packed(&self, weights: &[f32], bias: &[f32]) -> Result<AlignedBuffer, KernelError> {
        let mut packed = AlignedBuffer::zeroed(self.packed_len());
        self.pack(weights, bias, &mut packed)?;
        Ok(packed)
    }

    /// Runs `part` of the operator for each image, whose second input is the residual if there is
    /// one. `packed` is what [`pack`](Self::pack) wrote, best aligned to 64 bytes.
    pub fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        self.spec.check_images(part, images);
        let part_start = self.spec.output.part(part).start;
        for span in self.spec.output.spans(part) {
            let pieces = self.pieces(&span, images.len());
            for images in images.chunks_mut(pieces.images) {
                let mut rows = span.rows.clone();
                while !rows.is_empty() {
                    let end = rows.end.min(rows.start + pieces.rows);
                    let piece = Span {
                        rows: rows.start..end,
                        ..span
                    };
                    self.run_piece(packed, &piece, part_start, images);
                    rows.start = end;
                }
            }
        }
    }

    /// Some rows of some images: a few output blocks' weights at a time serve all of them.
    fn run_piece(&self, packed: &[f32], piece: &Span, part_start: usize, images: &mut [Image<'_>]) {
        let mut block = piece.block;
        let end = piece.block + piece.blocks;
        while block < end {
            let (blocks, kernel) = self.kernel(block, end, piece.rows.len());
            for image in images.iter_mut() {
                let span = Span {
                    block,
                    blocks,
                    rows: piece.rows.clone(),
                };
                let strip = self.strip(packed, &span, part_start, image);
                // SAFETY: the constructor saw that the instruction set is available; the
                // kernel's tile is no larger than the strip, see `kernel`; the strip's memory
                // is valid, see `strip`.
                unsafe { kernel(&strip) };
            }
            block += blocks;
        }
    }

    /// The number of blocks from `block` to compute at once, and the kernel for `rows` of them.
    fn kernel(&self, block: usize, end: usize, rows: usize) -> (usize, StripKernel) {
        match &self.kernels {
            Kernels::Depthwise(kernel) => (1, *kernel),
            Kernels::Dense(choices) => {
                let sources = &self.packing.sources;
                let same = |other: &&packed::Sources| {
                    (other.first, other.count) == (sources[block].first, sources[block].count)
                };
                let blocks = match sources[block..end].iter().take_while(same).count() {
                    // Two by two, and three for an odd number's last three.
                    blocks @ ..=3 => blocks,
                    _ => 2,
                };
                (blocks, choices[blocks - 1].kernel(rows))
            }
        }
    }

    /// Rows of consecutive output blocks with the same sources, of one image.
    ///
    /// All that the strip reaches is valid: `run` checked that the slices have the layouts'
    /// lengths, and the constructor that the output's rows and columns are as many as the window
    /// has positions on an input whose halo is as wide as the padding. The first output pixel's
    /// first tap is thus `halo - padding` rows and columns into the input's halo.
    fn strip(
        &self,
        packed: &[f32],
        span: &Span,
        part_start: usize,
        image: &mut Image<'_>,
    ) -> Strip {
        let Conv2dSpec {
            input,
            output,
            residual,
            window,
            activation,
            ..
        } = &self.spec;
        let sources = self.packing.sources[span.block];
        let (input_row, input_block) = input.strides();
        let row = span.rows.start * window.stride.height as usize + input.halo()
            - window.padding.top as usize;
        let column = input.halo() - window.padding.left as usize;
        let input_start =
            sources.first * input_block + row * input_row + column * self.spec.inner_lanes();
        let lanes = output.lanes();
        let output_start = output.row_start(span.block, span.rows.start) - part_start;
        let (addend, addend_row, addend_block) = match (residual, image.second()) {
            (Some(layout), Some(addend)) => {
                let start = layout.row_start(span.block, span.rows.start);
                (
                    addend[start..].as_ptr(),
                    layout.row_stride(),
                    layout.block_stride(),
                )
            }
            _ => (ptr::null(), 0, 0),
        };
        let (low, high) = activation.bounds();
        Strip {
            input: image.input()[input_start..].as_ptr(),
            input_row,
            input_block,
            input_blocks: sources.count,
            kernel_height: window.kernel.height as usize,
            kernel_width: window.kernel.width as usize,
            stride_height: window.stride.height as usize,
            stride_width: window.stride.width as usize,
            weights: packed[sources.weights..].as_ptr(),
            weights_block: self.packing.block_stride(span.block),
            bias: packed[self.packing.bias + span.block * lanes..].as_ptr(),
            addend,
            addend_row,
            addend_block,
            output: image.output[output_start..].as_mut_ptr(),
            output_row: output.row_stride(),
            output_block: output.block_stride(),
            rows: span.rows.len(),
            columns: output.width(),
            low,
            high,
            curve: self.curve,
        }
    }
}
