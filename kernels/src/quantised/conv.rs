//! Convolution of bytes with bias and activation, to bytes or to floats.

mod packed;
mod spec;
mod strip;
mod tiles;

use punctual_types::Quantisation;

use self::packed::Packing;
pub use self::spec::Conv2dSpec;
use self::strip::{Output, Strip, StripKernel};
use self::tiles::{BLOCKS_MAX, Choices, depthwise};
use super::rounding::Rounding;
use super::sums::Sums;
use super::{bytes, bytes_mut};
use crate::layout::Span;
use crate::spec::{check_equal, check_finite, check_room, check_step};
use crate::tiles::ANY;
use crate::{BlockedLayout, Element, Image, Isa, Kernel, KernelError, Part, Weights};

/// A convolution of bytes for one instruction set.
#[derive(Clone, Debug)]
pub struct Conv2d {
    spec: Conv2dSpec,
    input: Quantisation,
    /// How sums become bytes; none where they become floats.
    rounding: Option<Rounding>,
    packing: Packing,
    kernels: Kernels,
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
        Conv2d::with(isa, Sums::of(isa), spec)
    }

    fn with(isa: Isa, sums: Sums, spec: &Conv2dSpec) -> Result<Conv2d, KernelError> {
        let input = spec.check(isa)?;
        let to = spec.output_quantisation();
        let rounding = to
            .map(|to| Rounding::new(to, spec.activation))
            .transpose()?;
        let kernels = if spec.is_depthwise() {
            Kernels::Depthwise(depthwise(sums))
        } else {
            let (height, width) = (spec.output.height(), spec.output.width());
            let stride = if spec.window.is_dilated() {
                ANY
            } else {
                spec.window.stride.width as usize
            };
            let choices = |i| tiles::choices(sums, stride, i + 1, height, width);
            Kernels::Dense(core::array::from_fn(choices))
        };
        Ok(Conv2d {
            spec: *spec,
            input,
            rounding,
            packing: Packing::new(spec),
            kernels,
        })
    }

    pub fn spec(&self) -> &Conv2dSpec {
        &self.spec
    }

    /// The number of blocks from `block` to compute at once, and the kernel for `rows` of them.
    fn kernel(&self, block: usize, end: usize, rows: usize) -> (usize, StripKernel) {
        match &self.kernels {
            Kernels::Depthwise(kernel) => (1, *kernel),
            Kernels::Dense(choices) => {
                let sources = &self.packing.sources;
                let same = |other: &&packed::Sources| {
                    let (first, other) = (&sources[block], other);
                    (other.first, other.count, other.last_quads)
                        == (first.first, first.count, first.last_quads)
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
    /// has positions on an input whose halo is as wide as the padding.
    fn strip(&self, packed: &[u8], span: &Span, part_start: usize, image: &mut Image<'_>) -> Strip {
        const FLOAT: usize = size_of::<f32>();
        let Conv2dSpec {
            input,
            output,
            window,
            activation,
            ..
        } = &self.spec;
        let sources = self.packing.sources[span.block];
        let row = span.rows.start * window.stride.height as usize + input.halo()
            - window.padding.top as usize;
        let column = input.halo() - window.padding.left as usize;
        let input_start = sources.first * input.block_stride()
            + row * input.row_stride()
            + column * input.pixel();
        let lane = FLOAT * span.block * output.lanes();
        let to = &mut image.output[output.row_start(span.block, span.rows.start) - part_start..];
        let (to, unit) = match self.rounding {
            Some(rounding) => {
                let to = bytes_mut(to).as_mut_ptr();
                (Output::Bytes { to, rounding }, FLOAT)
            }
            None => {
                let (low, high) = activation.bounds();
                let to = to.as_mut_ptr();
                (Output::Floats { to, low, high }, 1)
            }
        };
        Strip {
            input: bytes(&image.inputs[0][input_start..]).as_ptr(),
            input_row: input.row_stride() * FLOAT,
            input_block: input.block_stride() * FLOAT,
            input_blocks: sources.count,
            last_quads: sources.last_quads,
            kernel_height: window.kernel.height as usize,
            kernel_width: window.kernel.width as usize,
            tap_row: window.dilation.height as usize * input.row_stride() * FLOAT,
            tap_column: window.dilation.width as usize * input.pixel() * FLOAT,
            stride_height: window.stride.height as usize,
            stride_width: window.stride.width as usize,
            weights: packed[sources.weights..].as_ptr().cast(),
            weights_block: self.packing.block_stride(span.block),
            bias: packed[self.packing.bias + lane..].as_ptr().cast(),
            scales: packed[self.packing.scales + lane..].as_ptr().cast(),
            output: to,
            output_row: output.row_stride() * unit,
            output_block: output.block_stride() * unit,
            rows: span.rows.len(),
            columns: output.width(),
        }
    }
}

impl Kernel for Conv2d {
    fn packed_len(&self) -> usize {
        self.packing.len
    }

    /// Of integers the weights, `[output channel][input channel / groups][kernel row][kernel column]`; of floats what a step
    /// of them is worth for each output channel, and the biases. A bias counts as the nearest whole number of what a step of
    /// its sums is worth, the input's scale times the weights'.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let (scales, bias) = (weights.floats[0], weights.floats[1]);
        let weights = weights.integers[0];
        check_room(packed.len(), self.packed_len());
        let spec = &self.spec;
        let outputs = spec.output.channels();
        let expected = outputs * (spec.input.channels() / spec.groups) * spec.taps();
        check_equal("the number of weights", weights.len(), expected)?;
        check_equal("the number of scales", scales.len(), outputs)?;
        check_equal("the number of biases", bias.len(), outputs)?;
        check_finite("bias", bias)?;
        let steps = scales.iter().map(|&scale| {
            let step = scale * self.input.scale;
            check_step(step)?;
            Ok(step)
        });
        let steps = steps.collect::<Result<Vec<f32>, KernelError>>()?;
        self.packing
            .pack(spec, self.input, weights, &steps, bias, packed);
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        let Conv2dSpec { input, output, .. } = &self.spec;
        let range = output.part(part);
        for image in images.iter_mut() {
            image.prepare([input.len()], output, part);
        }
        for span in output.spans(part) {
            let mut block = span.block;
            let end = span.block + span.blocks;
            while block < end {
                let (blocks, kernel) = self.kernel(block, end, span.rows.len());
                for image in images.iter_mut() {
                    let span = Span {
                        block,
                        blocks,
                        rows: span.rows.clone(),
                    };
                    let strip = self.strip(bytes(packed), &span, range.start, image);
                    // SAFETY: the constructor saw that the instruction set is available; the
                    // kernel's tile is no larger than the strip, see `kernel`; the strip's memory
                    // is valid, see `strip`.
                    unsafe { kernel(&strip) };
                }
                block += blocks;
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        // What biases and scales become depends on what bytes stand for.
        let spec = self.spec;
        let kernel = spec.window.kernel;
        let step = |layout: BlockedLayout| match layout.element() {
            Element::U8(of) => [of.scale.to_bits() as usize, of.zero.into()],
            Element::F32 => [0; 2],
        };
        let sizes = [kernel.height as usize, kernel.width as usize];
        let sizes = [spec.groups, spec.output.channels()]
            .into_iter()
            .chain(sizes);
        let steps = [spec.input, spec.output].into_iter().flat_map(step);
        Some(sizes.chain(steps).collect())
    }

    fn runs_in_rows(&self) -> bool {
        // What it reads serves several blocks.
        self.spec.output.blocks() == 1
    }
}

#[cfg(test)]
mod tests;
