//! Seeded numbers: for durations in virtual time and for the weights of test networks.

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): good enough
/// here, and a few lines to reproduce elsewhere.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..limit`, with a bias far below what any use here can show.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Uniform in `-1..1`.
    pub fn signed_unit(&mut self) -> f32 {
        // 24 bits: what an f32 holds exactly.
        (self.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
