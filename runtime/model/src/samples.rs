//! Samples of one figure, and the quantiles that a profile has of them.
//!
//! Samples come in blocks of 69, one after another in time: of 69 independent samples, the longest lies below the 99% quantile
//! with a chance of `0.99^69 = 0.5`. So the median of the blocks' longest estimates that quantile, and a burst of noise has to
//! hit half of the blocks to move it.

use punctual_core::Nanos;

/// The samples of one figure, in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<u64>);

/// What a profile gives for them, in nanoseconds. `p50 <= p99 <= max`, none of them zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    pub samples: u32,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

impl Samples {
    /// Samples a block: `0.99^69` is one half.
    pub const BLOCK: usize = 69;

    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Those of another, taken later.
    pub fn append(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn add(&mut self, took: Nanos) {
        // A clock may be too coarse for a tiny operator; a profile has no zeros.
        self.0.push(took.as_nanos().max(1));
    }

    /// # Panics
    /// If there are no samples.
    #[must_use]
    pub fn quantiles(&self) -> Quantiles {
        let longest_of = |block: &[u64]| block.iter().copied().max().unwrap_or(0);
        let longest: Vec<u64> = self.0.chunks(Self::BLOCK).map(longest_of).collect();
        let p50_ns = upper_median(self.0.clone());
        Quantiles {
            samples: u32::try_from(self.0.len()).unwrap_or(u32::MAX),
            p50_ns,
            // Both are medians; the longest of a short last block may lie below the other one.
            p99_ns: upper_median(longest).max(p50_ns),
            max_ns: longest_of(&self.0),
        }
    }
}

/// Of an even number of values, the larger of the two in the middle.
fn upper_median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use punctual_types::Random;

    use super::*;

    const BLOCK: usize = Samples::BLOCK;

    fn of(values: impl IntoIterator<Item = u64>) -> Quantiles {
        let mut samples = Samples::default();
        values
            .into_iter()
            .for_each(|value| samples.add(Nanos::new(value)));
        samples.quantiles()
    }

    #[test]
    fn the_median_of_the_blocks_longest_estimates_the_quantile() {
        let mut random = Random::new(1);
        let quantiles = of((0..45 * BLOCK).map(|_| 1 + random.below(10_000)));
        assert!((4_700..5_300).contains(&quantiles.p50_ns), "{quantiles:?}");
        assert!((9_850..9_950).contains(&quantiles.p99_ns), "{quantiles:?}");
    }

    #[test]
    fn a_burst_of_noise_moves_the_longest_and_not_the_quantile() {
        let quiet = |index: usize| 1_000 + (index as u64 * 7) % 100;
        let burst = |index: usize| {
            if (70..200).contains(&index) {
                50_000
            } else {
                0
            }
        };
        let clean = of((0..5 * BLOCK).map(quiet));
        let noisy = of((0..5 * BLOCK).map(|index| quiet(index) + burst(index)));
        assert_eq!(noisy.p99_ns, clean.p99_ns);
        assert!(noisy.max_ns > 50_000);
    }

    #[test]
    fn steady_noise_is_in_the_quantile() {
        let stalls = (0..5 * BLOCK).map(|index| if index % 50 == 9 { 9_000 } else { 1_000 });
        let quantiles = of(stalls);
        assert_eq!((quantiles.p50_ns, quantiles.p99_ns), (1_000, 9_000));
    }

    #[test]
    fn quantiles_are_in_order_and_never_zero_however_few_the_samples() {
        for count in 1..200_u64 {
            let quantiles = of((0..count).map(|index| (index * 37) % 101));
            assert!(quantiles.p50_ns > 0);
            assert!(quantiles.p50_ns <= quantiles.p99_ns);
            assert!(quantiles.p99_ns <= quantiles.max_ns);
            assert_eq!(u64::from(quantiles.samples), count);
        }
    }
}
