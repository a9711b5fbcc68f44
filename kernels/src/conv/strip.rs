//! The register-tiled convolution kernel.
//!
//! A tile is `O` blocks of output channels x `R` rows x `C` columns, whole in registers while the
//! kernel walks once over everything that the tile sums: each step loads `O` vectors of weights,
//! broadcasts `R * C` input values and multiplies all of them. Weights are read in order; a
//! strip's weights stay in the second-level cache from tile to tile and from image to image.
//!
//! A long sum is made of shorter ones ([`TERMS`]): the rounding of one running sum grows with the root of its length.

use core::mem::MaybeUninit;

use crate::activation::Curve;
use crate::simd::Vector;
use crate::tiles::ANY;

/// Rows of an image's output, for one or several consecutive blocks of output channels: what one
/// call of a kernel computes. Strides are in elements.
#[derive(Debug)]
pub(super) struct Strip {
    /// The input under the first output pixel's first tap, in the first input block or plane.
    pub input: *const f32,
    /// Input elements between a row and the one below.
    pub input_row: usize,
    /// Input elements between a block (or plane) and the next.
    pub input_block: usize,
    /// Input blocks (or planes) that are summed.
    pub input_blocks: usize,
    /// Channels of the last of them: its other lanes have no weights.
    pub last_channels: usize,
    /// As many of them as are summed at once, see [`blocks_at_once`].
    pub blocks_at_once: usize,
    pub kernel_height: usize,
    pub kernel_width: usize,
    /// Input elements between a tap and the one below.
    pub tap_row: usize,
    /// Input elements between a tap and the next.
    pub tap_column: usize,
    /// Input rows between two output rows.
    pub stride_height: usize,
    /// Input columns between two output columns.
    pub stride_width: usize,
    /// The first block's first tap's weights:
    /// `[input block][kernel row][kernel column][input lane][lane]`.
    pub weights: *const f32,
    /// Weights of a kernel's row that are left out, behind each of its rows.
    pub skip_row: usize,
    /// Weights of an input block that are left out, behind each block.
    pub skip_block: usize,
    /// Elements between an output block's weights and the next one's.
    pub weights_block: usize,
    /// The first block's bias, followed by the next one's.
    pub bias: *const f32,
    /// The residual at the first output pixel, or null.
    pub addend: *const f32,
    pub addend_row: usize,
    pub addend_block: usize,
    /// The first output pixel.
    pub output: *mut f32,
    pub output_row: usize,
    pub output_block: usize,
    pub rows: usize,
    pub columns: usize,
    pub low: f32,
    pub high: f32,
    /// What the activation is besides: called on each row of tiles when it is stored.
    pub curve: Option<Curve>,
}

/// A kernel, compiled for an instruction set, a kind of input and a tile.
///
/// # Safety
/// The processor has the instruction set. `rows` and `columns` are at least those of the tile.
/// All that the strip's sizes and strides reach from its pointers is valid: to read, and `output`
/// to write, which nothing else aliases.
pub(super) type StripKernel = unsafe fn(&Strip);

/// Products that are summed at once, or more if one input block has more. Each such sum costs a tile an addition a
/// value and its way to memory and back, one to two hundredths of the time of its products.
pub(super) const TERMS: usize = 256;
/// The same of a window of one pixel, whose sums are seldom longer.
pub(super) const TERMS_OF_ONE_PIXEL: usize = 512;

/// How many input blocks (or planes) of `products` products each to sum at once.
pub(super) fn blocks_at_once(terms: usize, products: usize) -> usize {
    terms.div_ceil(products.max(1))
}

/// In the place of a horizontal stride: 1, and any taps. Taps that are side by side have code of
/// their own, since reading their steps at run time takes time.
pub(super) const APART: usize = usize::MAX;

/// Input columns between two output columns.
#[inline(always)]
fn stride<const S: usize>(s: &Strip) -> usize {
    match S {
        ANY => s.stride_width,
        APART => 1,
        stride => stride,
    }
}

/// Whether the steps from tap to tap are those of the strip.
const fn reads_taps(stride: usize) -> bool {
    stride == ANY || stride == APART
}

/// Computes a strip. `BLOCKED`: the input's inner dimension is a block's lanes, else it is planes.
/// `S` is the horizontal stride, [`ANY`] or [`APART`].
///
/// The last row or column of tiles is moved back to end with the strip, and computes some pixels again.
///
/// # Safety
/// See [`StripKernel`].
#[inline(always)]
pub(super) unsafe fn strip<
    V: Vector,
    const BLOCKED: bool,
    const S: usize,
    const O: usize,
    const R: usize,
    const C: usize,
