//! Bilinear resampling with a triangle filter that widens when it shrinks the image, so that
//! every source pixel counts (anti-aliasing). Vertical pass first: it runs over neighbouring
//! bytes, which the compiler vectorises, and leaves the horizontal pass fewer rows.

use punctual_types::SharedBytes;

use crate::Isa;
use crate::simd::vectorised;

/// For each output position the source positions it reads and their weights, of sum 1.
#[derive(Debug)]
pub(super) struct Taps {
    /// `(first source position, first weight, number of weights)`.
    spans: Box<[(u32, u32, u32)]>,
    weights: Box<[f32]>,
}

impl Taps {
    /// Tables for `source` to `output` positions along one axis; both at least 1.
    pub(super) fn new(source: u32, output: u32) -> Self {
        let scale = f64::from(source) / f64::from(output);
        // Enlarging interpolates between neighbours: the filter never gets narrower than that.
        let support = scale.max(1.0);
        let mut spans = Vec::with_capacity(output as usize);
        let mut weights = Vec::new();
        for position in 0..output {
            let centre = (f64::from(position) + 0.5) * scale;
            let weight =
                |tap: u32| (1.0 - (f64::from(tap) + 0.5 - centre).abs() / support).max(0.0);
            let reach = |position: f64| position.clamp(0.0, f64::from(source)) as u32;
            let (mut first, mut last) = (
                reach((centre - support).floor()),
                reach((centre + support).ceil()).max(1) - 1,
            );
            while first < last && weight(first) == 0.0 {
                first += 1;
            }
            while first < last && weight(last) == 0.0 {
                last -= 1;
            }
            let sum: f64 = (first..=last).map(weight).sum();
            spans.push((first, weights.len() as u32, last - first + 1));
            weights.extend((first..=last).map(|tap| (weight(tap) / sum) as f32));
        }
        Self {
            spans: spans.into_boxed_slice(),
            weights: weights.into_boxed_slice(),
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
    first: Box<[u32]>,
    /// Of each position.
    count: usize,
    weights: Box<[f32]>,
}

impl Columns {
    /// As [`Taps::new`].
    pub(super) fn new(source: u32, output: u32) -> Self {
        let taps = Taps::new(source, output);
        let positions = 0..output as usize;
        let count = taps.count_max();
        let mut weights = vec![0.0; output as usize * count];
        let rows = weights.chunks_exact_mut(count);
        let first = positions.zip(rows).map(|(position, row)| {
            let (first, weights) = taps.of(position);
            let begin = first.min(source as usize - count);
            row[first - begin..][..weights.len()].copy_from_slice(weights);
            begin as u32
        });
        Self {
            first: first.collect(),
            count,
            weights: weights.into(),
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
    use super::{Columns, Taps};

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
            let taps = Taps::new(source, output);
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
            let (taps, columns) = (Taps::new(source, output), Columns::new(source, output));
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
        let taps = Taps::new(9, 9);
        for position in 0..9 {
            assert_eq!(taps.of(position), (position, &[1.0][..]));
        }
    }
}
