//! One head: tiles of queries against tiles of keys.

use core::ops::Range;

use crate::functions::exp;
use crate::simd::Vector;

/// Most channels of a head.
pub const HEAD_CHANNELS_MAX: usize = 128;
const QUERIES: usize = 64;
/// Most keys of a tile: four of the widest vectors.
const KEYS_MAX: usize = 64;
/// Vectors of keys, or of channels, that are computed at once.
const WIDTH: usize = 4;
const LANES_MAX: usize = 16;

/// Memory for one head's tiles.
pub(super) struct Scratch {
    /// `[channel][key]`.
    keys: [f32; HEAD_CHANNELS_MAX * KEYS_MAX],
    /// `[key][channel]`, channels filled up with zeros to whole vectors.
    values: [f32; KEYS_MAX * HEAD_CHANNELS_MAX],
    /// `[query][key]`: products, then what the softmax makes of them but for its divisor.
    weights: [f32; QUERIES * KEYS_MAX],
    /// `[query][channel]`: weighed sums so far.
    sums: [f32; QUERIES * HEAD_CHANNELS_MAX],
    /// For each query the largest product so far.
    largest: [f32; QUERIES],
    /// For each query the sum of its weights so far.
    total: [f32; QUERIES],
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch {
            keys: [0.0; HEAD_CHANNELS_MAX * KEYS_MAX],
            values: [0.0; KEYS_MAX * HEAD_CHANNELS_MAX],
            weights: [0.0; QUERIES * KEYS_MAX],
            sums: [0.0; QUERIES * HEAD_CHANNELS_MAX],
            largest: [0.0; QUERIES],
            total: [0.0; QUERIES],
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
    /// What is added to products, `keys` for each query from `bias_first` on; null if nothing is.
    pub bias: *const f32,
    pub bias_first: usize,
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
}

/// # Safety
/// The processor has the instruction set; `size` and `value_size` are at most [`HEAD_CHANNELS_MAX`]; the tensors are valid for
/// their pixels and channels, the output for what is written; no other thread uses the output or the scratch.
#[inline(always)]
pub(super) unsafe fn attend<V: Vector>(head: &Head) {
    let tile = WIDTH * V::LANES;
    // SAFETY: the caller's promises, which all of these functions pass on.
    unsafe {
        let scratch = &mut *head.scratch;
        let mut first = head.pixels.start;
        while first < head.pixels.end {
            let queries = (head.pixels.end - first).min(QUERIES);
            scratch.sums.fill(0.0);
            scratch.total.fill(0.0);
            // Finite, so that what is behind the last key differs from it by minus infinity.
            scratch.largest.fill(f32::MIN);
            let mut key = 0;
            while key < head.keys {
                load_keys::<V>(head, key, scratch);
                load_values::<V>(head, key, scratch);
                let mut at = 0;
                while at < queries {
                    // Queries behind the last one of the tile repeat it.
                    products::<V>(head, first, at, queries, scratch);
                    at += WIDTH;
                }
                for query in 0..queries {
                    soften::<V>(head, key, first, query, scratch);
                }
                let mut at = 0;
                while at < queries {
                    weigh::<V>(head, at, scratch);
                    at += WIDTH;
                }
                key += tile;
            }
            write::<V>(head, first, queries, scratch);
            first += queries;
        }
    }
}

/// A tile of keys with the channels outside. Behind the last key stands zero.
#[inline(always)]
unsafe fn load_keys<V: Vector>(head: &Head, first: usize, scratch: &mut Scratch) {
    let tile = WIDTH * V::LANES;
    let count = (head.keys - first).min(tile);
    for channel in 0..head.size {
        let row = &mut scratch.keys[channel * tile..][..tile];
        // SAFETY: channel and key are the head's.
        let from = unsafe {
            let at = Head::at::<V>(head.key_block, head.first + channel, first);
            head.key.add(at)
        };
        for (key, to) in row[..count].iter_mut().enumerate() {
            // SAFETY: as above; keys are `LANES` apart.
            *to = unsafe { *from.add(key * V::LANES) };
        }
        row[count..].fill(0.0);
    }
}

/// A tile of values with the keys outside. Behind the last key stands zero.
#[inline(always)]
unsafe fn load_values<V: Vector>(head: &Head, first: usize, scratch: &mut Scratch) {
    let tile = WIDTH * V::LANES;
    let count = (head.keys - first).min(tile);
    let row = head.value_size.next_multiple_of(V::LANES);
    for key in 0..tile {
        let to = &mut scratch.values[key * row..][..row];
        if key >= count {
            to.fill(0.0);
        } else if head.is_aligned::<V>() {
            let mut channel = 0;
            while channel < head.value_size {
                // SAFETY: a whole block of the head's channels of one of its keys.
                unsafe {
                    let at = Head::at::<V>(head.key_block, head.value_first + channel, first + key);
                    V::load(head.value.add(at)).store(to[channel..].as_mut_ptr());
                }
                channel += V::LANES;
            }
        } else {
            for (channel, to) in to[..head.value_size].iter_mut().enumerate() {
                let at = Head::at::<V>(head.key_block, head.value_first + channel, first + key);
                // SAFETY: channel and key are the head's.
                *to = unsafe { *head.value.add(at) };
            }
        }
    }
}

/// Products of `WIDTH` queries of the tile with all its keys.
#[inline(always)]
unsafe fn products<V: Vector>(
    head: &Head,
    first: usize,
    at: usize,
    queries: usize,
    scratch: &mut Scratch,
) {
    let tile = WIDTH * V::LANES;
    // SAFETY: the scratch has `size` rows of keys and `QUERIES`, a multiple of `WIDTH`, rows of
    // weights; queries and channels are the head's.
    unsafe {
        let mut sums = [[V::splat(0.0); WIDTH]; WIDTH];
        let pixels: [usize; WIDTH] = [
            first + at,
            first + (at + 1).min(queries - 1),
            first + (at + 2).min(queries - 1),
            first + (at + 3).min(queries - 1),
        ];
        let mut keys = scratch.keys.as_ptr();
        for channel in head.first..head.first + head.size {
            let block = head.query.add(Head::at::<V>(head.query_block, channel, 0));
            let mut columns = [V::splat(0.0); WIDTH];
            for (column, to) in columns.iter_mut().enumerate() {
                *to = V::load(keys.add(column * V::LANES));
            }
            for (sums, pixel) in sums.iter_mut().zip(pixels) {
                let query = V::splat(*block.add(pixel * V::LANES));
                for (sum, key) in sums.iter_mut().zip(columns) {
                    *sum = sum.mul_add(query, key);
                }
            }
            keys = keys.add(tile);
        }
        let scale = V::splat(head.scale);
        for (row, sums) in sums.iter().enumerate() {
            let to = scratch.weights.as_mut_ptr().add((at + row) * tile);
            for (column, sum) in sums.iter().enumerate() {
                sum.mul(scale).store(to.add(column * V::LANES));
            }
        }
    }
}

/// Makes weights of one query's products, and rescales its sums so far accordingly.
#[inline(always)]
unsafe fn soften<V: Vector>(
    head: &Head,
    first: usize,
    first_query: usize,
    query: usize,
    scratch: &mut Scratch,
) {
    let tile = WIDTH * V::LANES;
    let weights = &mut scratch.weights[query * tile..][..tile];
    let count = (head.keys - first).min(tile);
    if !head.bias.is_null() {
        let at = (first_query + query - head.bias_first) * head.keys + first;
        for (key, weight) in weights[..count].iter_mut().enumerate() {
            // SAFETY: the bias has `keys` values for each query.
            *weight += unsafe { *head.bias.add(at + key) };
        }
    }
    if !head.mask.is_null() {
        for (key, weight) in weights[..count].iter_mut().enumerate() {
            // SAFETY: the mask has a block of lanes for each key.
            if unsafe { *head.mask.add((first + key) * V::LANES) } == 0.0 {
                *weight += f32::MIN;
            }
        }
    }
    weights[count..].fill(f32::NEG_INFINITY);
    // SAFETY: vectors of the query's weights, then of its sums, which fill whole vectors.
    unsafe {
        let row = weights.as_mut_ptr();
        let mut most = V::load(row);
        for column in 1..WIDTH {
            most = most.max(V::load(row.add(column * V::LANES)));
        }
        let before = scratch.largest[query];
        let mut largest = before;
        let mut lanes = [0.0; LANES_MAX];
        most.store(lanes.as_mut_ptr());
        for &lane in &lanes[..V::LANES] {
            largest = if lane > largest { lane } else { largest };
        }
        scratch.largest[query] = largest;
        let mut total = V::splat(0.0);
        for column in 0..WIDTH {
            let at = row.add(column * V::LANES);
            let weight = exp(V::load(at).sub(V::splat(largest)));
            weight.store(at);
            total = total.add(weight);
        }
        exp(V::splat(before).sub(V::splat(largest))).store(lanes.as_mut_ptr());
        let correction = if before == largest { 1.0 } else { lanes[0] };
        total.store(lanes.as_mut_ptr());
        let mut sum = scratch.total[query] * correction;
        for lane in &lanes[..V::LANES] {
            sum += lane;
        }
        scratch.total[query] = sum;
        if correction != 1.0 {
            let size = head.value_size.next_multiple_of(V::LANES);
            let sums = scratch.sums.as_mut_ptr().add(query * size);
            let mut channel = 0;
            while channel < size {
                let at = sums.add(channel);
                V::load(at).mul(V::splat(correction)).store(at);
                channel += V::LANES;
            }
        }
    }
}

/// Adds the tile's values, weighed, to the sums of `WIDTH` queries.
#[inline(always)]
unsafe fn weigh<V: Vector>(head: &Head, at: usize, scratch: &mut Scratch) {
    let size = head.value_size.next_multiple_of(V::LANES);
    let mut channel = 0;
    // SAFETY: the channels from `channel` on fill as many vectors as each call takes.
    unsafe {
        while channel + WIDTH * V::LANES <= size {
            weigh_columns::<V, WIDTH>(at, channel, size, scratch);
            channel += WIDTH * V::LANES;
        }
        while channel < size {
            weigh_columns::<V, 1>(at, channel, size, scratch);
            channel += V::LANES;
        }
    }
}

#[inline(always)]
unsafe fn weigh_columns<V: Vector, const COLUMNS: usize>(
    at: usize,
    channel: usize,
    size: usize,
    scratch: &mut Scratch,
) {
    let tile = WIDTH * V::LANES;
    // SAFETY: `WIDTH` rows of sums and weights from `at` on, and all keys' values, are in the
    // scratch.
    unsafe {
        let sums = scratch.sums.as_mut_ptr().add(at * size + channel);
        let weights = scratch.weights.as_ptr().add(at * tile);
        let values = scratch.values.as_ptr().add(channel);
        let mut rows = [[V::splat(0.0); COLUMNS]; WIDTH];
        for (row, columns) in rows.iter_mut().enumerate() {
            for (column, sum) in columns.iter_mut().enumerate() {
                *sum = V::load(sums.add(row * size + column * V::LANES));
            }
        }
        for key in 0..tile {
            let mut columns = [V::splat(0.0); COLUMNS];
            for (column, to) in columns.iter_mut().enumerate() {
                *to = V::load(values.add(key * size + column * V::LANES));
            }
            for (row, sums) in rows.iter_mut().enumerate() {
                let weight = V::splat(*weights.add(row * tile + key));
                for (sum, value) in sums.iter_mut().zip(columns) {
                    *sum = sum.mul_add(weight, value);
                }
            }
        }
        for (row, columns) in rows.iter().enumerate() {
            for (column, sum) in columns.iter().enumerate() {
                sum.store(sums.add(row * size + column * V::LANES));
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
