//! Randomness from a seed, so that a run can be repeated.

/// A small generator with a good spread (SplitMix64, Steele et al. 2014).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_has_one_sequence_and_another_seed_another() {
        let five = |seed| {
            let mut random = Random::new(seed);
            [(); 5].map(|()| random.next())
        };
        assert_eq!(five(1), five(1));
        assert_ne!(five(1), five(2));
    }
}
