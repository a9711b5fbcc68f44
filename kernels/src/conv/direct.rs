//! Convolution as it is defined: sums of products, from the packed weights.

use core::ptr;

use punctual_types::Extent;

use super::clip::{Direction, Run};
use super::order::{self, Columns};
use super::packed::{self, Packing};
use super::spec::{Conv2dSpec, ConvInput};
use super::strip::{Strip, TERMS, TERMS_OF_ONE_PIXEL, blocks_at_once};
use crate::activation::{self, Curve};
use crate::layout::Span;
use crate::spec::check_room;
use crate::{Image, Isa, Kernel, KernelError, Part, Weights};

/// A convolution for one instruction set.
///
/// A group of output channels that shares a block with another group multiplies the other group's
/// inputs by zero, so an infinity or a NaN may spread to it.
#[derive(Clone, Debug)]
pub struct Conv2d {
    pub(super) isa: Isa,
    pub(super) spec: Conv2dSpec,
    pub(super) packing: Packing,
    rows: Direction,
    /// The output's columns in runs, each with its kernels.
    pub(super) columns: Box<[Columns]>,
    pub(super) curve: Option<Curve>,
    /// The same on images of one row, for blocks whose rows are computed together; where that takes fewer tiles.
    in_one_row: Option<Box<Conv2d>>,
}

impl Conv2d {
    /// Checks the shapes and chooses the code.
    pub fn new(isa: Isa, spec: &Conv2dSpec) -> Result<Conv2d, KernelError> {
        spec.check(isa)?;
        let conv = Conv2d::by_rows(isa, spec);
        let in_one_row = spec.in_one_row().map(|spec| Conv2d::by_rows(isa, &spec));
        let in_one_row = in_one_row.filter(|one_row| one_row.cost() < conv.cost());
        Ok(Conv2d {
            in_one_row: in_one_row.map(Box::new),
            ..conv
        })
    }

    fn by_rows(isa: Isa, spec: &Conv2dSpec) -> Conv2d {
        let runs = Direction::columns(spec).runs(0..spec.output.width());
        let columns = runs.flat_map(|run| Columns::split(isa, spec, run));
        Conv2d {
            isa,
            spec: *spec,
            packing: Packing::new(spec),
            rows: Direction::rows(spec),
            columns: columns.map(|run| Columns::new(isa, spec, run)).collect(),
            curve: activation::curve(spec.activation, isa),
            in_one_row: None,
        }
    }

    /// Relative time of a few output blocks.
    fn cost(&self) -> usize {
        let blocks = self.spec.output.blocks().min(2);
        self.columns
            .iter()
            .map(|columns| columns.cost(blocks))
            .sum()
    }

    pub fn spec(&self) -> &Conv2dSpec {
        &self.spec
    }

