//! Bilinear resampling with a triangle filter that widens when it shrinks the image, so that
//! every source pixel counts (anti-aliasing). Vertical pass first: it runs over neighbouring
//! bytes, which the compiler vectorises, and leaves the horizontal pass fewer rows.

use std::ops::Range;

use punctual_types::SharedBytes;

use crate::Isa;
use crate::simd::vectorised;

/// A triangle filter from `source` to `output` positions along one axis.
struct Triangle {
    source: u32,
    output: u32,
    /// Source positions for each output position.
    scale: f64,
    /// Half the filter's width, in source positions.
    support: f64,
}

impl Triangle {
    fn new(source: u32, output: u32) -> Self {
        let scale = f64::from(source) / f64::from(output);
        Self {
            source,
            output,
            scale,
            // Enlarging interpolates between neighbours: the filter never gets narrower than that.
            support: scale.max(1.0),
        }
    }

    fn centre(&self, position: u32) -> f64 {
        (f64::from(position) + 0.5) * self.scale
    }

    /// Not yet divided by their sum.
    fn weight(&self, centre: f64, tap: u32) -> f64 {
        (1.0 - (f64::from(tap) + 0.5 - centre).abs() / self.support).max(0.0)
    }

    /// The source positions that an output position reads.
    fn span(&self, position: u32) -> Range<u32> {
        let (centre, support) = (self.centre(position), self.support);
        let reach = |position: f64| position.clamp(0.0, f64::from(self.source)) as u32;
        let (mut first, mut last) = (
            reach((centre - support).floor()),
            reach((centre + support).ceil()).max(1) - 1,
        );
        while first < last && self.weight(centre, first) == 0.0 {
            first += 1;
        }
        while first < last && self.weight(centre, last) == 0.0 {
            last -= 1;
        }
        first..last + 1
    }

    /// For each output position its span, and the weights of that, of sum 1.
    fn spans(&self) -> impl Iterator<Item = (Range<u32>, impl Iterator<Item = f32>)> {
        (0..self.output).map(move |position| {
            let (centre, span) = (self.centre(position), self.span(position));
            let sum: f64 = span.clone().map(|tap| self.weight(centre, tap)).sum();
            let weights = span.clone();
            let weights = weights.map(move |tap| (self.weight(centre, tap) / sum) as f32);
            (span, weights)
        })
    }
}

/// Weights of all output positions at most, also if each has as many as the one with the most, for sizes up to these.
///
/// A position has a weight for each source position less than `support` from its centre: at most `2 * support + 1`, which is at
/// most `2 * source / output + 1` or, enlarging, 3.
fn weights_max(source: u32, output: u32) -> usize {
    2 * source.max(output) as usize + 2 * output as usize
}

/// For each output position the source positions it reads and their weights, of sum 1.
#[derive(Debug)]
pub(super) struct Taps {
    /// `(first source position, first weight, number of weights)`.
    spans: Vec<(u32, u32, u32)>,
    weights: Vec<f32>,
}

impl Taps {
    /// With room for tables of sizes up to these; as yet of no positions.
    pub(super) fn up_to(source: u32, output: u32) -> Self {
        Self {
            spans: Vec::with_capacity(output as usize),
            weights: Vec::with_capacity(weights_max(source, output)),
        }
    }

    /// Makes the tables for `source` to `output` positions along one axis; both at least 1.
    pub(super) fn set(&mut self, source: u32, output: u32) {
        self.spans.clear();
        self.weights.clear();
        for (span, weights) in Triangle::new(source, output).spans() {
            let start = self.weights.len() as u32;
            self.spans.push((span.start, start, span.len() as u32));
            self.weights.extend(weights);
        }
    }

    /// The first source position of an output position, and the weights from there on.
    pub(super) fn of(&self, position: usize) -> (usize, &[f32]) {
        let (first, start, count) = self.spans[position];
        (
            first as usize,
            &self.weights[start as usize..][..count as usize],
        )
    }

    /// The most weights that an output position has.
    pub(super) fn count_max(&self) -> usize {
        let counts = self.spans.iter().map(|(_, _, count)| *count as usize);
        counts.max().unwrap_or(0)
    }
}

/// A number as it lies in a frame.
pub(super) trait Sample: Copy {
    /// Bytes of it.
    const BYTES: usize;

    /// The weighted sum of rows of them, to be called where `isa` is available.
    fn sum_rows(isa: Isa) -> unsafe fn(&mut Rows<'_>);

    /// Adds `weight` times each number in eight bytes to the first sums.
    fn add(sums: &mut [f32; 8], bytes: [u8; 8], weight: f32);
}

impl Sample for u8 {
    const BYTES: usize = 1;

