//! The register-tiled convolution kernel on bytes: as that on floats, but a step of the sum takes in
//! four input channels at once, a *quad*.

use crate::quantised::rounding::Rounding;
use crate::quantised::sums::Vector;

/// Rows of an image's output, for one or several consecutive blocks of output channels: what one
/// call of a kernel computes. Strides are in bytes, or in floats for an output of floats.
#[derive(Debug)]
pub(super) struct Strip {
    /// The input under the first output pixel's first tap, in the first input block.
    pub input: *const u8,
    /// From a row to the one below.
    pub input_row: usize,
    /// From a block to the next.
    pub input_block: usize,
    pub input_blocks: usize,
    /// Quads of the last of them; the others are full.
    pub last_quads: usize,
    pub kernel_height: usize,
    pub kernel_width: usize,
    /// From a tap to the one below.
    pub tap_row: usize,
    /// From a tap to the next.
    pub tap_column: usize,
    /// Input rows between two output rows.
    pub stride_height: usize,
    /// Input columns between two output columns.
    pub stride_width: usize,
    /// The first block's weights:
    /// `[input block][kernel row][kernel column][quad][output lane][input lane of the quad]`.
    pub weights: *const i8,
    /// From an output block's weights to the next one's.
    pub weights_block: usize,
    /// What the first block's sums start with, followed by the next one's.
    pub bias: *const i32,
    /// What a sum is multiplied by, for each lane of the blocks.
    pub scales: *const f32,
    /// The first output pixel.
    pub output: Output,
    /// From a row to the one below.
    pub output_row: usize,
    /// From a block to the next.
    pub output_block: usize,
    pub rows: usize,
    pub columns: usize,
}

/// Where the results go, and as what.
#[derive(Debug)]
pub(super) enum Output {
    Bytes {
        to: *mut u8,
        rounding: Rounding,
    },
    /// Clipped to `low` and `high`.
    Floats {
        to: *mut f32,
        low: f32,
        high: f32,
    },
}

/// A kernel, compiled for an instruction set and a tile.
///
/// # Safety
/// The processor has the instruction set. `rows` and `columns` are at least those of the tile.
/// All that the strip's sizes and strides reach from its pointers is valid: to read, and `output`
/// to write, which nothing else aliases.
pub(super) type StripKernel = unsafe fn(&Strip);

/// Computes a strip. `S` is the horizontal stride of taps that are side by side, or 0 for any
/// stride and any taps, read at run time. The last row or
/// column of tiles is moved back to end with the strip, and computes some pixels again.
///
/// # Safety
/// See [`StripKernel`].
#[inline(always)]
pub(super) unsafe fn strip<
    V: Vector,
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
            unsafe { tile::<V, S, O, R, C>(s, top, left) };
            column += C;
        }
        row += R;
    }
}

/// Computes the tile whose first pixel is at `top`, `left` of the strip.
///
/// # Safety
/// See [`StripKernel`]; the tile lies inside the strip.
#[inline(always)]
unsafe fn tile<V: Vector, const S: usize, const O: usize, const R: usize, const C: usize>(
    s: &Strip,
    top: usize,
    left: usize,
) {
    let pixel = V::LANES * if S == 0 { s.stride_width } else { S };
    let row = s.stride_height * s.input_row;
    let tap_column = if S == 0 { s.tap_column } else { V::LANES };
    // SAFETY: offsets stay inside what the caller promised, since the tile lies inside the strip:
    // output pixel (top + r, left + c) reads input pixels ((top + r) * stride + ky * dilation,
    // (left + c) * stride + kx * dilation) of each input block.
    unsafe {
        let first = V::load(s.bias);
        let mut sums = [[[first; C]; R]; O];
        for (o, sums) in sums.iter_mut().enumerate() {
            *sums = [[V::load(s.bias.add(o * V::LANES)); C]; R];
        }
        let corner = s.input.add(top * row + left * pixel);
        let mut weights = s.weights;
        for block in 0..s.input_blocks {
            let full = block + 1 < s.input_blocks || 4 * s.last_quads == V::LANES;
            let block = corner.add(block * s.input_block);
            for ky in 0..s.kernel_height {
                let mut input = block.add(ky * s.tap_row);
                for _ in 0..s.kernel_width {
                    if full {
                        for quad in 0..V::LANES / 4 {
                            let at = input.add(4 * quad);
                            step(&mut sums, weights, s.weights_block, at, row, pixel);
                            weights = weights.add(4 * V::LANES);
                        }
                    } else {
                        for quad in 0..s.last_quads {
                            let at = input.add(4 * quad);
                            step(&mut sums, weights, s.weights_block, at, row, pixel);
                            weights = weights.add(4 * V::LANES);
                        }
                    }
                    input = input.wrapping_add(tap_column);
                }
            }
        }
        finish(s, top, left, sums);
    }
}

/// Adds one quad of input channels under one tap to a tile's sums.
///
/// # Safety
/// The processor has the instruction set. `weights` is valid for a vector in each of `O` blocks
/// that are `weights_block` bytes apart, `input` for a quad in each of `R` rows of `C` pixels that
/// are `row` and `pixel` bytes apart.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the indices name blocks, rows and columns"
)]
unsafe fn step<V: Vector, const O: usize, const R: usize, const C: usize>(
    sums: &mut [[[V; C]; R]; O],
    weights: *const i8,
    weights_block: usize,
    input: *const u8,
    row: usize,
    pixel: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut w = [V::weights(weights); O];
        for o in 1..O {
            w[o] = V::weights(weights.add(o * weights_block));
        }
        for r in 0..R {
            for c in 0..C {
                let x = V::broadcast(input.add(r * row + c * pixel));
                for o in 0..O {
                    sums[o][r][c] = sums[o][r][c].dot(x, w[o]);
                }
            }
        }
    }
}

/// Scales a tile's sums and stores them.
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
    sums: [[[V; C]; R]; O],
) {
    for o in 0..O {
        for r in 0..R {
            for c in 0..C {
                let at = o * s.output_block + (top + r) * s.output_row + (left + c) * V::LANES;
                // SAFETY: output pixels of a tile inside the strip, and their blocks' scales.
                unsafe {
                    let scales = s.scales.add(o * V::LANES);
                    match &s.output {
                        Output::Bytes { to, rounding } => {
                            sums[o][r][c].store_bytes(scales, rounding, to.add(at));
                        }
                        Output::Floats { to, low, high } => {
                            sums[o][r][c].store_floats(scales, *low, *high, to.add(at));
                        }
                    }
                }
            }
        }
    }
}

/// Computes a strip of a depthwise convolution: one output block, which reads the input block of
/// the same position. The weights are `[kernel row][kernel column][lane][one and three zeros]`.
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
            _ => depthwise_columns::<V, 0>(s),
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
    let pixel = if S == 0 { s.stride_width } else { S } * V::LANES;
    let tap_column = if S == 0 { s.tap_column } else { V::LANES };
    // SAFETY: as in `tile`, in one input block.
    unsafe {
        let corner = s
            .input
            .add(top * s.stride_height * s.input_row + left * pixel);
        let mut weights = s.weights;
        let mut sums = [[[V::load(s.bias); C]; 1]; 1];
        for ky in 0..s.kernel_height {
            for kx in 0..s.kernel_width {
                let input = corner.add(ky * s.tap_row + kx * tap_column);
                let w = V::weights(weights);
                for (c, sum) in sums[0][0].iter_mut().enumerate() {
                    *sum = sum.dot(V::spread(input.add(c * pixel)), w);
                }
                weights = weights.add(4 * V::LANES);
            }
        }
        finish(s, top, left, sums);
    }
}
