//! Randomness as an argument: one seed, many independent streams by name, so that what one part of
//! a run draws does not depend on how often another part drew.

/// A stream of random numbers (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The streams of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// An independent stream, named.
    #[must_use]
    pub fn stream(&self, name: &str, index: u64) -> Self {
        let mut stream = Self {
            state: self.state ^ 0x9e37_79b9_7f4a_7c15,
        };
        for byte in name.bytes() {
            stream.state = stream.next_u64() ^ u64::from(byte);
        }
        stream.state = stream.next_u64() ^ index;
        let state = stream.next_u64();
        Self { state }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0..`bound`; 0 if that is empty. (The bias of the multiplication is below
    /// `bound` / 2^64.)
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in [0, 1), with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential with that mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_name_and_index_and_on_nothing_else() {
        let draw = |seed, name: &str, index| Random::new(seed).stream(name, index).next_u64();
        assert_eq!(draw(1, "arrivals", 0), draw(1, "arrivals", 0));
        let different = [
            draw(1, "arrivals", 0),
            draw(2, "arrivals", 0),
            draw(1, "arrivals", 1),
            draw(1, "samples", 0),
        ];
        for (index, one) in different.iter().enumerate() {
            assert!(!different[..index].contains(one));
        }
    }

    #[test]
    fn uniform_and_exponential_have_their_means() {
        let mut random = Random::new(7).stream("mean", 0);
        let n = 100_000;
        let uniform: f64 = (0..n).map(|_| random.unit()).sum::<f64>() / f64::from(n);
        let exponential: f64 = (0..n).map(|_| random.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((uniform - 0.5).abs() < 0.01, "{uniform}");
        assert!((exponential - 3.0).abs() < 0.05, "{exponential}");
    }
}
