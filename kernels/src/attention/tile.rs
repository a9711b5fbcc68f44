//! One head: tiles of queries against tiles of keys.
//!
//! A vector holds one key's products with as many queries as it has lanes. So keys are broadcast and values multiplied
//! where they lie, only the queries of a tile are transposed, and the softmax proceeds key by key.

use core::ops::Range;

use crate::functions::exp;
use crate::simd::{KEPT, Vector};

pub const HEAD_CHANNELS_MAX: usize = punctual_types::HEAD_CHANNELS_MAX as usize;
/// Most vectors of queries in a tile.
const COLUMNS: usize = 3;
const LANES_MAX: usize = 16;
const QUERIES_MAX: usize = COLUMNS * LANES_MAX;
/// Most keys of a tile. At the usual 64 channels of a head, they and the queries stay in the first-level cache.
const KEYS_MAX: usize = 64;
/// Queries whose weighted sums are computed at once: a divisor of the queries of a whole tile.
const ROWS: usize = 6;

/// Memory for one head's tiles.
pub(super) struct Scratch {
    /// `[channel][query]`: the queries, multiplied by the scale.
    queries: [f32; HEAD_CHANNELS_MAX * QUERIES_MAX],
    /// `[key][query]`: products, then their weights, which the softmax's sum has not yet divided.
    weights: [f32; KEYS_MAX * QUERIES_MAX],
    /// `[vector of channels][key][lane]`: values whose head is not whole blocks.
    values: [f32; HEAD_CHANNELS_MAX * KEYS_MAX],
    /// `[query][channel]`, channels padded to whole vectors: weighted sums so far.
    sums: [f32; QUERIES_MAX * HEAD_CHANNELS_MAX],
    /// For each query the largest product so far.
    largest: [f32; QUERIES_MAX],
    /// For each query the sum of its weights so far.
    total: [f32; QUERIES_MAX],
    /// For each query the factor of its sums before the last tile of keys.
    correction: [f32; QUERIES_MAX],
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch {
            queries: [0.0; HEAD_CHANNELS_MAX * QUERIES_MAX],
            weights: [0.0; KEYS_MAX * QUERIES_MAX],
            values: [0.0; HEAD_CHANNELS_MAX * KEYS_MAX],
            sums: [0.0; QUERIES_MAX * HEAD_CHANNELS_MAX],
            largest: [0.0; QUERIES_MAX],
            total: [0.0; QUERIES_MAX],
            correction: [0.0; QUERIES_MAX],
        }
    }
}

/// One head of some pixels. Tensors are blocked, `block` floats apart.
pub(super) struct Head {
    pub query: *const f32,
    /// Also the output's.
    pub query_block: usize,
    pub key: *const f32,
    pub value: *const f32,
    /// Also the value's.
    pub key_block: usize,
    pub keys: usize,
    /// Null without one.
    pub mask: *const f32,
    /// The bias added to products: `bias_queries` values for each key, the first for pixel `bias_first`; null for none.
    pub bias: *const f32,
    pub bias_first: usize,
    /// Queries that the bias has values for.
    pub bias_queries: usize,
    pub output: *mut f32,
    /// Floats of the whole output before `output`.
    pub output_start: usize,
    /// The first channel of the head's queries and keys, and how many they have.
    pub first: usize,
    pub size: usize,
    /// The same of its values.
    pub value_first: usize,
    pub value_size: usize,
    pub written: Range<usize>,
    pub pixels: Range<usize>,
    pub scale: f32,
    pub scratch: *mut Scratch,
}

impl Head {
    /// Where a channel of a pixel lies.
    #[inline(always)]
    fn at<V: Vector>(block: usize, channel: usize, pixel: usize) -> usize {
        channel / V::LANES * block + pixel * V::LANES + channel % V::LANES
    }

    /// Whether the channels of the head's values are whole blocks.
    #[inline(always)]
    fn is_aligned<V: Vector>(&self) -> bool {
        self.value_first.is_multiple_of(V::LANES) && self.value_size.is_multiple_of(V::LANES)
    }

