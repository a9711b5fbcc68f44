//! The transforms of a Winograd convolution, each written once for all filters and vectors.
//!
//! Transformed values lie `[point][...]`, a point being one of `IN` x `IN`: what has the same point
//! is multiplied and summed over channels like a convolution of one tap.

use super::minimal::{Filter, Four, Two};
use crate::activation::Curve;
use crate::simd::Vector;

/// All input blocks under one tile of outputs. Strides are in elements.
pub(super) struct InputTile {
    /// The tile's first input pixel in the first block.
    pub input: *const f32,
    pub input_row: usize,
    pub input_block: usize,
    pub blocks: usize,
    /// Rows and columns of the input that are there; the tile's others count as zeros.
    pub rows: usize,
    pub columns: usize,
    /// The tile's place at the first point, in the first block.
    pub output: *mut f32,
    pub output_point: usize,
    pub output_block: usize,
}

/// One output block's weights.
pub(super) struct WeightBlock {
    /// `[input block][kernel row][kernel column][input lane][lane]`.
    pub weights: *const f32,
    pub input_blocks: usize,
    /// `[point][input block][input lane][lane]`.
    pub output: *mut f32,
}

/// One output block of a tile.
pub(super) struct OutputTile {
    /// The tile's place at the first point.
    pub sums: *const f32,
    pub sums_point: usize,
    pub bias: *const f32,
    /// The residual at the tile's first pixel that is stored, or null.
    pub addend: *const f32,
    pub addend_row: usize,
    /// The tile's first pixel that is stored.
    pub output: *mut f32,
    pub output_row: usize,
    /// Rows of the tile above the first one that is stored.
    pub above: usize,
    /// Rows and columns that are stored.
    pub rows: usize,
    pub columns: usize,
    pub low: f32,
    pub high: f32,
    pub curve: Option<Curve>,
}

/// # Safety
/// The processor has the instruction set; pointers and sizes describe valid memory, and nothing
/// aliases what is written.
pub(super) type Transform<Arguments> = unsafe fn(&Arguments);

/// The transforms of one filter as kernels with a vector as their only parameter.
macro_rules! kernels {
    ($filter:ty, $in:literal, $out:literal, $input:ident, $weights:ident, $output:ident) => {
        #[doc = "# Safety\nSee [`Transform`]."]
        #[inline(always)]
        pub(super) unsafe fn $input<V: Vector>(tile: &InputTile) {
            // SAFETY: the caller's promise.
            unsafe { input::<V, $filter, $in, $out>(tile) }
        }
        #[doc = "# Safety\nSee [`Transform`]."]
        #[inline(always)]
        pub(super) unsafe fn $weights<V: Vector>(block: &WeightBlock) {
            // SAFETY: the caller's promise.
            unsafe { weights::<V, $filter, $in, $out>(block) }
        }
        #[doc = "# Safety\nSee [`Transform`]."]
        #[inline(always)]
        pub(super) unsafe fn $output<V: Vector>(tile: &OutputTile) {
            // SAFETY: the caller's promise.
            unsafe { output::<V, $filter, $in, $out>(tile) }
        }
    };
}

kernels!(Two, 4, 2, input_two, weights_two, output_two);
kernels!(Four, 6, 4, input_four, weights_four, output_four);