    fn sum_rows(isa: Isa) -> unsafe fn(&mut Rows<'_>) {
        vectorised!(isa, sum_rows::<u8, true>, sum_rows::<u8, false>, Rows<'_>)
    }

    #[inline(always)]
    fn add(sums: &mut [f32; 8], bytes: [u8; 8], weight: f32) {
        for (sum, byte) in sums.iter_mut().zip(bytes) {
            *sum += weight * f32::from(byte);
        }
    }
}

/// Little-endian.
impl Sample for [u8; 2] {
    const BYTES: usize = 2;

    fn sum_rows(isa: Isa) -> unsafe fn(&mut Rows<'_>) {
        vectorised!(
            isa,
            sum_rows::<[u8; 2], true>,
            sum_rows::<[u8; 2], false>,
            Rows<'_>
        )
    }

    #[inline(always)]
    fn add(sums: &mut [f32; 8], bytes: [u8; 8], weight: f32) {
        for (sum, word) in sums.iter_mut().zip(bytes.as_chunks().0) {
            *sum += weight * f32::from(u16::from_le_bytes(*word));
        }
    }
}

/// Bytes of rows that are summed at a time, eight by eight: as many sums as registers can hold.
const STRIP: usize = 64;

/// Rows of samples at equal distances, after the last of which comes the first again.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    /// From the first row's first byte on.
    pub bytes: SharedBytes<'a>,
    /// From one row to the next.
    pub stride: usize,
    pub count: usize,
    /// Bytes of a row.
    pub len: usize,
}

impl Lines<'_> {
    /// Where the row `index` of the crop is.
    pub(super) fn at(&self, index: usize) -> usize {
        index % self.count
    }

    #[inline(always)]
    fn after(&self, line: usize) -> usize {
        let next = line + 1;
        if next == self.count { 0 } else { next }
    }
}

/// Rows of the crop, and where their weighted sum goes.
pub(super) struct Rows<'a> {
    pub lines: Lines<'a>,
    /// A line.
    pub first: usize,
    pub weights: &'a [f32],
    /// As many as a row has samples.
    pub sums: &'a mut [f32],
}

/// `sums[i]` = the sum over rows of `weights[row] * lines[first + row][i]`. The sums of a strip stay in registers, so nothing is
/// written but sums.
#[inline(always)]
fn sum_rows<S: Sample, const AVX: bool>(rows: &mut Rows<'_>) {
    let len = rows.lines.len;
    let mut at = 0;
    while at + STRIP <= len {
        sum_strip::<S, AVX, { STRIP / 8 }>(rows, at);
        at += STRIP;
    }
    while at + 8 <= len {
        sum_strip::<S, AVX, 1>(rows, at);
        at += 8;
    }
    if at < len {
        sum_rest::<S>(rows, at);
    }
}

/// `EIGHTS` times eight bytes from `at` on.
#[inline(always)]
fn sum_strip<S: Sample, const AVX: bool, const EIGHTS: usize>(rows: &mut Rows<'_>, at: usize) {
    let lines = rows.lines;
    let mut sums = [[0.0; 8]; EIGHTS];
    let mut line = rows.first;
    for weight in rows.weights {
        let strip = lines.bytes.part(line * lines.stride + at, EIGHTS * 8);
        for (index, sums) in sums.iter_mut().enumerate() {
            S::add(sums, eight::<AVX>(strip, index * 8), *weight);
        }
        line = lines.after(line);
    }
    let to = &mut rows.sums[at / S::BYTES..][..EIGHTS * 8 / S::BYTES];
    for (to, sums) in to.chunks_exact_mut(8 / S::BYTES).zip(sums) {
        to.copy_from_slice(&sums[..8 / S::BYTES]);
    }
}

/// Fewer than eight bytes, from `at` to the rows' end.
fn sum_rest<S: Sample>(rows: &mut Rows<'_>, at: usize) {
    let lines = rows.lines;
    let mut sums = [0.0; 8];
    let mut line = rows.first;
    for weight in rows.weights {
        let mut bytes = [0; 8];
        let rest = lines.bytes.part(line * lines.stride + at, lines.len - at);
        rest.copy_to(&mut bytes[..lines.len - at]);
        S::add(&mut sums, bytes, *weight);
        line = lines.after(line);
    }
    let to = &mut rows.sums[at / S::BYTES..];
    to.copy_from_slice(&sums[..to.len()]);
}

#[inline(always)]
fn eight<const AVX: bool>(strip: SharedBytes<'_>, at: usize) -> [u8; 8] {
    if AVX {
        // SAFETY: only what `vectorised` compiles for AVX2 is told so, and it runs where the processor has that.
        unsafe { strip.eight_as_vector(at) }
    } else {
        strip.eight(at)
    }
}

/// [`Taps`] of the horizontal pass: the same number of weights for each position, zeros among them, so that the loop
/// over them has a length that the compiler knows.
#[derive(Debug)]
pub(super) struct Columns {
    /// Of each position the first pixel that it reads.
    first: Vec<u32>,
    /// Of each position.
    count: usize,
    weights: Vec<f32>,
}