    /// The tile's queries, from the first pixel on.
    #[inline(always)]
    fn queries<V: Vector>(&self, first: usize, vectors: usize) -> usize {
        (self.pixels.end - first).min(vectors * V::LANES)
    }
}

/// # Safety
/// The processor has the instruction set; `size` and `value_size` are at most [`HEAD_CHANNELS_MAX`]; the
/// tensors and the bias are valid for their pixels and channels, the output for what is written; no other thread uses the output or the scratch.
#[inline(always)]
pub(super) unsafe fn attend<V: Vector>(head: &Head) {
    let vectors = head.pixels.len().div_ceil(V::LANES);
    let tiles = vectors.div_ceil(COLUMNS);
    // SAFETY: the caller's promises, which all of these functions pass on.
    unsafe {
        let scratch = &mut *head.scratch;
        for tile in 0..tiles {
            let vectors = vectors * tile / tiles..vectors * (tile + 1) / tiles;
            let first = head.pixels.start + vectors.start * V::LANES;
            match vectors.len() {
                1 => attend_tile::<V, 1>(head, first, scratch),
                2 => attend_tile::<V, 2>(head, first, scratch),
                _ => attend_tile::<V, COLUMNS>(head, first, scratch),
            }
        }
    }
}

/// A tile of `N` vectors of queries; the last vectors may reach beyond the last query.
#[inline(always)]
unsafe fn attend_tile<V: Vector, const N: usize>(head: &Head, first: usize, scratch: &mut Scratch) {
    // Tiles of equal size, each of whole groups of keys.
    let tile = head.keys.div_ceil(head.keys.div_ceil(KEYS_MAX));
    let tile = tile.next_multiple_of(8);
    // SAFETY: the caller's promises.
    unsafe {
        scratch.sums.fill(0.0);
        scratch.total.fill(0.0);
        // Finite, so that minus infinity, which stands behind the last key, gives it no weight.
        scratch.largest.fill(f32::MIN);
        for column in 0..N {
            load_queries::<V>(head, first, column, scratch);
        }
        let mut key = 0;
        while key < head.keys {
            let count = (head.keys - key).min(tile);
            if V::REGISTERS < 32 {
                all_products::<V, N, 4>(head, key, count, scratch);
            } else {
                all_products::<V, N, 8>(head, key, count, scratch);
            }
            add_bias::<V, N>(head, first, key, count, scratch);
            mask::<V, N>(head, key, count, scratch);
            soften::<V, N>(count, scratch);
            rescale::<V>(head, head.queries::<V>(first, N), scratch);
            weigh::<V, N>(head, key, count, scratch);
            key += count;
        }
        write::<V>(head, first, head.queries::<V>(first, N), scratch);
    }
}

/// Loads a vector of queries for each channel, multiplied by the scale. Behind the last query there are zeros.
#[inline(always)]
unsafe fn load_queries<V: Vector>(head: &Head, first: usize, column: usize, scratch: &mut Scratch) {
    let pitch = COLUMNS * V::LANES;
    let first = first + column * V::LANES;
    let count = head.pixels.end.saturating_sub(first).min(V::LANES);
    let fours = head.first.is_multiple_of(4) && head.size.is_multiple_of(4);
    let mut channel = 0;
    // SAFETY: channels and queries are the head's, and the scratch has a row for each channel.
    unsafe {
        let scale = V::splat(head.scale);
        while channel < head.size {
            let at = Head::at::<V>(head.query_block, head.first + channel, first);
            let from = head.query.wrapping_add(at);
            let to = scratch
                .queries
                .as_mut_ptr()
                .add(channel * pitch + column * V::LANES);
            if fours && count == V::LANES {
                // Transposes four channels of every fourth query, then of their neighbours.
                let step = 4 * V::LANES;
                let (a, b) = (
                    V::load_fours(from, step),
                    V::load_fours(from.add(V::LANES), step),
                );
                let c = V::load_fours(from.add(2 * V::LANES), step);
                let d = V::load_fours(from.add(3 * V::LANES), step);
                let (low, other_low) = (a.alternate_low(b), c.alternate_low(d));
                let (high, other_high) = (a.alternate_high(b), c.alternate_high(d));
                low.low_halves(other_low).mul(scale).store(to);
                low.high_halves(other_low).mul(scale).store(to.add(pitch));
                high.low_halves(other_high)
                    .mul(scale)
                    .store(to.add(2 * pitch));
                high.high_halves(other_high)
                    .mul(scale)
                    .store(to.add(3 * pitch));
                channel += 4;
            } else {
                for query in 0..V::LANES {
                    let real = query < count;
                    *to.add(query) = if real {
                        *from.add(query * V::LANES) * head.scale
                    } else {
                        0.0
                    };
                }
                channel += 1;
            }
        }
    }
}

