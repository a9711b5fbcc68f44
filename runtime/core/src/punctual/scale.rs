//! Estimates whether the board has become slower than its profile. It uses the measured times of real-time
//! stages alone, never misses: a higher scale changes what misses, so misses would feed back.

use serde::{Deserialize, Serialize};

use crate::punctual::tables::SCALES;
use crate::time::{Instant, Nanos};

/// The samples from which a new level is computed.
const RING: usize = 64;
/// The level rises when this many of the newest samples exceed it. So it rises within 8 samples, but not for
/// one or two: a budget is a quantile, which single stages exceed.
const NEWEST: usize = 8;
const NEWEST_EXCEEDING: usize = 3;
/// The level may fall by one step after this many samples in a row, and this time, below the lower level. It
/// rises at once and falls slowly, because too low a level breaks promises and too high a one only rejects.
const CALM_SAMPLES: u32 = 256;
const CALM_TIME: Nanos = Nanos::from_millis(2_000);
/// A sample is calm below this part of the lower level, in percent.
const CALM_PERCENT: u64 = 95;

const _: () = assert!(NEWEST <= RING && NEWEST_EXCEEDING <= NEWEST);

/// The consequence of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    /// The level must rise to this one.
    Raise(usize),
    /// The level may fall to this one, if SAFE holds with the larger set of tasks that is guaranteed there.
    MayLower(usize),
}

/// The scale level of a partition and the samples behind it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScaleEstimator {
    level: usize,
    /// measured / budget in the unit of [`SCALES`].
    ring: heapless::Vec<u32, RING>,
    /// The number of samples since the start.
    taken: usize,
    calm_samples: u32,
    calm_since: Instant,
}

impl Default for ScaleEstimator {
    fn default() -> Self {
        Self {
            level: 0,
            ring: heapless::Vec::from_array([0; RING]),
            taken: 0,
            calm_samples: 0,
            calm_since: Instant::ZERO,
        }
    }
}

impl ScaleEstimator {
    /// Whether it is whole.
    pub fn is_sound(&self) -> bool {
        self.ring.len() == RING && self.level < SCALES.len()
    }

    pub const fn level(&self) -> usize {
        self.level
    }

    pub fn set_level(&mut self, level: usize, now: Instant) {
        self.level = level;
        self.calm_samples = 0;
        self.calm_since = now;
    }

    /// Records how long a stage took, against its profiled budget without the scale.
    pub fn sample(&mut self, measured: Nanos, budget: Nanos, now: Instant) -> Change {
        let ratio = u128::from(measured.as_nanos()) * u128::from(SCALES[0])
            / u128::from(budget.as_nanos().max(1));
        let ratio = u32::try_from(ratio).unwrap_or(u32::MAX);
        self.ring[self.taken % RING] = ratio;
        self.taken += 1;
        if let Some(level) = self.raised() {
            return Change::Raise(level);
        }
        self.calm(ratio, now)
    }

    /// The level to rise to, if the newest samples exceed the present one.
    fn raised(&self) -> Option<usize> {
        let newest = self.taken.min(NEWEST);
        let exceeding = (1..=newest)
            .map(|back| self.ring[(self.taken - back) % RING])
            .filter(|&ratio| u64::from(ratio) > SCALES[self.level])
            .count();
        if exceeding < NEWEST_EXCEEDING || self.level + 1 == SCALES.len() {
            return None;
        }
        let mut sorted = self.ring.clone();
        let known = &mut sorted[..self.taken.min(RING)];
        known.sort_unstable();
        // At once the level that covers the 95% quantile, not one step at a time.
        let quantile = known[(known.len() * 95).div_ceil(100) - 1];
        let covering = SCALES.iter().position(|&s| s >= u64::from(quantile));
        Some(covering.unwrap_or(SCALES.len() - 1).max(self.level + 1))
    }

    /// The level to fall to, if all samples have been calm for long enough.
    fn calm(&mut self, ratio: u32, now: Instant) -> Change {
        let Some(lower) = self.level.checked_sub(1) else {
            return Change::None;
        };
        if u64::from(ratio) * 100 >= SCALES[lower] * CALM_PERCENT {
            self.calm_samples = 0;
            self.calm_since = now;
            return Change::None;
        }
        self.calm_samples = self.calm_samples.saturating_add(1);
        if self.calm_samples >= CALM_SAMPLES && now.since(self.calm_since) >= CALM_TIME {
            return Change::MayLower(lower);
        }
        Change::None
    }
}
