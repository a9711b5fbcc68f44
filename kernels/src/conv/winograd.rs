//! Winograd's convolution: fewer multiplications for a kernel of 3 x 3 at stride 1.
//!
//! Tiles of `OUT` x `OUT` outputs are computed from `IN` x `IN` inputs, `IN = OUT + 2`: the inputs
//! are transformed, multiplied by transformed weights point by point and summed over the channels,
//! and the sums transformed back. The middle part is a convolution of one tap for each point, on
//! images whose pixels are the tiles, and is computed by its kernels. What is saved in
//! multiplications (2.25 times for tiles of 2 x 2, 4 times for 4 x 4) is paid in transforms, in
//! larger weights, and in rounding: sums of the same numbers differ from the direct ones by a few
//! times what two direct orders differ, more for larger tiles.

use core::ops::Range;
use core::ptr;

use punctual_types::Extent;

use super::direct::Conv2d;
use super::packed::Packing;
use super::spec::{Conv2dSpec, ConvInput};
use super::strip::{Strip, StripKernel, TERMS, blocks_at_once};
use super::tiles::{self, BLOCKS_MAX};
use super::transform::{
    InputTile, OutputTile, Transform, WeightBlock, input_four, input_two, output_four, output_two,
    weights_four, weights_two,
};
use crate::activation::Curve;
use crate::layout::Span;
use crate::simd::compiled_for;
use crate::{BlockedLayout, Image, Isa, Part};

/// Floats of transformed inputs that one group of tiles has at most, unless fewer than
/// [`TILES_MIN`] tiles: half a second-level cache of 1 MiB, so that they stay there while all
/// weights pass by.
const GROUP_FLOATS: usize = 128 << 10;
/// Each weight that is loaded serves at least this number of tiles, if there are as many.
const TILES_MIN: usize = 14;
/// More tiles than this gain nothing.
const TILES_MAX: usize = 64;
const LANES_MAX: usize = 16;
/// The sums start from zero; the bias comes after the transform.
static ZEROS: [f32; BLOCKS_MAX * LANES_MAX] = [0.0; BLOCKS_MAX * LANES_MAX];

/// A convolution of 3 x 3 taps at stride 1, computed by tiles of 2 x 2 or 4 x 4 outputs.
///
/// An infinity or a NaN in the input spreads to all outputs of the tiles that read it.
#[derive(Clone, Debug)]
pub struct Winograd {
    isa: Isa,
    spec: Conv2dSpec,
    input: BlockedLayout,
    packing: Packing,
    /// Outputs of a tile in each direction.
    side: usize,
    transforms: Transforms,
    /// For each number of tiles in a group, beginning with one, and each number of output blocks.
    kernels: Box<[[StripKernel; BLOCKS_MAX]]>,
    curve: Option<Curve>,
}

#[derive(Clone, Copy, Debug)]
struct Transforms {
    input: Transform<InputTile>,
    weights: Transform<WeightBlock>,
    output: Transform<OutputTile>,
}

/// Tiles that are computed together, for some rows of some output blocks.
struct Group<'g> {
    span: &'g Span,
    /// Where the part's slice starts in the output.
    part_start: usize,
    /// Rows of tiles in which the span's rows lie.
    rows: Range<usize>,
    /// Which of these rows' tiles, counted through all images.
    tiles: Range<usize>,
}

/// One tile: of which image, and where.
struct Tile {
    image: usize,
    row: usize,
    column: usize,
}

impl Winograd {
    /// Whether a convolution can be computed so: dense, from blocks, 3 x 3 taps side by side at
    /// stride 1.
    pub(super) fn applies(spec: &Conv2dSpec) -> bool {
        matches!(spec.input, ConvInput::Blocked(_))
            && spec.groups == 1
            && !spec.is_depthwise()
            && spec.window.kernel == Extent::square(3)
            && spec.window.stride == Extent::square(1)
            && !spec.window.is_dilated()
    }