/// Computes products of the tile's queries with `count` keys, `K` of them at once.
#[inline(always)]
unsafe fn all_products<V: Vector, const N: usize, const K: usize>(
    head: &Head,
    first: usize,
    count: usize,
    scratch: &mut Scratch,
) {
    let mut key = 0;
    // SAFETY: keys of the tile.
    unsafe {
        if count < K {
            while key < count {
                products::<V, N, 1>(head, first, key, scratch);
                key += 1;
            }
        }
        while key < count {
            // The last group is moved back to end with the tile; some products are computed again.
            products::<V, N, K>(head, first, key.min(count - K), scratch);
            key += K;
        }
    }
}

/// Computes products of the tile's queries with `K` keys, from key `at` of the tile on.
#[inline(always)]
unsafe fn products<V: Vector, const N: usize, const K: usize>(
    head: &Head,
    first: usize,
    at: usize,
    scratch: &mut Scratch,
) {
    let pitch = COLUMNS * V::LANES;
    let end = head.first + head.size;
    // SAFETY: channels and keys are the head's; the scratch has a row of queries for each channel
    // and one of weights for each key.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; K];
        let mut queries = scratch.queries.as_ptr();
        let mut channel = head.first;
        while channel < end {
            // Channels that lie side by side.
            let run = end.min((channel / V::LANES + 1) * V::LANES) - channel;
            let keys = head
                .key
                .add(Head::at::<V>(head.key_block, channel, first + at));
            for lane in 0..run {
                let mut columns = [V::splat(0.0); N];
                for (column, to) in columns.iter_mut().enumerate() {
                    *to = V::load(queries.add(column * V::LANES));
                }
                for (key, sums) in sums.iter_mut().enumerate() {
                    let key = V::splat(*keys.add(key * V::LANES + lane));
                    for (sum, query) in sums.iter_mut().zip(columns) {
                        *sum = sum.mul_add(key, query);
                    }
                }
                queries = queries.add(pitch);
            }
            channel += run;
        }
        for (key, sums) in sums.iter().enumerate() {
            let to = scratch.weights.as_mut_ptr().add((at + key) * pitch);
            for (column, sum) in sums.iter().enumerate() {
                sum.store(to.add(column * V::LANES));
            }
        }
    }
}

/// Adds the bias of the tile's queries to their products with `count` keys.
#[inline(always)]
unsafe fn add_bias<V: Vector, const N: usize>(
    head: &Head,
    first: usize,
    first_key: usize,
    count: usize,
    scratch: &mut Scratch,
) {
    if head.bias.is_null() {
        return;
    }
    let queries = head.queries::<V>(first, N);
    for key in 0..count {
        // SAFETY: the bias has a value for each query of each key, the scratch a row of weights.
        unsafe {
            let at = (first_key + key) * head.bias_queries + first - head.bias_first;
            let bias = head.bias.add(at);
            let row = scratch.weights.as_mut_ptr().add(key * COLUMNS * V::LANES);
            let mut query = 0;
            while query + V::LANES <= queries {
                let at = row.add(query);
                V::load(at).add(V::load(bias.add(query))).store(at);
                query += V::LANES;
            }
            while query < queries {
                *row.add(query) += *bias.add(query);
                query += 1;
            }
        }
    }
}

