//! Numbers that depend on a seed only: a stream for the scene's parameters, and a hash of a
//! pixel's position for its noise, so that a pixel is the same whatever region it is drawn in.

/// A SplitMix64 stream (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finaliser: a bijection of 64 bits in which each input bit flips half the output.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

pub(crate) fn at(seed: u64, x: i32, y: i32) -> u64 {
    let position = (u64::from(x as u32) << 32) | u64::from(y as u32);
    mix(seed ^ position.wrapping_mul(GOLDEN))
}

impl Random {
    /// The stream of one image of one seed.
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        Self(mix(
            seed.wrapping_mul(GOLDEN) ^ mix(index.wrapping_add(GOLDEN))
        ))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 24) as f32
    }

    /// Uniform in `[low, high)`.
    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// Uniform in `0..count`.
    pub(crate) fn below(&mut self, count: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(count)) >> 32) as u32
    }

    pub(crate) fn chance(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    /// A colour with each channel uniform in `[low, high)`.
    pub(crate) fn colour(&mut self, low: f32, high: f32) -> [f32; 3] {
        [
            self.between(low, high),
            self.between(low, high),
            self.between(low, high),
        ]
    }
}