    /// By tiles of `side` x `side`, 2 or 4; none if the convolution cannot be computed so.
    pub(super) fn new(direct: &Conv2d, side: usize) -> Option<Winograd> {
        let (isa, spec) = (direct.isa, direct.spec);
        let input = match spec.input {
            ConvInput::Blocked(input) if Winograd::applies(&spec) => input,
            _ => return None,
        };
        let transforms = match side {
            2 => Transforms {
                input: compiled_for!(isa, input_two, InputTile),
                weights: compiled_for!(isa, weights_two, WeightBlock),
                output: compiled_for!(isa, output_two, OutputTile),
            },
            4 => Transforms {
                input: compiled_for!(isa, input_four, InputTile),
                weights: compiled_for!(isa, weights_four, WeightBlock),
                output: compiled_for!(isa, output_four, OutputTile),
            },
            _ => unreachable!("tiles are of 2 x 2 or 4 x 4"),
        };
        let tile_floats = (side + 2).pow(2) * input.blocks() * isa.lanes();
        let tiles_max = (GROUP_FLOATS / tile_floats).clamp(TILES_MIN, TILES_MAX);
        let fitting: [_; BLOCKS_MAX] =
            core::array::from_fn(|i| tiles::fitting(isa, true, false, 1, i + 1));
        let kernels =
            (1..=tiles_max).map(|tiles| fitting.map(|of| tiles::choices(of, 1, tiles).kernel(1)));
        Some(Winograd {
            isa,
            spec,
            input,
            packing: direct.packing.clone(),
            side,
            transforms,
            kernels: kernels.collect(),
            curve: direct.curve,
        })
    }

    /// Floats of its own weights, which [`prepare`](Self::prepare) derives.
    pub fn own_len(&self) -> usize {
        self.spec.output.blocks() * self.block_len() + self.bias_len()
    }

    /// Floats of memory that each core needs while it runs for a batch of that many images.
    pub fn scratch_len(&self, batch: usize) -> usize {
        let down = self.spec.output.height().div_ceil(self.side);
        let tiles = self.kernels.len().min(down * self.tiles_across() * batch);
        tiles * self.points() * (self.input.blocks() + BLOCKS_MAX) * self.isa.lanes()
    }

    /// Derives its own weights from those packed for [`Conv2d`](crate::Conv2d).
    ///
    /// # Panics
    /// If a slice has the wrong length.
    pub fn prepare(&self, packed: &[f32], own: &mut [f32]) {
        for piece in 0..self.pieces() {
            self.prepare_piece(packed, own, piece);
        }
    }

    /// In how many pieces [`prepare_piece`](Self::prepare_piece) derives its own weights.
    pub fn pieces(&self) -> usize {
        self.spec.output.blocks()
    }

    /// As [`prepare`](Self::prepare), for those who have other things to do in between: all pieces, in any order,
    /// are the same.
    ///
    /// # Panics
    /// If a slice has the wrong length, or there is no such piece.
    pub fn prepare_piece(&self, packed: &[f32], own: &mut [f32], piece: usize) {
        assert_eq!(packed.len(), self.packing.len, "the packed weights");
        assert_eq!(
            own.len(),
            self.own_len(),
            "the room for transformed weights"
        );
        let (weights, bias) = own.split_at_mut(own.len() - self.bias_len());
        if piece == 0 {
            bias.copy_from_slice(&packed[self.packing.bias..]);
        }
        let output = &mut weights[piece * self.block_len()..][..self.block_len()];
        let block = WeightBlock {
            weights: packed[self.packing.sources[piece].weights..].as_ptr(),
            input_blocks: self.input.blocks(),
            output: output.as_mut_ptr(),
        };
        // SAFETY: the constructor saw that the instruction set is available; a dense
        // convolution's blocks all read all input blocks, and both slices have as many.
        unsafe { (self.transforms.weights)(&block) };
    }