>(
    s: &Strip,
) {
    debug_assert!(s.rows >= R && s.columns >= C);
    let mut row = 0;
    while row < s.rows {
        let top = row.min(s.rows - R);
        let mut column = 0;
        while column < s.columns {
            let left = column.min(s.columns - C);
            // SAFETY: the tile lies inside the strip.
            unsafe { tile::<V, BLOCKED, S, O, R, C>(s, top, left) };
            column += C;
        }
        // SAFETY: whole rows of the strip. Those that the last tiles compute again have been
        // stored anew, without the curve.
        unsafe { bend::<V>(s, O, top, R) };
        row += R;
    }
}

/// Applies the curve, if there is one, to rows that are stored.
///
/// # Safety
/// See [`StripKernel`]; the strip has these blocks and rows.
#[inline(always)]
unsafe fn bend<V: Vector>(s: &Strip, blocks: usize, top: usize, rows: usize) {
    let Some(curve) = s.curve else { return };
    for block in 0..blocks {
        for row in top..top + rows {
            // SAFETY: a row of the output; the curve is compiled for the strip's instruction set.
            unsafe {
                let values = s.output.add(block * s.output_block + row * s.output_row);
                curve.apply(values, s.columns * V::LANES);
            }
        }
    }
}

/// Computes the tile whose first pixel is at `top`, `left` of the strip.
///
/// # Safety
/// See [`StripKernel`]; the tile lies inside the strip.
#[inline(always)]
unsafe fn tile<
    V: Vector,
    const BLOCKED: bool,
    const S: usize,
    const O: usize,
    const R: usize,
    const C: usize,
>(
    s: &Strip,
    top: usize,
    left: usize,
) {
    let inner = if BLOCKED { V::LANES } else { 1 };
    let pixel = inner * stride::<S>(s);
    let row = s.stride_height * s.input_row;
    // SAFETY: offsets stay inside what the caller promised, since the tile lies inside the strip:
    // output pixel (top + r, left + c) reads input pixels ((top + r) * stride + ky * dilation,
    // (left + c) * stride + kx * dilation) of each input block.
    unsafe {
        let mut sums = [[[V::splat(0.0); C]; R]; O];
        for (o, sums) in sums.iter_mut().enumerate() {
            *sums = [[V::load(s.bias.add(o * V::LANES)); C]; R];
        }
        // Without a tap to read, these may point anywhere.
        let mut corner = s.input.wrapping_add(top * row + left * pixel);
        let mut weights = s.weights;
        let mut total: Total<V, O, R, C> = [[[MaybeUninit::uninit(); C]; R]; O];
        let mut left_over = s.input_blocks;
        loop {
            let blocks = if left_over > s.blocks_at_once {
                s.blocks_at_once
            } else {
                left_over
            };
            let last = if left_over == blocks {
                s.last_channels
            } else {
                inner
            };
            weights =
                add_blocks::<V, BLOCKED, S, O, R, C>(&mut sums, s, corner, weights, blocks, last);
            if left_over < s.input_blocks {
                add_total(&mut sums, &total);
            }
            left_over -= blocks;
            if left_over == 0 {
                break;
            }
            set_aside(&mut sums, &mut total);
            corner = corner.wrapping_add(blocks * s.input_block);
        }
        finish::<V, O, R, C>(s, top, left, sums);
    }
}

/// Adds all products of `blocks` input blocks, the last of `last_channels`, to a tile's sums; returns where the weights of
/// the next block are.
///
/// # Safety
/// As of [`tile`], whose first pixel's first tap is at `corner`.
#[inline(always)]
unsafe fn add_blocks<
    V: Vector,
    const BLOCKED: bool,
    const S: usize,
    const O: usize,
    const R: usize,
    const C: usize,
