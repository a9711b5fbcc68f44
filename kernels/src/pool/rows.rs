//! A row of a pool's output pixels.

use core::ops::Range;

use crate::simd::Vector;

/// The part of a window that is not padding. Never empty: padding is less than the window.
pub(crate) fn inside(start: usize, window: usize, padding: usize, size: usize) -> Range<usize> {
    start.saturating_sub(padding)..(start + window - padding).min(size)
}

/// Rows of one input block that become one row of output pixels.
pub(super) struct Row {
    /// The first pixel of the first of them.
    pub input: *const f32,
    pub row_stride: usize,
    pub rows: usize,
    pub width: usize,
    pub kernel: usize,
    pub stride: usize,
    /// Columns of padding before the input.
    pub padding: usize,
    /// Pixels that a mean counts; none for those that are not padding.
    pub counted: Option<usize>,
    pub output: *mut f32,
    pub columns: usize,
}

/// How two values become one, and what does not change any.
trait Reduction {
    const NEUTRAL: f32;

    /// # Safety
    /// The processor has the instruction set.
    unsafe fn of<V: Vector>(a: V, b: V) -> V;

    /// What a pixel becomes when all are reduced.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn scaled<V: Vector>(value: V, scale: V) -> V;
}

struct Largest;

impl Reduction for Largest {
    const NEUTRAL: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    unsafe fn of<V: Vector>(a: V, b: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { a.max(b) }
    }

    #[inline(always)]
    unsafe fn scaled<V: Vector>(value: V, _: V) -> V {
        value
    }
}

struct Sum;

impl Reduction for Sum {
    const NEUTRAL: f32 = 0.0;

    #[inline(always)]
    unsafe fn of<V: Vector>(a: V, b: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { a.add(b) }
    }

    #[inline(always)]
    unsafe fn scaled<V: Vector>(value: V, scale: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { value.mul(scale) }
    }
}

/// # Safety
/// The processor has the instruction set; `input` is valid for `rows` of `width` pixels that are
/// `row_stride` elements apart, `output` for `columns` pixels that nothing aliases; each window has
/// a column that is not padding.
#[inline(always)]
pub(super) unsafe fn max_row<V: Vector>(row: &Row) {
    // SAFETY: the caller's promise.
    unsafe {
        let inner = tiles::<V, Largest>(row, V::splat(0.0));
        for column in (0..inner.start).chain(inner.end..row.columns) {
            let columns = row.window(column);
            reduce::<V, Largest>(row, &columns).store(row.output.add(column * V::LANES));
        }
    }
}

/// # Safety
/// As of [`max_row`].
#[inline(always)]
pub(super) unsafe fn mean_row<V: Vector>(row: &Row) {
    // SAFETY: the caller's promise.
    unsafe {
        let share = 1.0 / row.counted.unwrap_or(row.rows * row.kernel) as f32;
        let inner = tiles::<V, Sum>(row, V::splat(share));
        for column in (0..inner.start).chain(inner.end..row.columns) {
            let columns = row.window(column);
            let counted = row.counted.unwrap_or(row.rows * columns.len());
            reduce::<V, Sum>(row, &columns)
                .mul(V::splat(1.0 / counted as f32))
                .store(row.output.add(column * V::LANES));
        }
    }
}

const TILE: usize = 4;

/// Writes the pixels whose window of three columns lies inside the input, several at a time;
/// returns which they were: none, if the window is another. `scale` is what a sum is multiplied by.
///
/// # Safety
/// As of [`max_row`].
#[inline(always)]
unsafe fn tiles<V: Vector, R: Reduction>(row: &Row, scale: V) -> Range<usize> {
    // SAFETY: the caller's promise.
    unsafe {
        match (row.kernel, row.stride) {
            (3, 1) => tiles_of::<V, R, 3, 1>(row, scale),
            (3, 2) => tiles_of::<V, R, 3, 2>(row, scale),
            _ => 0..0,
        }
    }
}

/// # Safety
/// As of [`tiles`]; the window has `K` columns, `S` apart from the next.
#[inline(always)]
unsafe fn tiles_of<V: Vector, R: Reduction, const K: usize, const S: usize>(
    row: &Row,
    scale: V,
) -> Range<usize> {
    let first = row.padding.div_ceil(S);
    let mut left = first;
    // The last pixel of the tile is there, and its window ends inside the input.
    while left + TILE <= row.columns && (left + TILE - 1) * S + K <= row.width + row.padding {
        // SAFETY: `left >= first`, so the windows begin inside; they end there, see above.
        unsafe {
            let start = row.input.add((left * S - row.padding) * V::LANES);
            let mut pixels = [V::splat(R::NEUTRAL); TILE];
            for line in 0..row.rows {
                let line = start.add(line * row.row_stride);
                for (at, pixel) in pixels.iter_mut().enumerate() {
                    for column in 0..K {
                        let value = V::load(line.add((at * S + column) * V::LANES));
                        *pixel = R::of(*pixel, value);
                    }
                }
            }
            for (at, &pixel) in pixels.iter().enumerate() {
                R::scaled(pixel, scale).store(row.output.add((left + at) * V::LANES));
            }
        }
        left += TILE;
    }
    if left == first { 0..0 } else { first..left }
}

impl Row {
    /// The columns under an output pixel.
    #[inline(always)]
    fn window(&self, column: usize) -> Range<usize> {
        inside(column * self.stride, self.kernel, self.padding, self.width)
    }
}

/// All pixels of the window. A window of usual size is counted at compile time, and a wide one is
/// reduced into several vectors, since each waits for its last addition.
///
/// # Safety
/// As of [`max_row`]; the columns are inside the width.
#[inline(always)]
unsafe fn reduce<V: Vector, R: Reduction>(row: &Row, columns: &Range<usize>) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let start = row.input.add(columns.start * V::LANES);
        match columns.len() {
            2 => reduce_columns::<V, R, 2>(row, start),
            3 => reduce_columns::<V, R, 3>(row, start),
            columns => reduce_wide::<V, R>(row, start, columns),
        }
    }
}

/// # Safety
/// As of [`reduce`]; `start` is the first of `COLUMNS` pixels.
#[inline(always)]
unsafe fn reduce_columns<V: Vector, R: Reduction, const COLUMNS: usize>(
    row: &Row,
    start: *const f32,
) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let mut all = V::splat(R::NEUTRAL);
        for line in 0..row.rows {
            let line = start.add(line * row.row_stride);
            for column in 0..COLUMNS {
                all = R::of(all, V::load(line.add(column * V::LANES)));
            }
        }
        all
    }
}

/// # Safety
/// As of [`reduce`]; `start` is the first of `columns` pixels.
#[inline(always)]
unsafe fn reduce_wide<V: Vector, R: Reduction>(row: &Row, start: *const f32, columns: usize) -> V {
    const CHAINS: usize = 4;
    // SAFETY: the caller's promise; `at + CHAINS <= columns` in the inner loops.
    unsafe {
        let mut chains = [V::splat(R::NEUTRAL); CHAINS];
        for line in 0..row.rows {
            let line = start.add(line * row.row_stride);
            let mut at = 0;
            while at + CHAINS <= columns {
                for (chain, all) in chains.iter_mut().enumerate() {
                    *all = R::of(*all, V::load(line.add((at + chain) * V::LANES)));
                }
                at += CHAINS;
            }
            while at < columns {
                chains[0] = R::of(chains[0], V::load(line.add(at * V::LANES)));
                at += 1;
            }
        }
        R::of(R::of(chains[0], chains[1]), R::of(chains[2], chains[3]))
    }
}