    /// As [`Conv2d::run`](crate::Conv2d::run), with its own weights and this core's scratch memory,
    /// at least [`scratch_len`](Self::scratch_len) of the batch.
    pub fn run(&self, own: &[f32], part: Part, images: &mut [Image<'_>], scratch: &mut [f32]) {
        assert_eq!(own.len(), self.own_len(), "the transformed weights");
        assert!(
            scratch.len() >= self.scratch_len(images.len()),
            "scratch memory"
        );
        self.spec.check_images(part, images);
        let part_start = self.spec.output.part(part).start;
        for span in self.spec.output.spans(part) {
            let rows = span.rows.start / self.side..span.rows.end.div_ceil(self.side);
            let tiles = rows.len() * self.tiles_across() * images.len();
            let groups = tiles.div_ceil(self.kernels.len());
            for group in 0..groups {
                let group = Group {
                    span: &span,
                    part_start,
                    rows: rows.clone(),
                    tiles: tiles * group / groups..tiles * (group + 1) / groups,
                };
                self.run_group(own, &group, images, scratch);
            }
        }
    }

    fn run_group(
        &self,
        own: &[f32],
        group: &Group<'_>,
        images: &mut [Image<'_>],
        scratch: &mut [f32],
    ) {
        let (lanes, count) = (self.isa.lanes(), group.tiles.len());
        let inputs_len = self.points() * self.input.blocks() * count * lanes;
        let (inputs, sums) = scratch.split_at_mut(inputs_len);
        for (slot, tile) in self.tiles(group).enumerate() {
            let image = images[tile.image].input();
            let tile = self.input_tile(&tile, count, image, &mut inputs[slot * lanes..]);
            // SAFETY: the constructor saw that the instruction set is available; the tile's memory
            // is valid, see `input_tile`.
            unsafe { (self.transforms.input)(&tile) };
        }
        let end = group.span.block + group.span.blocks;
        let mut block = group.span.block;
        while block < end {
            // Two by two, and three for an odd number's last three.
            let blocks = match end - block {
                blocks @ ..=3 => blocks,
                _ => 2,
            };
            self.multiply(own, block, blocks, count, inputs, sums);
            for (slot, tile) in self.tiles(group).enumerate() {
                let image = &mut images[tile.image];
                for o in 0..blocks {
                    let sums = Sums {
                        first: &sums[(o * count + slot) * lanes..],
                        point: blocks * count * lanes,
                    };
                    let tile = self.output_tile(own, group, block + o, &tile, &sums, image);
                    // SAFETY: as for the input; see `output_tile`.
                    unsafe { (self.transforms.output)(&tile) };
                }
            }
            block += blocks;
        }
    }

    /// `sums[point][block][tile] = inputs[point] * weights[point]`, summed over the channels: for
    /// each point a convolution of one tap on an image of one row.
    fn multiply(
        &self,
        own: &[f32],
        block: usize,
        blocks: usize,
        count: usize,
        inputs: &[f32],
        sums: &mut [f32],
    ) {
        let lanes = self.isa.lanes();
        let kernel = self.kernels[count - 1][blocks - 1];
        let input_blocks = self.input.blocks();
        let weights = &own[block * self.block_len()..(block + blocks) * self.block_len()];
        let inputs = inputs.chunks_exact(input_blocks * count * lanes);
        let sums = sums.chunks_exact_mut(blocks * count * lanes);
        for ((point, inputs), sums) in (0..self.points()).zip(inputs).zip(sums) {
            let strip = Strip {
                input: inputs.as_ptr(),
                input_row: 0,
                input_block: count * lanes,
                input_blocks,
                last_channels: self.input.channels() - (input_blocks - 1) * lanes,
                blocks_at_once: blocks_at_once(TERMS, lanes),
                kernel_height: 1,
                kernel_width: 1,
                tap_row: 0,
                tap_column: 0,
                stride_height: 1,
                stride_width: 1,
                weights: weights[point * input_blocks * lanes * lanes..].as_ptr(),
                skip_row: 0,
                skip_block: 0,
                weights_block: self.block_len(),
                bias: ZEROS.as_ptr(),
                addend: ptr::null(),
                addend_row: 0,
                addend_block: 0,
                output: sums.as_mut_ptr(),
                output_row: 0,
                output_block: count * lanes,
                rows: 1,
                columns: count,
                low: f32::NEG_INFINITY,
                high: f32::INFINITY,
                curve: None,
            };
            // SAFETY: the instruction set is available; the kernel was chosen for this many tiles
            // and blocks; the slices have all inputs, weights and sums of the point, and there are
            // zeros for as many blocks as there can be.
            unsafe { kernel(&strip) };
        }
    }

    /// The inputs under a tile, and where their transforms go.
    ///
    /// The tile's first input pixel is `halo - padding` rows and columns into the input's halo. A
    /// tile at an edge may reach beyond the halo: what is there counts as zeros.
    fn input_tile(
        &self,
        tile: &Tile,
        count: usize,
        image: &[f32],
        output: &mut [f32],
    ) -> InputTile {
        let (input, padding) = (&self.input, self.spec.window.padding);
        let lanes = input.lanes();
        let row = tile.row * self.side + input.halo() - padding.top as usize;
        let column = tile.column * self.side + input.halo() - padding.left as usize;
        InputTile {
            input: image[row * input.row_stride() + column * lanes..].as_ptr(),
            input_row: input.row_stride(),
            input_block: input.block_stride(),
            blocks: input.blocks(),
            rows: input.height() + 2 * input.halo() - row,
            columns: input.width() + 2 * input.halo() - column,
            output: output.as_mut_ptr(),
            output_point: input.blocks() * count * lanes,
            output_block: count * lanes,
        }
    }

    /// One output block of a tile: those of its rows that the span has.
    fn output_tile(
        &self,
        own: &[f32],
        group: &Group<'_>,
        block: usize,
        tile: &Tile,
        sums: &Sums<'_>,
        image: &mut Image<'_>,
    ) -> OutputTile {
        let (output, lanes) = (&self.spec.output, self.isa.lanes());
        let first = (tile.row * self.side).max(group.span.rows.start);
        let end = ((tile.row + 1) * self.side).min(group.span.rows.end);
        let column = tile.column * self.side;
        let start = output.row_start(block, first) + column * lanes - group.part_start;
        let (addend, addend_row) = match (self.spec.residual, image.second()) {
            (Some(layout), Some(addend)) => {
                let start = layout.row_start(block, first) + column * lanes;
                (addend[start..].as_ptr(), layout.row_stride())
            }
            _ => (ptr::null(), 0),
        };
        let (low, high) = self.spec.activation.bounds();
        OutputTile {
            sums: sums.first.as_ptr(),
            sums_point: sums.point,
            bias: own[own.len() - self.bias_len() + block * lanes..].as_ptr(),
            addend,
            addend_row,
            output: image.output[start..].as_mut_ptr(),
            output_row: output.row_stride(),
            above: first - tile.row * self.side,
            rows: end - first,
            columns: self.side.min(output.width() - column),
            low,
            high,
            curve: self.curve,
        }
    }

    fn tiles(&self, group: &Group<'_>) -> impl Iterator<Item = Tile> + use<> {
        let (across, down, first) = (self.tiles_across(), group.rows.len(), group.rows.start);
        group.tiles.clone().map(move |tile| Tile {
            image: tile / (across * down),
            row: first + tile / across % down,
            column: tile % across,
        })
    }

    fn tiles_across(&self) -> usize {
        self.spec.output.width().div_ceil(self.side)
    }

    fn points(&self) -> usize {
        (self.side + 2).pow(2)
    }

    /// Floats of an output block's transformed weights.
    fn block_len(&self) -> usize {
        self.points() * self.input.blocks() * self.isa.lanes().pow(2)
    }

    fn bias_len(&self) -> usize {
        self.spec.output.blocks() * self.isa.lanes()
    }
}

/// A tile's sums in one output block, and how far it is from point to point.
struct Sums<'s> {
    first: &'s [f32],
    point: usize,
}