    /// Rows of consecutive blocks of all images.
    fn run_span(&self, packed: &[f32], span: &Span, part_start: usize, images: &mut [Image<'_>]) {
        let (columns, packing) = (&self.columns, &self.packing);
        let pieces = order::pieces(columns, &self.spec, packing, span, images.len());
        for images in images.chunks_mut(pieces.images) {
            let mut rows = span.rows.clone();
            while !rows.is_empty() {
                let end = rows.end.min(rows.start + pieces.rows);
                let piece = Span {
                    rows: rows.start..end,
                    ..*span
                };
                for columns in order::column_pieces(columns, pieces.columns) {
                    self.run_piece(packed, &piece, columns, part_start, images);
                }
                rows.start = end;
            }
        }
    }

    /// Some rows and columns of some images: a few output blocks' weights at a time serve all of them.
    fn run_piece(
        &self,
        packed: &[f32],
        piece: &Span,
        columns: &[Columns],
        part_start: usize,
        images: &mut [Image<'_>],
    ) {
        let mut block = piece.block;
        let end = piece.block + piece.blocks;
        while block < end {
            let blocks = self.blocks(block, end);
            for image in images.iter_mut() {
                for rows in self.rows.runs(piece.rows.clone()) {
                    for columns in columns {
                        let kernel = columns.kernel(blocks, rows.outputs.len());
                        let strip =
                            self.strip(packed, block, &rows, &columns.run, part_start, image);
                        // SAFETY: the constructor saw that the instruction set is available; the
                        // kernel's tile is no larger than the strip, see `Columns::kernel`; the
                        // strip's memory is valid, see `strip`.
                        unsafe { kernel(&strip) };
                    }
                }
            }
            block += blocks;
        }
    }

    /// The number of blocks from `block` to compute at once.
    fn blocks(&self, block: usize, end: usize) -> usize {
        if self.spec.is_depthwise() {
            return 1;
        }
        let sources = &self.packing.sources;
        let same = |other: &&packed::Sources| {
            (other.first, other.count) == (sources[block].first, sources[block].count)
        };
        match sources[block..end].iter().take_while(same).count() {
            // Two by two, and three for an odd number's last three.
            blocks @ ..=3 => blocks,
            _ => 2,
        }
    }

    /// Rows and columns of consecutive output blocks with the same sources, of one image.
    ///
    /// All that the strip reaches is valid: `run` checked that the slices have the layouts'
    /// lengths, and the constructor that the output's rows and columns are as many as the window
    /// has positions on an input whose halo is as wide as the padding, or that the runs have only
    /// taps in the image. The first output pixel's first tap is thus `halo - padding` rows and
    /// columns into the input's halo, or in the image.
    fn strip(
        &self,
        packed: &[f32],
        block: usize,
        rows: &Run,
        columns: &Run,
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
        let Extent { height, width } = window.dilation;
        let (tap_rows, tap_columns) = (height as usize, width as usize);
        let sources = self.packing.sources[block];
        let (input_row, input_block) = input.strides();
        let inner = self.spec.inner_lanes();
        let sees_nothing = rows.taps.is_empty() || columns.taps.is_empty();
        let input_start = if sees_nothing {
            0
        } else {
            let row = rows.outputs.start * window.stride.height as usize
                + (input.halo() + rows.taps.start * tap_rows)
                - window.padding.top as usize;
            let column = columns.outputs.start * window.stride.width as usize
                + (input.halo() + columns.taps.start * tap_columns)
                - window.padding.left as usize;
            sources.first * input_block + row * input_row + column * inner
        };
        let lanes = output.lanes();
        let left = columns.outputs.start * lanes;
        let output_start = output.row_start(block, rows.outputs.start) + left - part_start;
        let weights = self.packing.taps(&self.spec, &rows.taps, &columns.taps);
        let (addend, addend_row, addend_block) = match (residual, image.second()) {
            (Some(layout), Some(addend)) => {
                let start = layout.row_start(block, rows.outputs.start) + left;
                (
                    addend[start..].as_ptr(),
                    layout.row_stride(),
                    layout.block_stride(),
                )
            }
            _ => (ptr::null(), 0, 0),
        };
        let (low, high) = activation.bounds();
        let taps = window.kernel.area();
        let terms = if taps == 1 { TERMS_OF_ONE_PIXEL } else { TERMS };
        Strip {
            input: image.input()[input_start..].as_ptr(),
            input_row,
            input_block,
            input_blocks: sources.count,
            last_channels: self.spec.channels_of(sources.first + sources.count - 1),
            blocks_at_once: blocks_at_once(terms, taps * inner),
            kernel_height: if sees_nothing { 0 } else { rows.taps.len() },
            kernel_width: columns.taps.len(),
            tap_row: tap_rows * input_row,
            tap_column: tap_columns * inner,
            stride_height: window.stride.height as usize,
            stride_width: window.stride.width as usize,
            weights: packed[sources.weights + weights.first..].as_ptr(),
            skip_row: weights.skip_row,
            skip_block: weights.skip_block,
            weights_block: self.packing.block_stride(block),
            bias: packed[self.packing.bias + block * lanes..].as_ptr(),
            addend,
            addend_row,
            addend_block,
            output: image.output[output_start..].as_mut_ptr(),
            output_row: output.row_stride(),
            output_block: output.block_stride(),
            rows: rows.outputs.len(),
            columns: columns.outputs.len(),
            low,
            high,
            curve: self.curve,
        }
    }
}

impl Kernel for Conv2d {
    fn packed_len(&self) -> usize {
        self.packing.len
    }

    /// The weights are `[output][input / groups][kernel row][kernel column]`; then come the biases.
    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let (weights, bias) = (weights.floats[0], weights.floats[1]);
        check_room(packed.len(), self.packed_len());
        self.spec.check_weights(weights, bias)?;
        self.packing.pack(&self.spec, weights, bias, packed);
        Ok(())
    }

    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        assert_eq!(packed.len(), self.packed_len(), "the packed weights");
        self.spec.check_images(part, images);
        let part_start = self.spec.output.part(part).start;
        for span in self.spec.output.spans(part) {
            match &self.in_one_row {
                Some(one_row) if span.rows.len() == self.spec.output.height() => {
                    let span = Span { rows: 0..1, ..span };
                    one_row.run_span(packed, &span, part_start, images);
                }
                _ => self.run_span(packed, &span, part_start, images),
            }
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        let spec = self.spec;
        let kernel = spec.window.kernel;
        let planar = matches!(spec.input, ConvInput::Planar(_));
        Some(vec![
            usize::from(planar),
            spec.groups,
            kernel.height as usize,
            kernel.width as usize,
            spec.output.channels(),
        ])
    }

    fn runs_in_rows(&self) -> bool {
        // What it reads serves several blocks.
        self.spec.output.blocks() == 1
    }

    fn conv2d(&self) -> Option<&Conv2d> {
        Some(self)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::BlockedLayout;
    use crate::{Inputs, Weights};
    use punctual_conformance::Alone;
    use punctual_types::{Activation, Padding, Window};

    /// Values of which neighbours differ, and with them all weights of a sum.
    pub(in crate::conv) fn pattern(len: usize, period: usize) -> Vec<f32> {
        (0..len)
            .map(|i| (i * 7 % period) as f32 / period as f32 - 0.5)
            .collect()
    }

    /// Compares a convolution of an image, which lies in `memory`, with what it means.
    pub(in crate::conv) fn check_meaning(
        conv: &Conv2d,
        memory: &[f32],
        [image, weights, bias]: [&[f32]; 3],
        tolerance: f32,
    ) {
        let spec = conv.spec();
        let packed = conv.packed(&Weights::floats(&[weights, bias])).unwrap();
        let mut output = vec![f32::NAN; spec.output.len()];
        let run = Image {
            inputs: Inputs::one(memory),
            output: &mut output,
        };
        conv.run(&packed, Part::WHOLE, &mut [run]);
        let mut found = vec![0.0; spec.output.shape().elements()];
        spec.output.unpack(&output, &mut found);
        let meant = punctual_model::Conv2d {
            window: spec.window,
            groups: spec.groups as u32,
            activation: spec.activation,
        };
        let alone = Alone::new(meant).reads(spec.input.sizes().sides(), image);
        let expected = alone.weights(weights).weights(bias).run();
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < tolerance,
                "{conv:?}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn rows_that_follow_each_other_are_computed_as_one_and_in_parts_alike() {
        const INPUTS: usize = 70;
        const OUTPUTS: usize = 80;
        const PIXELS: usize = 9;
        let image = pattern(INPUTS * PIXELS, 61);
        let (weights, bias) = (pattern(OUTPUTS * INPUTS, 53), pattern(OUTPUTS, 11));
        let one = Extent::square(1);
        for isa in Isa::available() {
            let input = BlockedLayout::new(isa, INPUTS, 3, 3, 0).unwrap();
            let output = BlockedLayout::new(isa, OUTPUTS, 3, 3, 0).unwrap();
            let spec = Conv2dSpec {
                input: ConvInput::Blocked(input),
                output,
                residual: None,
                window: Window::new(one, one, Padding::default()),
                groups: 1,
                activation: Activation::Gelu,
            };
            let conv = Conv2d::new(isa, &spec).unwrap();
            assert!(conv.in_one_row.is_some(), "{isa}");
            let mut memory = vec![0.0; input.len()];
            input.pack(&image, &mut memory);
            check_meaning(&conv, &memory, [&image, &weights, &bias], 5e-5);
            let packed = conv.packed(&Weights::floats(&[&weights, &bias])).unwrap();
            let run = |of: usize| {
                let mut found = vec![f32::NAN; output.len()];
                for part in (0..of).map(|index| Part::new(index, of)) {
                    let run = Image {
                        inputs: Inputs::one(&memory),
                        output: &mut found[output.part(part)],
                    };
                    conv.run(&packed, part, &mut [run]);
                }
                found
            };
            // Fifteen rows of blocks and more: some parts end inside a block.
            assert_eq!(run(1), run(4), "{isa}");
        }
    }
}