>(
    sums: &mut [[[V; C]; R]; O],
    s: &Strip,
    corner: *const f32,
    mut weights: *const f32,
    blocks: usize,
    last_channels: usize,
) -> *const f32 {
    let inner = if BLOCKED { V::LANES } else { 1 };
    let pixel = inner * stride::<S>(s);
    let row = s.stride_height * s.input_row;
    let (tap_row, tap_column) = if reads_taps(S) {
        (s.tap_row, s.tap_column)
    } else {
        (s.input_row, inner)
    };
    // SAFETY: the caller's promise.
    unsafe {
        for block in 0..blocks {
            let channels = if block + 1 == blocks {
                last_channels
            } else {
                inner
            };
            let block = corner.wrapping_add(block * s.input_block);
            for ky in 0..s.kernel_height {
                let mut input = block.add(ky * tap_row);
                for _ in 0..s.kernel_width {
                    if BLOCKED && V::MULTIPLIES_BY_LANE {
                        four_steps(sums, weights, s.weights_block, input, row, pixel);
                        weights = weights.add(4 * V::LANES);
                    } else {
                        for lane in 0..channels {
                            let (at, weights) = (input.add(lane), weights.add(lane * V::LANES));
                            step(sums, weights, s.weights_block, at, row, pixel);
                        }
                        weights = weights.add(inner * V::LANES);
                    }
                    input = input.wrapping_add(tap_column);
                }
                if reads_taps(S) {
                    weights = weights.wrapping_add(s.skip_row);
                }
            }
            if reads_taps(S) {
                weights = weights.wrapping_add(s.skip_block);
            }
        }
    }
    weights
}

/// A tile's sums of some of its products, in memory.
type Total<V, const O: usize, const R: usize, const C: usize> = [[[MaybeUninit<V>; C]; R]; O];

/// Puts a tile's sums where they take no registers, and begins new ones.
///
/// # Safety
/// The processor has the instruction set.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the indices name blocks, rows and columns"
)]
unsafe fn set_aside<V: Vector, const O: usize, const R: usize, const C: usize>(
    sums: &mut [[[V; C]; R]; O],
    total: &mut Total<V, O, R, C>,
) {
    for o in 0..O {
        for r in 0..R {
            for c in 0..C {
                total[o][r][c].write(sums[o][r][c]);
                // SAFETY: the caller's promise.
                sums[o][r][c] = unsafe { V::splat(0.0) };
            }
        }
    }
}

/// Adds what was set aside.
///
/// # Safety
/// The processor has the instruction set; something was.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the indices name blocks, rows and columns"
)]
unsafe fn add_total<V: Vector, const O: usize, const R: usize, const C: usize>(
    sums: &mut [[[V; C]; R]; O],
    total: &Total<V, O, R, C>,
) {
    for o in 0..O {
        for r in 0..R {
            for c in 0..C {
                // SAFETY: the caller's promise.
                sums[o][r][c] = unsafe { total[o][r][c].assume_init().add(sums[o][r][c]) };
            }
        }
    }
}

/// Adds one input channel under one tap to a tile's sums.
///
/// # Safety
/// The processor has the instruction set. `weights` is valid for a vector in each of `O` blocks
/// that are `weights_block` elements apart, `input` for each of `R` rows of `C` values that are
/// `row` and `pixel` elements apart.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the indices name blocks, rows and columns"
)]
unsafe fn step<V: Vector, const O: usize, const R: usize, const C: usize>(
    sums: &mut [[[V; C]; R]; O],
    weights: *const f32,
    weights_block: usize,
    input: *const f32,
    row: usize,
    pixel: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut w = [V::splat(0.0); O];
        for o in 0..O {
            w[o] = V::load(weights.add(o * weights_block));
        }
        for r in 0..R {
            for c in 0..C {
                let x = V::splat(*input.add(r * row + c * pixel));
                for o in 0..O {
                    sums[o][r][c] = sums[o][r][c].mul_add(w[o], x);
                }
            }
        }
    }
}

/// The same as a [`step`] for each of the four channels of a block, for vectors of four lanes that
/// can be multiplied by one of another's: one load a pixel instead of a broadcast a pixel and channel.
///
/// # Safety
/// As for [`step`], with weights for four channels and four values at each pixel.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the indices name rows and columns"
)]
unsafe fn four_steps<V: Vector, const O: usize, const R: usize, const C: usize>(
    sums: &mut [[[V; C]; R]; O],
    weights: *const f32,
    weights_block: usize,
    input: *const f32,
    row: usize,
    pixel: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut x = [[V::splat(0.0); C]; R];
        for r in 0..R {
            for c in 0..C {
                x[r][c] = V::load(input.add(r * row + c * pixel));
            }
        }
        lane_step::<V, 0, O, R, C>(sums, weights, weights_block, &x);
        lane_step::<V, 1, O, R, C>(sums, weights.add(4), weights_block, &x);
        lane_step::<V, 2, O, R, C>(sums, weights.add(8), weights_block, &x);
        lane_step::<V, 3, O, R, C>(sums, weights.add(12), weights_block, &x);
    }
}

