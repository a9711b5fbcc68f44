//! Rates that differ from minute to minute, in the shapes that Clockwork names in the trace of
//! serverless functions that it replays (section 6.5): heavy and sustained, cold, bursty, and
//! spikes each 5, 15 or 60 minutes. The trace itself is not used; what is synthesised here is a
//! Poisson stream whose rate is constant within a minute.

use serde::{Deserialize, Serialize};

use punctual_types::Random;

/// How the minutes of a stream differ. Each has the mean rate that its pattern asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// The same rate all the time.
    Sustained,
    /// One minute in 20 has requests, the others none.
    Cold,
    /// The logarithm of the rate wanders: deviation 1, correlation 0.8 from minute to minute.
    Bursty,
    /// One minute in each `every` minutes has nine tenths of all requests, the same minute for all streams of this kind.
    Spikes {
        /// Minutes from one to the next, at least 1.
        every: u16,
    },
}

const MINUTE_NS: f64 = 60e9;
const COLD_SHARE: f64 = 0.05;
const SPIKE_SHARE: f64 = 0.9;
const BURSTY_CORRELATION: f64 = 0.8;

#[derive(Debug)]
pub(super) struct Minutes {
    shape: Shape,
    mean: f64,
    minute: u64,
    /// Requests a minute in this one.
    rate: f64,
    /// State of [`Shape::Bursty`]: the logarithm of the rate, standardised.
    wander: f64,
    at: f64,
}

impl Minutes {
    pub(super) fn new(shape: Shape, rate_hz: f64, random: &mut Random) -> Self {
        let mut minutes = Self {
            shape,
            mean: rate_hz * 60.0,
            minute: 0,
            rate: 0.0,
            wander: random.normal(),
            at: 0.0,
        };
        minutes.rate = minutes.draw_rate(random);
        minutes
    }

    /// The next arrival before `end` (ns).
    pub(super) fn arrival(&mut self, random: &mut Random, end: u64) -> Option<u64> {
        loop {
            let next = self.at + random.exponential(MINUTE_NS / self.rate);
            let boundary = (self.minute + 1) as f64 * MINUTE_NS;
            if next < boundary {
                self.at = next;
                return Some(next as u64);
            }
            if boundary >= end as f64 {
                return None;
            }
            // Exponential waiting has no memory: the rest of the wait is drawn anew at the new rate.
            self.at = boundary;
            self.minute += 1;
            self.rate = self.draw_rate(random);
        }
    }

    fn draw_rate(&mut self, random: &mut Random) -> f64 {
        match self.shape {
            Shape::Sustained => self.mean,
            Shape::Cold if random.unit() < COLD_SHARE => self.mean / COLD_SHARE,
            Shape::Cold => 0.0,
            Shape::Bursty => {
                let fresh = (1.0 - BURSTY_CORRELATION * BURSTY_CORRELATION).sqrt();
                let rate = self.mean * (self.wander - 0.5).exp();
                self.wander = BURSTY_CORRELATION * self.wander + fresh * random.normal();
                rate
            }
            Shape::Spikes { every } => {
                let every = u64::from(every.max(1));
                match (every, self.minute % every) {
                    (1, _) => self.mean,
                    (_, 0) => self.mean * every as f64 * SPIKE_SHARE,
                    _ => self.mean * every as f64 * (1.0 - SPIKE_SHARE) / (every - 1) as f64,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn counts(shape: Shape, rate_hz: f64, hours: u64, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let mut minutes = Minutes::new(shape, rate_hz, &mut random);
        let mut counts = vec![0; 60 * hours as usize];
        while let Some(at) = minutes.arrival(&mut random, HOUR_NS * hours) {
            counts[(at / 60_000_000_000) as usize] += 1;
        }
        counts
    }

    #[test]
    fn every_shape_has_the_mean_rate_asked_for() {
        let shapes = [
            Shape::Sustained,
            Shape::Cold,
            Shape::Bursty,
            Shape::Spikes { every: 5 },
            Shape::Spikes { every: 15 },
        ];
        for shape in shapes {
            let total: u32 = (0..20).flat_map(|seed| counts(shape, 2.0, 6, seed)).sum();
            let mean = f64::from(total) / (20.0 * 6.0 * 3_600.0);
            assert!((mean - 2.0).abs() < 0.25, "{shape:?}: {mean}");
        }
    }

    #[test]
    fn spikes_come_in_the_same_minutes_and_hold_most_requests() {
        let counts = counts(Shape::Spikes { every: 15 }, 2.0, 2, 3);
        let spikes: u32 = counts.iter().step_by(15).sum();
        let all: u32 = counts.iter().sum();
        assert!(
            f64::from(spikes) > 0.85 * f64::from(all),
            "{spikes} of {all}"
        );
    }

    #[test]
    fn most_minutes_of_a_cold_stream_are_empty() {
        let counts = counts(Shape::Cold, 0.1, 10, 3);
        let empty = counts.iter().filter(|count| **count == 0).count();
        assert!(empty > counts.len() * 9 / 10, "{empty} of {}", counts.len());
        assert!(empty < counts.len());
    }
}
