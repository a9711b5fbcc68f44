//! Convolution with bias, residual and activation.

mod minimal;
mod packed;
mod solution;
mod strip;
mod tiles;
mod transform;
mod winograd;

use core::ptr;

use self::packed::Packing;
pub use self::solution::Solution;
use self::strip::{Strip, StripKernel, depthwise_strip};
use self::tiles::{BLOCKS_MAX, Choices};
pub use self::winograd::Winograd;
use crate::activation::Curve;
use crate::layout::{DIMENSION_MAX, ELEMENTS_MAX, Span, check_limit};
use crate::reference::Shape;
use crate::simd::compiled_for;
use crate::spec::{check_equal, check_finite};
use crate::{
    Activation, AlignedBuffer, BlockedLayout, Image, Isa, KernelError, Part, PlanarLayout, Window,
};

/// What a convolution reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvInput {
    /// The network's input: the first convolution reads planes.
    Planar(PlanarLayout),
    /// Any other tensor.
    Blocked(BlockedLayout),
}

impl ConvInput {
    /// Elements of the whole tensor.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        match self {
            ConvInput::Planar(layout) => layout.len(),
            ConvInput::Blocked(layout) => layout.len(),
        }
    }

    pub(crate) fn sizes(&self) -> Shape {
        match self {
            ConvInput::Planar(layout) => layout.shape(),
            ConvInput::Blocked(layout) => layout.shape(),
        }
    }

    fn halo(&self) -> usize {
        match self {
            ConvInput::Planar(layout) => layout.halo(),
            ConvInput::Blocked(layout) => layout.halo(),
        }
    }

    /// Elements between rows, and between planes or blocks.
    fn strides(&self) -> (usize, usize) {
        match self {
            ConvInput::Planar(layout) => (layout.row_stride(), layout.plane_stride()),
            ConvInput::Blocked(layout) => (layout.row_stride(), layout.block_stride()),
        }
    }
}

/// `activation(conv(input) + bias [+ residual])` on static shapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv2dSpec {
    /// What it reads. Its halo is at least the window's largest padding.
    pub input: ConvInput,
    /// What it writes. Rows and columns must be those that the window gives.
    pub output: BlockedLayout,
    /// What it adds before the activation: channels, rows and columns of the output, own halo.
    pub residual: Option<BlockedLayout>,
    /// Kernel, stride, padding.
    pub window: Window,
    /// 1 is dense; equal to input and output channels is depthwise.
    pub groups: usize,
    /// Applied last.
    pub activation: Activation,
}

impl Conv2dSpec {
    /// Whether each block of the output reads only the block of the input at its position.
    fn is_depthwise(&self) -> bool {
        let channels = self.input.sizes().channels;
        matches!(self.input, ConvInput::Blocked(_))
            && self.groups == channels
            && self.groups == self.output.channels()
    }

    /// Channels that lie side by side in the input.
    fn inner_lanes(&self) -> usize {
        match self.input {
            ConvInput::Planar(_) => 1,
            ConvInput::Blocked(input) => input.lanes(),
        }
    }

    /// Checks everything that the kernels rely on.
    fn check(&self, isa: Isa) -> Result<(), KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let Conv2dSpec {
            input,
            output,
            residual,
            window,
            groups,
            activation,
        } = *self;
        if let ConvInput::Blocked(input) = input {
            input.check_lanes("input", isa)?;
        }
        output.check_lanes("output", isa)?;
        let Shape {
            channels,
            height,
            width,
        } = input.sizes();
        let outputs = output.channels();
        if groups == 0 || channels % groups != 0 || outputs % groups != 0 {
            return Err(KernelError::Groups {
                groups,
                inputs: channels,
                outputs,
            });
        }
        for (what, found) in [
            ("kernel height", window.kernel.height),
            ("kernel width", window.kernel.width),
            ("stride", window.stride.height.max(window.stride.width)),
        ] {
            check_limit(what, found, DIMENSION_MAX)?;
        }
        let elements = usize::try_from(packed::elements_max(self)).unwrap_or(usize::MAX);
        check_limit("elements of the packed weights", elements, ELEMENTS_MAX)?;
        let (padding, halo) = (window.padding.largest(), input.halo());
        if padding > halo {
            return Err(KernelError::HaloTooSmall { padding, halo });
        }
        let extent = window.output_extent(height, width)?;
        check_equal("the output's height", output.height(), extent.height)?;
        check_equal("the output's width", output.width(), extent.width)?;
        if let Some(residual) = residual {
            residual.check_lanes("addend", isa)?;
            residual.check_same_image(&output)?;
        }
        activation.check()
    }

    /// Checks the images that a solution is to run on, and clears the halo of what it writes.
    fn check_images(&self, part: Part, images: &mut [Image<'_>]) {
        let len = self.output.part(part).len();
        for image in images.iter_mut() {
            assert_eq!(
                image.input().len(),
                self.input.len(),
                "the input is the whole tensor"
            );
            assert_eq!(
                image.second().map(<[f32]>::len),
                self.residual.map(|residual| residual.len()),
                "the residual is the whole tensor"
            );
            assert_eq!(image.output.len(), len, "the output is the part's slice");
            self.output.clear_halo(part, image.output);
        }
    }

    /// Checks what [`Conv2d::pack`] is given.
    fn check_weights(&self, weights: &[f32], bias: &[f32]) -> Result<(), KernelError> {
        let Conv2dSpec { window, groups, .. } = self;
        let (channels, outputs) = (self.input.sizes().channels, self.output.channels());
        let taps = window.kernel.height * window.kernel.width;
        check_equal(
            "the number of weights",
            weights.len(),
            outputs * (channels / groups) * taps,
        )?;
        check_equal("the number of biases", bias.len(), outputs)?;
        check_finite("weights", weights)?;
        check_finite("bias", bias)
    }
}

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

/// The code that was chosen.
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
                Choices::new(isa, blocked, spec.window.stride.width, i + 1, height, width)
            }))
        };
        Ok(Conv2d {
            isa,
            spec: *spec,
            packing: Packing::new(spec),
            kernels,
            curve: spec.activation.curve(isa),
        })
    }

    /// Its specification.
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
    /// # Errors
    /// When there are too many or too few, or one is not finite.
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
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn packed(&self, weights: &[f32], bias: &[f32]) -> Result<AlignedBuffer, KernelError> {
        let mut packed = AlignedBuffer::zeroed(self.packed_len());
        self.pack(weights, bias, &mut packed)?;
        Ok(packed)
    }

    /// Runs `part` of the operator for each image, whose second input is the residual if there is
    /// one. A few output blocks' weights at a time serve the whole batch. `packed` is what
    /// [`pack`](Self::pack) wrote, best aligned to 64 bytes.
    pub fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        self.spec.check_images(part, images);
        let part_start = self.spec.output.part(part).start;
        for span in self.spec.output.spans(part) {
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
                    let strip = self.strip(packed, &span, part_start, image);
                    // SAFETY: the constructor saw that the instruction set is available; the
                    // kernel's tile is no larger than the strip, see `kernel`; the strip's memory
                    // is valid, see `strip`.
                    unsafe { kernel(&strip) };
                }
                block += blocks;
            }
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
        let row = span.rows.start * window.stride.height + input.halo() - window.padding.top;
        let column = input.halo() - window.padding.left;
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
            kernel_height: window.kernel.height,
            kernel_width: window.kernel.width,
            stride_height: window.stride.height,
            stride_width: window.stride.width,
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