/// Adds `f32::MIN` to the products of masked keys.
#[inline(always)]
unsafe fn mask<V: Vector, const N: usize>(
    head: &Head,
    first: usize,
    count: usize,
    scratch: &mut Scratch,
) {
    if head.mask.is_null() {
        return;
    }
    for key in 0..count {
        // SAFETY: the mask has a block of lanes for each key, the scratch a row of weights.
        unsafe {
            if *head.mask.add((first + key) * V::LANES) == 0.0 {
                let row = scratch.weights.as_mut_ptr().add(key * COLUMNS * V::LANES);
                for column in 0..N {
                    let at = row.add(column * V::LANES);
                    V::load(at).add(V::splat(f32::MIN)).store(at);
                }
            }
        }
    }
}

/// Turns the products with `count` keys into weights.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "the index names columns of several arrays"
)]
unsafe fn soften<V: Vector, const N: usize>(count: usize, scratch: &mut Scratch) {
    let pitch = COLUMNS * V::LANES;
    // SAFETY: vectors of queries lie within the keys' rows, and within the lists that have a value for each query.
    unsafe {
        let weights = scratch.weights.as_mut_ptr();
        let mut largest = [V::splat(0.0); N];
        for column in 0..N {
            largest[column] = V::load(scratch.largest.as_ptr().add(column * V::LANES));
        }
        let before = largest;
        for key in 0..count {
            for column in 0..N {
                let product = V::load(weights.add(key * pitch + column * V::LANES));
                largest[column] = largest[column].max(product);
            }
        }
        let mut total = [V::splat(0.0); N];
        for key in 0..count {
            for column in 0..N {
                let at = weights.add(key * pitch + column * V::LANES);
                let weight = exp(V::load(at).sub(largest[column]));
                weight.store(at);
                total[column] = total[column].add(weight);
            }
        }
        for column in 0..N {
            let at = column * V::LANES;
            largest[column].store(scratch.largest.as_mut_ptr().add(at));
            let correction = exp(before[column].sub(largest[column]));
            correction.store(scratch.correction.as_mut_ptr().add(at));
            let all = scratch.total.as_mut_ptr().add(at);
            total[column].mul_add(V::load(all), correction).store(all);
        }
    }
}

/// Rescales the sums of queries whose largest product has changed.
#[inline(always)]
unsafe fn rescale<V: Vector>(head: &Head, queries: usize, scratch: &mut Scratch) {
    let size = head.value_size.next_multiple_of(V::LANES);
    for query in 0..queries {
        let correction = scratch.correction[query];
        if correction != 1.0 {
            let mut channel = 0;
            while channel < size {
                // SAFETY: whole vectors of the query's sums.
                unsafe {
                    let at = scratch.sums.as_mut_ptr().add(query * size + channel);
                    V::load(at).mul(V::splat(correction)).store(at);
                }
                channel += V::LANES;
            }
        }
    }
}

/// Adds the weighted values of `count` keys to the sums of all queries.
#[inline(always)]
unsafe fn weigh<V: Vector, const N: usize>(
    head: &Head,
    first: usize,
    count: usize,
    scratch: &mut Scratch,
) {
    let vectors = head.value_size.div_ceil(V::LANES);
    // SAFETY: the values are the head's or were just copied; the scratch has rows of weights and sums for whole tiles.
    unsafe {
        let (values, block) = if head.is_aligned::<V>() {
            let at = Head::at::<V>(head.key_block, head.value_first, first);
            (head.value.add(at), head.key_block)
        } else {
            load_values::<V>(head, first, count, scratch);
            (scratch.values.as_ptr(), KEYS_MAX * V::LANES)
        };
        let mut row = 0;
        while row < N * V::LANES {
            let mut vector = 0;
            while vector < vectors {
                let values = values.add(vector * block);
                let left = vectors - vector;
                if left >= 4 && V::REGISTERS >= 32 {
                    weigh_rows::<V, 4>(head, row, vector, values, block, count, scratch);
                    vector += 4;
                } else if left >= 2 {
                    weigh_rows::<V, 2>(head, row, vector, values, block, count, scratch);
                    vector += 2;
                } else {
                    weigh_rows::<V, 1>(head, row, vector, values, block, count, scratch);
                    vector += 1;
                }
            }
            row += ROWS;
        }
    }
}