impl Columns {
    /// As [`Taps::up_to`].
    pub(super) fn up_to(source: u32, output: u32) -> Self {
        Self {
            first: Vec::with_capacity(output as usize),
            count: 0,
            weights: Vec::with_capacity(weights_max(source, output)),
        }
    }

    /// As [`Taps::set`].
    pub(super) fn set(&mut self, source: u32, output: u32) {
        let triangle = Triangle::new(source, output);
        let counts = (0..output).map(|position| triangle.span(position).len());
        self.count = counts.max().unwrap_or(0);
        self.first.clear();
        self.weights.clear();
        self.weights.resize(output as usize * self.count, 0.0);
        let rows = self.weights.chunks_exact_mut(self.count);
        for ((span, weights), row) in triangle.spans().zip(rows) {
            let begin = span.start.min(source - self.count as u32);
            let to = &mut row[(span.start - begin) as usize..];
            for (to, weight) in to.iter_mut().zip(weights) {
                *to = weight;
            }
            self.first.push(begin);
        }
    }

    /// Tells `each` the weighted sum of pixels of `row` at every position. Inlined, as `each` writes one number.
    #[inline(always)]
    pub(super) fn sums<const SAMPLES: usize>(
        &self,
        row: &[[f32; SAMPLES]],
        each: impl FnMut(usize, [f32; SAMPLES]),
    ) {
        match self.count {
            1 => self.sums_of(row, 1, each),
            2 => self.sums_of(row, 2, each),
            3 => self.sums_of(row, 3, each),
            4 => self.sums_of(row, 4, each),
            5 => self.sums_of(row, 5, each),
            6 => self.sums_of(row, 6, each),
            count => self.sums_of(row, count, each),
        }
    }

    /// Inlined, so that `count` is known above.
    #[inline(always)]
    fn sums_of<const SAMPLES: usize>(
        &self,
        row: &[[f32; SAMPLES]],
        count: usize,
        mut each: impl FnMut(usize, [f32; SAMPLES]),
    ) {
        let positions = self.first.iter().zip(self.weights.chunks_exact(count));
        for (position, (first, weights)) in positions.enumerate() {
            let mut sums = [0.0; SAMPLES];
            for (pixel, weight) in row[*first as usize..][..count].iter().zip(weights) {
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum += weight * value;
                }
            }
            each(position, sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Columns, Taps, weights_max};

    fn taps(source: u32, output: u32) -> Taps {
        let mut taps = Taps::up_to(source, output);
        taps.set(source, output);
        taps
    }

    fn columns(source: u32, output: u32) -> Columns {
        let mut columns = Columns::up_to(source, output);
        columns.set(source, output);
        columns
    }

    const SIZES: [(u32, u32); 7] = [
        (1, 1),
        (1, 7),
        (7, 1),
        (192, 64),
        (64, 192),
        (191, 64),
        (5, 3),
    ];

    #[test]
    fn weights_sum_to_one_and_stay_inside_the_source() {
        for (source, output) in SIZES {
            let taps = taps(source, output);
            for position in 0..output as usize {
                let (first, weights) = taps.of(position);
                assert!(first + weights.len() <= source as usize);
                assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
                assert!(weights.iter().all(|weight| *weight > 0.0));
            }
        }
    }

    #[test]
    fn columns_have_the_same_weights_and_zeros() {
        for (source, output) in SIZES {
            let (taps, columns) = (taps(source, output), columns(source, output));
            let row: Vec<[f32; 1]> = (0..source).map(|x| [(x * 37 % 101) as f32]).collect();
            let mut sums = Vec::new();
            columns.sums(&row, |_, [sum]| sums.push(sum));
            let expected = (0..output as usize).map(|position| {
                let (first, weights) = taps.of(position);
                let values = row[first..].iter().zip(weights);
                values.fold(0.0, |sum, ([value], weight)| sum + weight * value)
            });
            assert_eq!(sums, expected.collect::<Vec<f32>>());
        }
    }

    #[test]
    fn equal_sizes_copy() {
        let taps = taps(9, 9);
        for position in 0..9 {
            assert_eq!(taps.of(position), (position, &[1.0][..]));
        }
    }

    #[test]
    fn no_size_has_more_weights_than_there_is_room_for() {
        let sides = [
            1, 2, 3, 5, 7, 16, 31, 64, 97, 192, 640, 1023, 1080, 1919, 4096,
        ];
        for source in sides {
            for output in sides {
                let (taps, columns) = (taps(source, output), columns(source, output));
                let most = taps.count_max() * output as usize;
                assert!(taps.weights.len() <= most && columns.weights.len() == most);
                assert!(most <= weights_max(source, output), "{source} {output}");
            }
        }
    }
}
