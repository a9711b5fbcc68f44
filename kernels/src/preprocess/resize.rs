//! Bilinear resampling with a triangle filter that widens when it shrinks the image, so that
//! every source pixel counts (anti-aliasing). Vertical pass first: it runs over whole rows of
//! bytes, which the compiler vectorises, and leaves the horizontal pass fewer rows.

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
}

/// A number as it lies in a frame.
pub(super) trait Sample: Copy {
    fn value(self) -> f32;
}

impl Sample for u8 {
    fn value(self) -> f32 {
        f32::from(self)
    }
}

/// Little-endian.
impl Sample for [u8; 2] {
    fn value(self) -> f32 {
        f32::from(u16::from_le_bytes(self))
    }
}

/// `sums[i]` = the sum over rows of `weights[row] * source[row][i]`.
pub(super) fn weighted_row<S: Sample>(source: &[S], weights: &[f32], sums: &mut [f32]) {
    let mut rows = source.chunks_exact(sums.len()).zip(weights);
    if let Some((row, weight)) = rows.next() {
        for (sum, sample) in sums.iter_mut().zip(row) {
            *sum = weight * sample.value();
        }
    }
    for (row, weight) in rows {
        for (sum, sample) in sums.iter_mut().zip(row) {
            *sum += weight * sample.value();
        }
    }
}

/// The weighted sum of pixels, from the first of `row` on.
pub(super) fn weighted_pixel<const SAMPLES: usize>(
    row: &[[f32; SAMPLES]],
    weights: &[f32],
) -> [f32; SAMPLES] {
    let mut sums = [0.0; SAMPLES];
    for (pixel, weight) in row.iter().zip(weights) {
        for (sum, value) in sums.iter_mut().zip(pixel) {
            *sum += weight * value;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::Taps;

    #[test]
    fn weights_sum_to_one_and_stay_inside_the_source() {
        for (source, output) in [
            (1, 1),
            (1, 7),
            (7, 1),
            (192, 64),
            (64, 192),
            (191, 64),
            (5, 3),
        ] {
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
    fn equal_sizes_copy() {
        let taps = Taps::new(9, 9);
        for position in 0..9 {
            assert_eq!(taps.of(position), (position, &[1.0][..]));
        }
    }
}