/// Adds weighted values to `C` vectors of channels, for `ROWS` queries.
#[inline(always)]
unsafe fn weigh_rows<V: Vector, const C: usize>(
    head: &Head,
    row: usize,
    vector: usize,
    values: *const f32,
    block: usize,
    count: usize,
    scratch: &mut Scratch,
) {
    let pitch = COLUMNS * V::LANES;
    let size = head.value_size.next_multiple_of(V::LANES);
    // SAFETY: the caller's promises.
    unsafe {
        let at = scratch
            .sums
            .as_mut_ptr()
            .add(row * size + vector * V::LANES);
        let weights = scratch.weights.as_ptr().add(row);
        let mut rows = [[V::splat(0.0); C]; ROWS];
        for (row, sums) in rows.iter_mut().enumerate() {
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum = V::load(at.add(row * size + column * V::LANES));
            }
        }
        for key in 0..count {
            let mut columns = [V::splat(0.0); C];
            for (column, to) in columns.iter_mut().enumerate() {
                *to = V::load(values.add(column * block + key * V::LANES));
            }
            for (row, sums) in rows.iter_mut().enumerate() {
                let weight = V::splat(*weights.add(key * pitch + row));
                for (sum, value) in sums.iter_mut().zip(columns) {
                    *sum = sum.mul_add(weight, value);
                }
            }
        }
        for (row, sums) in rows.iter().enumerate() {
            for (column, sum) in sums.iter().enumerate() {
                sum.store(at.add(row * size + column * V::LANES));
            }
        }
    }
}

/// Copies the values of a head that starts or ends within a block, so that it starts with one. Lanes behind its last
/// channel are never written to the output.
#[inline(always)]
unsafe fn load_values<V: Vector>(head: &Head, first: usize, count: usize, scratch: &mut Scratch) {
    let shift = head.value_first % V::LANES;
    let (mut near, mut far) = ([KEPT; LANES_MAX], [KEPT; LANES_MAX]);
    for lane in 0..V::LANES {
        let from = shift + lane;
        if from < V::LANES {
            near[lane] = from as i32;
        } else {
            far[lane] = (from - V::LANES) as i32;
        }
    }
    let blocks =
        head.value_first / V::LANES..(head.value_first + head.value_size).div_ceil(V::LANES);
    // SAFETY: whole blocks of the value's pixels that have channels of the head.
    unsafe {
        let (near, far) = (V::lanes(&near), V::lanes(&far));
        for vector in 0..head.value_size.div_ceil(V::LANES) {
            let block = blocks.start + vector;
            for key in 0..count {
                let from = head
                    .value
                    .add(block * head.key_block + (first + key) * V::LANES);
                let mut value = V::splat(0.0).pick(V::load(from), near);
                if block + 1 < blocks.end {
                    value = value.pick(V::load(from.add(head.key_block)), far);
                }
                value.store(
                    scratch
                        .values
                        .as_mut_ptr()
                        .add((vector * KEYS_MAX + key) * V::LANES),
                );
            }
        }
    }
}

/// Divides the sums and writes the channels that are asked for.
#[inline(always)]
unsafe fn write<V: Vector>(head: &Head, first: usize, queries: usize, scratch: &Scratch) {
    let size = head.value_size.next_multiple_of(V::LANES);
    for query in 0..queries {
        let factor = 1.0 / scratch.total[query];
        let sums = &scratch.sums[query * size..][..size];
        let mut channel = head.written.start;
        while channel < head.written.end {
            let at = Head::at::<V>(head.query_block, channel, first + query) - head.output_start;
            let from = &sums[channel - head.value_first..];
            // SAFETY: the channel, or the whole block of channels, is one to be written.
            unsafe {
                let to = head.output.add(at);
                if head.is_aligned::<V>() {
                    V::load(from.as_ptr()).mul(V::splat(factor)).store(to);
                    channel += V::LANES;
                } else {
                    *to = from[0] * factor;
                    channel += 1;
                }
            }
        }
    }
}