/// # Safety
/// See [`Transform`].
#[inline(always)]
unsafe fn input<V: Vector, F: Filter<IN, OUT>, const IN: usize, const OUT: usize>(
    tile: &InputTile,
) {
    let whole = tile.rows >= IN && tile.columns >= IN;
    for block in 0..tile.blocks {
        // SAFETY: the blocks are there, and of each the rows and columns that are loaded.
        unsafe {
            let input = tile.input.add(block * tile.input_block);
            let mut pixels = [[V::splat(0.0); IN]; IN];
            if whole {
                for (row, pixels) in pixels.iter_mut().enumerate() {
                    for (column, pixel) in pixels.iter_mut().enumerate() {
                        *pixel = V::load(input.add(row * tile.input_row + column * V::LANES));
                    }
                    *pixels = F::input(*pixels);
                }
            } else {
                for (row, pixels) in pixels.iter_mut().take(tile.rows).enumerate() {
                    for (column, pixel) in pixels.iter_mut().take(tile.columns).enumerate() {
                        *pixel = V::load(input.add(row * tile.input_row + column * V::LANES));
                    }
                    *pixels = F::input(*pixels);
                }
            }
            let output = tile.output.add(block * tile.output_block);
            for column in 0..IN {
                let mut values = [V::splat(0.0); IN];
                for (value, pixels) in values.iter_mut().zip(&pixels) {
                    *value = pixels[column];
                }
                for (row, value) in F::input(values).into_iter().enumerate() {
                    value.store(output.add((row * IN + column) * tile.output_point));
                }
            }
        }
    }
}

/// # Safety
/// See [`Transform`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "the index names a column")]
unsafe fn weights<V: Vector, F: Filter<IN, OUT>, const IN: usize, const OUT: usize>(
    block: &WeightBlock,
) {
    let tap = V::LANES * V::LANES;
    let point = block.input_blocks * tap;
    for input_block in 0..block.input_blocks {
        for lane in 0..V::LANES {
            // SAFETY: the output block's weights from this channel, as they are packed.
            unsafe {
                let taps = block.weights.add(input_block * 9 * tap + lane * V::LANES);
                let mut rows = [[V::splat(0.0); IN]; 3];
                for (row, values) in rows.iter_mut().enumerate() {
                    let mut g = [V::splat(0.0); 3];
                    for (column, g) in g.iter_mut().enumerate() {
                        *g = V::load(taps.add((row * 3 + column) * tap));
                    }
                    *values = F::weights(g);
                }
                let output = block.output.add(input_block * tap + lane * V::LANES);
                for column in 0..IN {
                    let g = [rows[0][column], rows[1][column], rows[2][column]];
                    for (row, value) in F::weights(g).into_iter().enumerate() {
                        value.store(output.add((row * IN + column) * point));
                    }
                }
            }
        }
    }
}

/// # Safety
/// See [`Transform`].
#[inline(always)]
unsafe fn output<V: Vector, F: Filter<IN, OUT>, const IN: usize, const OUT: usize>(
    tile: &OutputTile,
) {
    // SAFETY: all points are there, and the pixels that are stored.
    unsafe {
        let mut rows = [[V::splat(0.0); OUT]; IN];
        for (row, values) in rows.iter_mut().enumerate() {
            let mut sums = [V::splat(0.0); IN];
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum = V::load(tile.sums.add((row * IN + column) * tile.sums_point));
            }
            *values = F::output(sums);
        }
        let mut pixels = [[V::splat(0.0); OUT]; OUT];
        for column in 0..OUT {
            let mut values = [V::splat(0.0); IN];
            for (value, row) in values.iter_mut().zip(&rows) {
                *value = row[column];
            }
            for (row, value) in F::output(values).into_iter().enumerate() {
                pixels[row][column] = value;
            }
        }
        let bias = V::load(tile.bias);
        let (low, high) = (V::splat(tile.low), V::splat(tile.high));
        for (row, pixels) in pixels.iter().skip(tile.above).take(tile.rows).enumerate() {
            let output = tile.output.add(row * tile.output_row);
            for (column, pixel) in pixels.iter().take(tile.columns).enumerate() {
                let mut value = pixel.add(bias);
                if !tile.addend.is_null() {
                    let at = row * tile.addend_row + column * V::LANES;
                    value = value.add(V::load(tile.addend.add(at)));
                }
                value.clamp(low, high).store(output.add(column * V::LANES));
            }
            if let Some(curve) = tile.curve {
                curve.apply(output, tile.columns * V::LANES);
            }
        }
    }
}