/// # Safety
/// The processor has the instruction set; `weights` is valid as for [`step`].
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the indices name blocks, rows and columns"
)]
unsafe fn lane_step<V: Vector, const LANE: i32, const O: usize, const R: usize, const C: usize>(
    sums: &mut [[[V; C]; R]; O],
    weights: *const f32,
    weights_block: usize,
    x: &[[V; C]; R],
) {
    // SAFETY: the caller's promise.
    unsafe {
        for o in 0..O {
            let w = V::load(weights.add(o * weights_block));
            for r in 0..R {
                for c in 0..C {
                    sums[o][r][c] = sums[o][r][c].mul_add_lane::<LANE>(w, x[r][c]);
                }
            }
        }
    }
}

/// Adds the residual, applies the activation and stores a tile's sums.
///
/// # Safety
/// See [`StripKernel`]; the tile lies inside the strip.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the indices name blocks, rows and columns"
)]
unsafe fn finish<V: Vector, const O: usize, const R: usize, const C: usize>(
    s: &Strip,
    top: usize,
    left: usize,
    mut sums: [[[V; C]; R]; O],
) {
    // SAFETY: output and residual pixels of a tile inside the strip.
    unsafe {
        if !s.addend.is_null() {
            for o in 0..O {
                for r in 0..R {
                    for c in 0..C {
                        let at =
                            o * s.addend_block + (top + r) * s.addend_row + (left + c) * V::LANES;
                        sums[o][r][c] = sums[o][r][c].add(V::load(s.addend.add(at)));
                    }
                }
            }
        }
        let (low, high) = (V::splat(s.low), V::splat(s.high));
        for o in 0..O {
            for r in 0..R {
                for c in 0..C {
                    let at = o * s.output_block + (top + r) * s.output_row + (left + c) * V::LANES;
                    sums[o][r][c].clamp(low, high).store(s.output.add(at));
                }
            }
        }
    }
}

/// Computes a strip of a depthwise convolution: one output block, which reads the input block of
/// the same position. The weights are `[kernel row][kernel column][lane]`.
///
/// # Safety
/// See [`StripKernel`]; any number of rows and columns will do.
#[inline(always)]
pub(super) unsafe fn depthwise_strip<V: Vector>(s: &Strip) {
    // SAFETY: the caller's promise.
    unsafe {
        match (s.stride_width, s.tap_column == V::LANES) {
            (1, true) => depthwise_columns::<V, 1>(s),
            (2, true) => depthwise_columns::<V, 2>(s),
            (1, false) => depthwise_columns::<V, APART>(s),
            _ => depthwise_columns::<V, ANY>(s),
        }
    }
}

/// # Safety
/// See [`depthwise_strip`].
#[inline(always)]
unsafe fn depthwise_columns<V: Vector, const S: usize>(s: &Strip) {
    const COLUMNS: usize = 7;
    for top in 0..s.rows {
        let mut left = 0;
        while left + COLUMNS <= s.columns {
            // SAFETY: the tile lies inside the strip.
            unsafe { depthwise_tile::<V, S, COLUMNS>(s, top, left) };
            left += COLUMNS;
        }
        while left < s.columns {
            // SAFETY: the tile lies inside the strip.
            unsafe { depthwise_tile::<V, S, 1>(s, top, left) };
            left += 1;
        }
        // SAFETY: a row of the strip.
        unsafe { bend::<V>(s, 1, top, 1) };
    }
}

/// # Safety
/// See [`depthwise_strip`]; the tile lies inside the strip.
#[inline(always)]
unsafe fn depthwise_tile<V: Vector, const S: usize, const C: usize>(
    s: &Strip,
    top: usize,
    left: usize,
) {
    let pixel = stride::<S>(s) * V::LANES;
    let tap_column = if reads_taps(S) {
        s.tap_column
    } else {
        V::LANES
    };
    // SAFETY: as in `tile`, in one input block.
    unsafe {
        let corner = s
            .input
            .wrapping_add(top * s.stride_height * s.input_row + left * pixel);
        let mut weights = s.weights;
        let mut sums = [[[V::load(s.bias); C]; 1]; 1];
        for ky in 0..s.kernel_height {
            for kx in 0..s.kernel_width {
                let input = corner.add(ky * s.tap_row + kx * tap_column);
                let w = V::load(weights);
                for (c, sum) in sums[0][0].iter_mut().enumerate() {
                    *sum = sum.mul_add(w, V::load(input.add(c * pixel)));
                }
                weights = weights.add(V::LANES);
            }
            // In a window that is cut off taps may be side by side.
            weights = weights.wrapping_add(s.skip_row);
        }
        finish::<V, 1, 1, C>(s, top, left, sums);
    }
}
