//! Numbers from a seed, wherever a run must be the same when it is repeated.
//!
//! What a seed gives is recorded: pictures, weights of test networks, cases of the fuzzer, figures of
//! experiments. So no method may come to draw otherwise than it does.

/// Numbers that follow from a seed (SplitMix64: Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream `name`, `index`, of this seed. It depends on the seed only, not on how many
    /// numbers were drawn from `self`, as long as it is `self`'s first use.
    ///
    /// In a simulation, each random decision has a stream of its own, named by what it decides and its
    /// subject. So a policy that orders other actions still sees the same arrivals and the same images,
    /// and a change of one task's workload leaves the other tasks' as they were.
    #[must_use]
    pub fn stream(&self, name: &str, index: u64) -> Self {
        // FNV-1a over the name; the mixing makes neighbours independent.
        let named = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(mix(mix(self.0 ^ named) ^ index.wrapping_mul(GOLDEN)))
    }

    #[must_use]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    #[must_use]
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next_u64() as u8).collect()
    }

    /// Uniform in `0..limit` (0 when the limit is), with a bias far below what any use can show.
    #[must_use]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// From `low` to `high`, both included.
    #[must_use]
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times.
    #[must_use]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Uniform in `0..1`.
    #[must_use]
    pub fn unit(&mut self) -> f64 {
        // 53 bits: what an f64 holds exactly.
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `0..1`.
    #[must_use]
    pub fn unit_f32(&mut self) -> f32 {
        // 24 bits: what an f32 holds exactly.
        (self.next_u64() >> 40) as f32 / (1 << 24) as f32
    }

    /// Uniform in `-1..1`.
    #[must_use]
    pub fn signed_unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    #[must_use]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    #[must_use]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - unit() is never 0.
        -mean * (1.0 - self.unit()).ln()
    }

    /// Normally distributed with mean 0 and variance 1 (Box and Muller, 1958).
    #[must_use]
    pub fn normal(&mut self) -> f64 {
        let radius = self.exponential(2.0).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Gamma distributed with this shape (above 0) and scale 1 (Marsaglia and Tsang, "A simple
    /// method for generating gamma variables", 2000).
    #[must_use]
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = (1.0 - self.unit()).powf(1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.exponential(1.0) > d * (v - 1.0 - v.ln()) - 0.5 * x * x {
                return d * v;
            }
        }
    }
}

/// SplitMix64's finaliser: a bijection of 64 bits in which each input bit flips half the output.
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of many draws.
    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let draws: Vec<f64> = (0..200_000).map(|_| draw()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let squares = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        (mean, squares / draws.len() as f64)
    }

    fn close(found: (f64, f64), expected: (f64, f64)) {
        let near = |a: f64, b: f64| (a - b).abs() <= 0.03 * b.abs().max(1.0);
        assert!(
            near(found.0, expected.0) && near(found.1, expected.1),
            "mean and variance {found:?}, not {expected:?}"
        );
    }

    #[test]
    fn draws_have_the_mean_and_variance_of_their_distribution() {
        let mut random = Random::new(1);
        close(moments(|| random.unit()), (0.5, 1.0 / 12.0));
        close(moments(|| random.exponential(1.0)), (1.0, 1.0));
        close(moments(|| random.normal()), (0.0, 1.0));
        for shape in [0.4, 1.0, 3.5] {
            close(moments(|| random.gamma(shape)), (shape, shape));
        }
    }

    #[test]
    fn the_sequence_of_a_seed_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        let first = [(); 3].map(|()| random.next_u64());
        // Of the reference implementation, https://prng.di.unimi.it/splitmix64.c.
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, published);
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut random = Random::new(2);
        let mut seen = [0; 7];
        (0..7_000).for_each(|_| seen[random.below(7) as usize] += 1);
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn streams_differ_by_name_index_and_seed_and_are_the_same_again() {
        let first =
            |seed: u64, name: &str, index: u64| Random::new(seed).stream(name, index).next_u64();
        let base = first(1, "arrivals", 0);
        assert_eq!(base, first(1, "arrivals", 0));
        for other in [
            first(2, "arrivals", 0),
            first(1, "samples", 0),
            first(1, "arrivals", 1),
        ] {
            assert_ne!(base, other);
        }
    }
}
