//! Numbers that depend on a seed only: a stream for the scene's parameters, and a hash of a
//! pixel's position for its noise, so that a pixel is the same whatever region it is drawn in.

use punctual_types::mix;

/// The numbers that one image is drawn from.
#[derive(Clone, Debug)]
pub(crate) struct Random(punctual_types::Random);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

pub(crate) fn at(seed: u64, x: i32, y: i32) -> u64 {
    let position = (u64::from(x as u32) << 32) | u64::from(y as u32);
    mix(seed ^ position.wrapping_mul(GOLDEN))
}

impl Random {
    /// The stream of one image of one seed.
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let start = mix(seed.wrapping_mul(GOLDEN) ^ mix(index.wrapping_add(GOLDEN)));
        Self(punctual_types::Random::new(start))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f32 {
        self.0.unit_f32()
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
